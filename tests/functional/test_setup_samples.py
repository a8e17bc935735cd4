"""The sample that a test message begins with: made up, copied from a stored one, or told."""

import json
from datetime import timedelta
from typing import Any

import pytest
from django.contrib.auth.models import Group, Permission, User
from django.test import Client
from django.urls import reverse
from django.utils import timezone
from lxml import etree

from console.models import Limit
from integration.models import (
    EnterpriseService,
    ExternalSystem,
    MaskingRule,
    ObjectStructure,
    OutboxRow,
)
from integration.paths import compile_path, key_of
from integration.selectors.setup.samples import sample_of
from tests.support.rows import a_held, a_person, a_queue_row, an_envelope

pytestmark = [pytest.mark.servers, pytest.mark.django_db]
APPLIED: dict[str, Any] = {"state": "RESOLVED", "ended": "APPLIED", "closed_at": timezone.now()}


@pytest.fixture
def client() -> Client:
    client = Client()
    client.force_login(a_person("Editors", "eve"))
    return client


def test_the_payload_begins_as_the_structure_wants_it(client: Client) -> None:
    schema = {
        "type": "object",
        "required": ["type", "area"],
        "properties": {"type": {"enum": ["ROOM"]}, "area": {"type": "number", "minimum": 2}},
    }
    places = ObjectStructure.objects.create(
        name="places", key_paths=["$.id", "$.site.code"], json_schema=schema
    )
    service = EnterpriseService.objects.create(interface="PLACES", structure=places)
    queue = a_queue_row(default_service=service)
    page = client.get(reverse("test-message", args=[queue.name]))
    form = page.context["form"]
    assert form["interface"].value() == "PLACES"
    assert json.loads(form["payload"].value()) == {
        "type": "ROOM",
        "area": 2,
        "id": "TEST-1",
        "site": {"code": "TEST-1"},
    }
    assert "structure places" in page.text


def test_another_service_is_filled_in_on_request(client: Client) -> None:
    trees = ObjectStructure.objects.create(name="trees", key_paths=["/Tree/Id", "/Tree/Site"])
    EnterpriseService.objects.create(interface="TREES", structure=trees)
    queue = a_queue_row()
    page = client.post(
        reverse("test-message", args=[queue.name]),
        {"interface": "TREES", "payload": "x", "fill": "1", "key": "k"},
    )
    assert page.status_code == 200
    assert "<Id>TEST-1</Id>" in page.context["form"]["payload"].value()
    assert page.context["form"]["key"].value() == "k"
    assert not OutboxRow.objects.exists()


@pytest.mark.parametrize(
    ("paths", "written"),
    [
        (
            ["/Set/PO/NUM", "/Set/PO/SITE"],
            "<Set><PO><NUM>TEST-1</NUM><SITE>TEST-1</SITE></PO></Set>",
        ),
        (
            ["/Set/PO/NUM", "/Set/@org", "/Set/PO/Site/text()"],
            '<Set org="TEST-1"><PO><NUM>TEST-1</NUM><Site>TEST-1</Site></PO></Set>',
        ),
        (["//NUM", "/PO/Site/@id"], '<PO><Site id="TEST-1"/><NUM>TEST-1</NUM></PO>'),
        (["/PO/Line/NUM", "//Line/@id"], '<PO><Line id="TEST-1"><NUM>TEST-1</NUM></Line></PO>'),
        (["/PO"], "<PO>TEST-1</PO>"),
    ],
    ids=["two", "three", "descent", "shared descent", "root"],
)
def test_the_paths_of_a_structure_meet_in_one_document(paths: list[str], written: str) -> None:
    sample = sample_of(ObjectStructure(key_paths=paths))
    document = etree.fromstring(sample, etree.XMLParser(remove_blank_text=True))
    assert etree.tostring(document, encoding="unicode") == written
    assert key_of([compile_path(path) for path in paths], document).count("TEST-1") == len(paths)


def test_a_document_of_xml_has_a_version_where_the_structure_reads_it() -> None:
    sample = sample_of(ObjectStructure(key_paths=["/PO/NUM"], version_path="/PO/@rowstamp"))
    document = etree.fromstring(sample)
    assert compile_path("/PO/@rowstamp").first(document) == "1"
    assert compile_path("/PO/NUM").first(document) == "TEST-1"


@pytest.mark.parametrize("paths", [["/PO", "/PO/NUM"], ["/PO/NUM", "/PO"]])
def test_a_path_that_leads_to_the_elements_of_another_gets_no_text(paths: list[str]) -> None:
    sample = sample_of(ObjectStructure(key_paths=paths))
    assert "".join(sample.split()) == "<PO><NUM>TEST-1</NUM></PO>"


def test_without_a_structure_the_newest_applied_message_is_copied(client: Client) -> None:
    service = EnterpriseService.objects.create(interface="OBEY")
    queue = a_queue_row(default_service=service)
    now = timezone.now()
    for age, fields in enumerate(
        (
            {"payload": an_envelope({"n": 1}), "code": "BAD_VALUE"},
            {"payload": b"\xff\xfe", **APPLIED},
            {"payload": an_envelope({"n": 3}), "edited_payload": an_envelope({"n": 4})} | APPLIED,
            {"payload": an_envelope({"n": 5}), **APPLIED},
            {"payload": an_envelope({"n": 6}), "interface": "OTHER", **APPLIED},
        )
    ):
        values = {"interface": "OBEY", "last_failed_at": now - timedelta(hours=age), **fields}
        a_held(queue, offset=age, **values)
    page = client.get(reverse("test-message", args=[queue.name]))
    assert json.loads(page.context["form"]["payload"].value()) == {"n": 4}
    assert f"a real message in {queue.name} that was applied" in page.text


def test_a_message_that_only_failed_is_copied_with_its_code(client: Client) -> None:
    EnterpriseService.objects.create(interface="OBEY")
    queue = a_queue_row()
    a_held(queue, interface="OBEY", payload=b"<A/>", code="BAD_VALUE")
    form = {"interface": "OBEY", "fill": "1"}
    page = client.post(reverse("test-message", args=[queue.name]), form)
    assert page.context["form"]["payload"].value() == "<A/>"
    assert "failed with BAD_VALUE: correct it" in page.text


def test_a_masked_sample_is_not_sent_before_its_placeholders_are_replaced(client: Client) -> None:
    MaskingRule.objects.create(name="cards", path="$.card")
    service = EnterpriseService.objects.create(interface="OBEY")
    queue = a_queue_row(default_service=service)
    a_held(queue, interface="OBEY", payload=an_envelope({"n": 1, "card": "4000-1234"}), **APPLIED)
    address = reverse("test-message", args=[queue.name])
    page = client.get(address)
    payload = page.context["form"]["payload"].value()
    assert "⟦masked 1⟧" in payload
    assert "write a value of your own for each placeholder" in page.text
    form = {"interface": "OBEY", "payload": payload, "wrapped": "on"}
    answer = client.post(address, form)
    assert answer.status_code == 422
    assert "“⟦masked 1⟧” stands for a hidden value" in answer.text
    assert not OutboxRow.objects.exists()
    own = payload.replace("⟦masked 1⟧", "4000-0000")
    assert client.post(address, {**form, "payload": own}).status_code == 303


@pytest.mark.parametrize("lack", ["right", "scope", "rows"])
def test_what_a_person_may_not_see_is_not_copied_but_what_to_write_is_told(
    client: Client, lack: str
) -> None:
    service = EnterpriseService.objects.create(interface="OBEY")
    mine, theirs = (ExternalSystem.objects.create(name=name) for name in ("mine", "theirs"))
    queue = a_queue_row("mine", default_service=service, system=mine)
    other = a_queue_row("theirs", system=theirs)
    if lack != "rows":
        place = other if lack == "scope" else queue
        a_held(place, interface="OBEY", payload=an_envelope({"secret": 1}), **APPLIED)
    person = User.objects.get(username="eve")
    if lack == "right":
        permission = Permission.objects.get(codename="view_payload")
        Group.objects.get(name="Editors").permissions.remove(permission)
    if lack == "scope":
        Limit.objects.create(person=person).systems.add(mine)
    page = client.get(reverse("test-message", args=[queue.name]))
    assert page.context["form"]["payload"].value() == ""
    assert "secret" not in page.text
    told = "do not have the right to see payloads" if lack == "right" else "No message of OBEY"
    assert told in page.text
    assert "as the handler tests.support.world.handlers.one takes it" in page.text
