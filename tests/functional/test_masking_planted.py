"""A planted secret: no page, answer, file or line of a log shows it to who may not reveal."""

import logging
import re
from collections.abc import Iterator
from html import unescape
from urllib.parse import quote

import pytest
from django.contrib.auth.models import Permission, User
from django.test import Client
from django.urls import reverse

from console.layout.access import Right
from crontasks.notices.conditions import seen_by_workers
from devstack.servers import Servers
from integration.models import (
    ConfigurationChange,
    MaskingRule,
    Queue,
    QueuePartition,
    StoredObject,
)
from tests.functional.test_console_failure_edit import textarea
from tests.functional.test_operator_api_rights import every_operation
from tests.support.every_page import a_cluster_for_it, every_address
from tests.support.operator_api import a_program
from tests.support.planted import Planted, a_planted_world, is_in, rules
from tests.support.rows import a_person

# Pages of one address that show it where nothing is masked.
SHOWING = frozenset(
    {
        *("failure", "edit", "record", "outbox-row", "operation", "queue"),
        *("overview", "charts", "flow", "delivery-endpoint"),
    }
)
EVERY: frozenset[str] = frozenset()
# Of every failure here that says no other.
FINGERPRINT = b"0123456789abcdef"
pytestmark = [pytest.mark.servers, pytest.mark.django_db, pytest.mark.timeout(120)]


@pytest.fixture
def planted(servers: Servers) -> Planted:
    a_cluster_for_it(servers.kafka_bootstrap)
    return a_planted_world()


def somebody(*but: Right) -> Client:
    """The browser of a person with every right but these."""
    client = Client()
    client.force_login(person_without(*but))
    return client


def person_without(*but: Right) -> User:
    person = a_person()
    codes = [right.permission.split(".")[1] for right in Right if right not in but]
    person.user_permissions.set(Permission.objects.filter(codename__in=codes))
    return User.objects.get(pk=person.pk)


def leaving(
    client: Client, planted: Planted, names: frozenset[str] = EVERY
) -> Iterator[tuple[str, bytes]]:
    """Every address of the console, or those of these names, with what it answers."""
    for address in every_address(planted.samples):
        if address.name in names or names is EVERY:
            answer = client.get(address.path)
            yield address.name, b"".join(answer) if answer.streaming else answer.content
    for name, query in planted.lists:
        yield f"{name}?{query}", client.get(reverse(name), query).content


def test_no_page_and_no_file_shows_it_to_who_may_not_reveal(
    planted: Planted, caplog: pytest.LogCaptureFixture
) -> None:
    client, lesser = somebody(Right.REVEAL), somebody(Right.REVEAL, Right.VIEW_PAYLOAD)
    shown = {name for name, content in leaving(client, planted, SHOWING) if is_in(content)}
    assert shown >= SHOWING, "without rules it is there, so that the search would find it"
    rules()
    caplog.set_level(logging.DEBUG)
    left = [*leaving(client, planted), *leaving(lesser, planted, SHOWING)]
    assert [name for name, content in left if is_in(content)] == []
    # By that of a text whoever guesses it would know that they are right.
    assert [name for name, content in left if FINGERPRINT in content] == []
    assert not is_in(caplog.text.encode())
    assert not is_in(str(list(ConfigurationChange.every.values())).encode()), "nor does the audit"


def test_the_operator_api_tells_it_to_no_program(planted: Planted) -> None:
    program = a_program()

    def leaks() -> set[str]:
        samples = {**planted.samples, "message_id": planted.message_id}
        asked = [one for one in every_operation(samples) if one.method == "GET"]
        answers = {one.name: program.ask("GET", one.path).content for one in asked}
        assert [name for name, content in answers.items() if FINGERPRINT in content] == []
        return {name for name, content in answers.items() if is_in(content)}

    rooms = {name.partition("_")[0] for name in leaks() if "payload" in name}
    assert rooms == {"failures", "outbox", "messages"}
    rules()
    assert leaks() == set()


def test_no_answer_to_a_form_shows_it(planted: Planted) -> None:
    client, number = somebody(Right.REVEAL), planted.error.pk
    rules()
    text = textarea(client.get(reverse("edit", args=[number])).text)
    forms = [
        ("check", {"text": text, "version": "0"}),
        ("edit", {"text": text.replace('"order": 8', '"order": 9'), "version": "0"}),
        ("edit", {"text": text + "}", "version": "0"}),
        ("release", {"version": "99"}),
        ("reveal", {"reason": "curious"}),
    ]
    answers = [client.post(reverse(name, args=[number]), form) for name, form in forms]
    assert [answer.status_code for answer in answers] == [200, 422, 422, 409, 403]
    assert not any(is_in(answer.content) for answer in answers)
    assert "⟦masked 1⟧" in answers[0].text


@pytest.mark.parametrize("name", ["outbox-row", "tracked-message"])
def test_outgoing_and_tracked_messages_are_revealed_as_failures_are(
    planted: Planted, name: str
) -> None:
    rules()
    client = Client()
    client.force_login(User.objects.create_superuser("root"))
    number = planted.samples["row_id"]
    address = {
        "outbox-row": reverse("outbox-row", args=[number]),
        "tracked-message": f"{reverse('tracked-message')}?id={quote(planted.message_id, safe='')}",
    }[name]
    page = client.get(address)
    assert not is_in(page.content)
    to = re.search(r'action="([^"]*reveals[^"]*)"', page.text)
    assert to is not None
    client.post(unescape(to[1]), {"reason": "the partner asks"})
    assert is_in(client.get(address).content)
    assert ConfigurationChange.every.filter(action="reveal", reason="the partner asks").exists()
    client.post(unescape(to[1]), {"to": "mask"})
    assert not is_in(client.get(address).content)


def test_what_the_engine_words_itself_of_an_outage_stays(planted: Planted) -> None:
    own = "No broker answers"
    places = QueuePartition.objects.filter(partition=5)
    places.update(state_code="KAFKA_UNAVAILABLE", state_text=own)
    rules()
    assert own in str(seen_by_workers(is_settled=False))
    other = Queue.objects.exclude(pk=planted.queue.pk)[0]
    MaskingRule.objects.update(queue=other)
    assert is_in(str(seen_by_workers(is_settled=False)).encode()), "the rules are for another queue"


def test_notices_and_stored_documents_have_it_not(planted: Planted) -> None:
    client = Client()
    client.force_login(User.objects.create_superuser("root"))
    number = StoredObject.objects.get().pk
    address = reverse("admin:integration_storedobject_change", args=[number])

    def told() -> bytes:
        return str(seen_by_workers(is_settled=False)).encode()

    assert is_in(told())
    assert is_in(client.get(address).content)
    rules()
    assert not is_in(told())
    page = client.get(address)
    assert page.status_code == 200
    assert not is_in(page.content)
    assert "⟦masked 1⟧" in page.text
