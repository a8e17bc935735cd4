"""What pages say of the operator API: the reference, and a list's own call."""

import json
import re
import shlex
from html import unescape
from pathlib import Path
from urllib.parse import urlencode

import pytest
from django.test import Client
from django.urls import reverse

import console
from console.api.calls import call_of
from console.api.document import PREFIX
from integration.models import Endpoint, ExternalSystem, MessageError
from integration.policy.states import BulkState, OperationState
from integration.selectors.failures.causes import By
from sluice_cli.operations import every
from tests.support.command_line import a_command_line
from tests.support.every_page import a_world, every_address
from tests.support.operator_api import a_program, facts
from tests.support.rows import a_held, a_message_to_send, a_person, a_queue_row

pytestmark = [pytest.mark.servers, pytest.mark.django_db]

TEMPLATES = Path(console.__file__).with_name("templates")
# The pages about a thing, or a list without a filter, that offer a call.
OFFERING = frozenset(
    {
        *("failures", "failure-list", "failure", "operations", "operation", "queues", "queue"),
        *("outbox", "outbox-row", "delivery", "delivery-endpoint", "tracking", "notices"),
        *("cron", "bulk", "changes"),
    }
)


@pytest.fixture
def client() -> Client:
    found = Client()
    found.force_login(a_person("Administrators"))
    return found


def calls_on(page: str) -> tuple[str, list[list[str]]]:
    """The address and the commands that a page offers to be copied."""
    text = unescape(page.partition('id="api-call"')[2].partition(">")[2].partition("</text")[0])
    curl, *commands = text.split("\n\n")
    address = shlex.split(curl)[1]
    assert address.startswith("$SLUICE_URL"), "the shell puts it in"
    return address.removeprefix("$SLUICE_URL"), [shlex.split(command) for command in commands]


def call_on(page: str) -> tuple[str, list[str]]:
    """The address and the command that says the same."""
    address, commands = calls_on(page)
    return address, commands[0]


def carried_out(page: str) -> list[str]:
    """Whatever a page offers does what it says when it is copied. Returns the commands' names."""
    program = a_program()
    address, commands = calls_on(page)
    facts(program.get(address.removeprefix(PREFIX)))
    sluice = a_command_line(program)
    for _, *words in commands:
        done = sluice(*words)
        assert done.exit_code == 0, (words, done.output)
    return [" ".join(words[1:3]) for words in commands]


def called_in_templates() -> set[str]:
    return {
        name
        for file in TEMPLATES.rglob("*.html")
        for name in re.findall(r'{% api_call "([^"]+)"', file.read_text())
    }


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
        *(("failures", {"by": by.value}) for by in By),
        ("failures", {"by": "cause", "state": "HOLD", "code": "IT'S $ODD"}),
        ("failure-list", {"state": "HOLD", "code": "IT'S $ODD", "queue": ""}),
        *(("operations", {"state": state}) for state in ("", *OperationState)),
        ("queues", {"state": "NEED", "kind": "sequential"}),
        ("cron", {"state": "paused", "q": "a"}),
        *(("bulk", {"state": state}) for state in ("", *BulkState)),
        ("changes", {"action": "create"}),
        ("outbox", {"state": "PENDING", "topic": "a b"}),
        ("tracking", {"id": "m/1~x y", "hours": "168"}),
        ("notices", {"kind": "BLOCKED"}),
    ],
)
def test_every_list_offers_calls_that_are_understood(
    client: Client, page: str, query: dict[str, str]
) -> None:
    a_held(a_queue_row(), code="IT'S $ODD")
    offered = client.get(reverse(page), query).text
    carried_out(offered)
    said = [value for value in query.values() if value]
    address, _ = call_on(offered)
    assert all(urlencode({"": value})[1:] in address for value in said)


def test_every_page_that_offers_a_call_offers_one_that_works(client: Client) -> None:
    world = a_world()
    offered = set()
    for page in every_address(world):
        if page.name in OFFERING:
            offered |= set(carried_out(client.get(page.path).text))
    story = carried_out(client.get(reverse("tracked-message"), {"id": world["message_id"]}).text)
    assert offered | set(story) == called_in_templates() | {"operations plan"}


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
        offered = client.get(page).text
        address, _ = call_on(offered)
        assert facts(a_program().get(address.removeprefix(PREFIX)))[member] == value
        carried_out(offered)


def test_no_call_is_of_an_operation_that_is_not_there() -> None:
    with pytest.raises(LookupError):
        call_of("failures explode")
    assert re.fullmatch(r'curl "\$SLUICE_URL"/operator\S+ -H .*', call_of("queues list").curl)
