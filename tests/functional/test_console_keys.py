"""A failure is known by its key wherever one is listed, and only to who may see payloads."""

import pytest
from django.test import Client
from django.urls import reverse

from integration.models import Endpoint, ExternalSystem, MessageError, Operation
from integration.selectors.failures.payloads import KEY_BYTES, key_text
from integration.selectors.operations.plans import SHOWN_CHARACTERS
from tests.support.operations import plan, run, some_held, started
from tests.support.rows import a_blocked_queue, a_held, a_person, an_envelope

pytestmark = [pytest.mark.servers, pytest.mark.django_db, pytest.mark.usefixtures("valkey")]
KEY = "PO-4711-äö"


def seen_by(role: str, address: str, **query: str) -> str:
    client = Client()
    client.force_login(a_person(role))
    answer = client.get(address, query)
    assert answer.status_code == 200
    return answer.text


def told_and_hidden(address: str, secret: str = KEY, **query: str) -> None:
    assert secret in seen_by("Editors", address, **query)
    assert secret not in seen_by("Operators", address, **query)


def of(operation: Operation) -> str:
    return reverse("operation", args=[operation.pk])


def test_the_list_of_failures_shows_the_key_beside_the_id() -> None:
    [error] = some_held(1, key=KEY.encode())
    told_and_hidden(reverse("failure-list"))
    assert KEY in seen_by("Editors", reverse("failure-list"), text="assetnum")
    assert error.message_id in seen_by("Operators", reverse("failure-list"))


def test_the_messages_behind_a_blocked_one_show_theirs() -> None:
    queue, _, error = a_blocked_queue()
    a_held(queue, 12, key=KEY.encode())
    told_and_hidden(reverse("failure", args=[error.pk]))


def test_the_page_of_a_queue_that_sends_shows_them() -> None:
    endpoint = Endpoint.objects.create(
        name="orders", system=ExternalSystem.objects.create(name="plant"), endpoint_type="http"
    )
    queue, _, error = a_blocked_queue(direction="outbound", endpoint=endpoint)
    MessageError.objects.filter(pk=error.pk).update(key=KEY.encode())
    told_and_hidden(reverse("queue", args=[queue.name]))


def test_a_plan_and_what_became_of_it_show_the_keys() -> None:
    some_held(2, key=KEY.encode())
    operation = plan()
    told_and_hidden(of(operation))
    run(started(operation))
    told_and_hidden(of(operation))
    report = reverse("operation-report", args=[operation.pk])
    client = Client()
    client.force_login(a_person("Editors"))
    assert KEY.encode() not in b"".join(client.get(report))


@pytest.mark.parametrize("verb", ["release", "edit", "delete"])
def test_a_plan_shows_what_its_first_message_holds(verb: str) -> None:
    # What is deleted is deleted from the last one on.
    first, second = some_held(2)[:: -1 if verb == "delete" else 1]
    for error, number in ((first, "FIRST-1"), (second, "SECOND-2")):
        value = an_envelope({"assetnum": number})
        MessageError.objects.filter(pk=error.pk).update(payload=value)
    operation = plan(verb)
    told_and_hidden(of(operation), "FIRST-1")
    assert "SECOND-2" not in seen_by("Editors", of(operation))
    edited = an_envelope({"assetnum": "MENDED-3"})
    MessageError.objects.filter(pk=first.pk).update(edited_payload=edited)
    assert "MENDED-3" in seen_by("Editors", of(operation))


def test_of_a_long_payload_a_plan_shows_the_beginning() -> None:
    long = "x" * SHOWN_CHARACTERS + "THE-END"
    some_held(1, payload=an_envelope({"a": "THE-BEGINNING", "b": long}))
    page = seen_by("Editors", of(plan()))
    assert "THE-BEGINNING" in page
    assert "Only the beginning is shown" in page
    assert "THE-END" not in page


@pytest.mark.parametrize("value", [None, b"\xff\xfe", b"", b"not json"])
def test_whatever_the_first_message_holds_the_plan_is_shown(value: bytes | None) -> None:
    [error] = some_held(1)
    MessageError.objects.filter(pk=error.pk).update(payload=value)
    operation = plan()
    assert "message, as it is now" in seen_by("Editors", of(operation))
    MessageError.objects.all().delete()
    assert "message, as it is now" not in seen_by("Editors", of(operation))


@pytest.mark.parametrize(
    ("start", "shown"),
    [
        (None, ""),
        (b"PO-1", "PO-1"),
        (b"\xff\x00", "0xff00"),
        ("ä".encode() * 100, "ä" * 100),
        (b"a" + "ä".encode() * 99 + b"\xc3", "a" + "ä" * 99),
        (b"\xff" * KEY_BYTES, "0x" + "ff" * KEY_BYTES),
    ],
)
def test_the_beginning_of_a_key_is_text_where_it_can_be(start: bytes | None, shown: str) -> None:
    assert key_text(start) == shown
