"""What pages say of the operator API: the reference, and a list's own call."""

import json
import re
import shlex
from html import unescape
from urllib.parse import urlencode

import pytest
from django.test import Client
from django.urls import reverse

from console.api.calls import call_of
from console.api.document import PREFIX
from integration.models import Endpoint, ExternalSystem, MessageError
from sluice_cli.main import built
from sluice_cli.operations import every
from tests.support.operator_api import a_program, facts
from tests.support.rows import a_held, a_message_to_send, a_person, a_queue_row

pytestmark = [pytest.mark.servers, pytest.mark.django_db]


@pytest.fixture
def client() -> Client:
    found = Client()
    found.force_login(a_person("Administrators"))
    return found


def call_on(page: str) -> tuple[str, list[str]]:
    """The address and the command that a page offers to be copied."""
    text = unescape(page.partition('id="api-call"')[2].partition(">")[2].partition("</text")[0])
    curl, command = text.split("\n\n")[:2]
    address = shlex.split(curl)[1]
    assert address.startswith("$SLUICE_URL"), "the shell puts it in"
    return address.removeprefix("$SLUICE_URL"), shlex.split(command)


def test_the_reference_tells_of_every_operation(client: Client) -> None:
    page = unescape(client.get(reverse("operator-api")).text)
    for one in every():
        assert f">{one.path}<" in page
        assert one.words in page


def test_the_call_of_a_list_finds_what_the_list_shows(client: Client) -> None:
    queue, other = a_queue_row("continuous"), a_queue_row("continuous")
    a_held(queue, offset=1)
    a_held(queue, offset=2, code="IT'S $ODD")
    a_held(other)
    asked = {"queue": queue.name, "code": "IT'S $ODD", "state": ""}
    page = client.get(reverse("failure-list"), asked).text
    address, command = call_on(page)
    found = facts(a_program().get(address.removeprefix(PREFIX)))
    expected = MessageError.objects.get(code="IT'S $ODD")
    assert [row["id"] for row in found["failures"]] == [str(expected.pk)]
    assert command[:3] == ["sluice", "failures", "list"]
    assert set(command[3:]) == {f"--queue={queue.name}", "--code=IT'S $ODD", "--state="}


def test_a_list_of_failures_tells_how_to_act_on_all_of_it(client: Client) -> None:
    queue = a_queue_row("continuous")
    a_held(queue, code="IT'S $ODD")
    a_held(a_queue_row("continuous"))
    plan = shlex.split(call_of("failures list", "queue=" + queue.name + "&state=HOLD").plan)
    assert plan[:4] == ["sluice", "operations", "plan", "--verb=release"]
    wanted = json.loads(plan[4].removeprefix("--filter="))
    planned = a_program().post("/operations", {"verb": "release", "filter": wanted})
    assert facts(planned, 201)["total"] == 1
    assert call_of("failures list", "text=a").plan == ""
    assert call_of("queues list").plan == ""


@pytest.mark.parametrize(
    ("page", "query"),
    [
        ("failures", {"by": "queue"}),
        ("operations", {"state": "PAUSED"}),
        ("queues", {"state": "NEED", "kind": "sequential"}),
        ("cron", {"state": "paused", "q": "a"}),
        ("bulk", {"state": "DONE"}),
        ("changes", {"action": "create"}),
        ("outbox", {"state": "PENDING", "topic": "a b"}),
        ("tracking", {"id": "m/1~x y", "hours": "168"}),
    ],
)
def test_every_list_offers_a_call_that_is_understood(
    client: Client, page: str, query: dict[str, str]
) -> None:
    a_held(a_queue_row())
    address, command = call_on(client.get(reverse(page), query).text)
    assert "?" in address
    facts(a_program().get(address.removeprefix(PREFIX)))
    group = built().commands[command[1]]
    group.commands[command[2]].make_context(command[2], command[3:])  # type: ignore[attr-defined]


def test_a_thing_is_named_in_its_address(client: Client) -> None:
    queue = a_queue_row()
    error = a_held(queue)
    for page, name in (("failure", error.pk), ("queue", queue.name)):
        address, command = call_on(client.get(reverse(page, args=[name])).text)
        facts(a_program().get(address.removeprefix(PREFIX)))
        assert command[-1] == str(name)


def test_the_page_of_a_message_or_an_endpoint_offers_what_finds_just_that(client: Client) -> None:
    queue = a_queue_row()
    row = a_message_to_send(queue, message_id="m/1~x y")
    system = ExternalSystem.objects.create(name="plant")
    Endpoint.objects.create(name="orders", system=system, endpoint_type="file")
    tracked = f"{reverse('tracked-message')}?{urlencode({'id': row.message_id})}"
    for page, member, value in (
        (reverse("outbox-row", args=[row.pk]), "id", row.pk),
        (reverse("delivery-endpoint", args=["orders"]), "name", "orders"),
        (tracked, "id", row.message_id),
    ):
        address, command = call_on(client.get(page).text)
        assert facts(a_program().get(address.removeprefix(PREFIX)))[member] == value
        group = built().commands[command[1]]
        group.commands[command[2]].make_context(command[2], command[3:])  # type: ignore[attr-defined]


def test_no_call_is_of_an_operation_that_is_not_there() -> None:
    with pytest.raises(LookupError):
        call_of("failures explode")
    assert re.fullmatch(r'curl "\$SLUICE_URL"/operator\S+ -H .*', call_of("queues list").curl)
