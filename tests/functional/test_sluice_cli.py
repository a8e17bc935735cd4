"""The command line: every operation is a command, and does what the API does."""

import json
from pathlib import Path
from typing import Any

import click
import httpx
import pytest
from click.testing import CliRunner

from console.api.urls import document
from integration.models import Operation
from integration.selectors.failures.cause_ids import cause_id
from sluice_cli import asking, operations, showing
from sluice_cli.asking import NotConnectedError, connected
from sluice_cli.main import built
from tests.support.command_line import Sluice, a_command_line, through
from tests.support.http_api import problem
from tests.support.operator_api import a_program, application
from tests.support.rows import a_blocked_queue, a_held, a_message_to_send, a_queue_row

pytestmark = [pytest.mark.servers, pytest.mark.django_db]


@pytest.fixture
def sluice() -> Sluice:
    return a_command_line(a_program())


def test_the_document_of_the_commands_is_that_of_the_api() -> None:
    """If it is not: manage.py operator_api_document."""
    assert json.loads(operations.DOCUMENT.read_text()) == document()


def test_every_operation_is_a_command_of_its_own_that_explains_itself() -> None:
    every = operations.every()
    assert len(every) == sum(map(len, document()["paths"].values()))
    assert len({(one.group, one.name) for one in every}) == len(every)
    for one in every:
        told = CliRunner().invoke(built(), [one.group, one.name, "--help"])
        assert told.exit_code == 0, told.output
        assert one.text.split("\n")[0].split()[0] in told.output


def test_a_list_is_a_table_or_json_and_read_to_its_end(sluice: Sluice) -> None:
    queue = a_queue_row("continuous")
    held = {str(a_held(queue, offset=number).pk) for number in range(3)}
    table = sluice("failures", "list", "--queue", queue.name)
    assert table.output.splitlines()[0].startswith("ID ")
    assert len(table.stdout.splitlines()) == 4
    page = json.loads(sluice("failures", "list", "--size", "2", "--json").output)
    assert len(page["failures"]) == 2
    lines = sluice("failures", "list", "--size", "2", "--all", "--json").stdout.splitlines()
    assert {json.loads(line)["id"] for line in lines} == held
    assert "use --all" in sluice("failures", "list", "--size", "2").stderr


def test_the_words_of_the_console_are_options(sluice: Sluice) -> None:
    a_blocked_queue()
    a_held(a_queue_row(), fingerprint="fedcba9876543210", interface="Other")
    for asked in (["--cause", cause_id("fedcba9876543210")], ["--service", "Other"]):
        found = json.loads(sluice("failures", "list", *asked, "--json").output)
        assert [row["interface"] for row in found["failures"]] == ["Other"]


def choices_of(schema: dict[str, Any]) -> list[str]:
    """The words that a value of this schema may be, wherever the document lists them."""
    if refers := schema.get("$ref", ""):
        return choices_of(document()["components"]["schemas"][refers.rpartition("/")[2]])
    inner = [*schema.get("allOf", ()), *schema.get("anyOf", ())]
    return [*schema.get("enum", ()), *(word for one in inner for word in choices_of(one))]


def test_an_option_that_takes_one_of_some_words_lists_them() -> None:
    found = 0
    for one in operations.every():
        said = document()["paths"][one.path][one.method.lower()]
        schemas = {part["name"]: part["schema"] for part in said.get("parameters", ())}
        body = said.get("requestBody", {}).get("content", {}).get("application/json", {})
        schemas |= operations._resolved(document(), body.get("schema", {})).get("properties", {})
        help_ = " ".join(
            CliRunner().invoke(built(), [one.group, one.name, "--help"]).output.split()
        )
        for field in (*one.query, *one.body):
            words = choices_of(schemas[field.name])
            assert list(field.choices) == words, (one.command, field.name)
            assert not words or f"[{'|'.join(words)}]" in help_
            found += bool(words)
    assert found > 5


def test_a_failure_is_released_and_what_is_refused_says_why(sluice: Sluice) -> None:
    _, _, error = a_blocked_queue()
    asked = ["failures", "release", str(error.pk), "--version", "1", "--reason", "mended"]
    done = sluice(*asked)
    assert (done.exit_code, "READY" in done.output) == (0, True)
    refused = sluice("failures", "hold", str(error.pk), "--version", "1")
    assert refused.exit_code == 1
    assert refused.stderr.startswith("STATE_MISMATCH: ")
    assert sluice("failures", "hold", str(error.pk)).exit_code == 2


def test_a_row_is_given_up_and_a_message_is_found_and_told_of(sluice: Sluice) -> None:
    queue = a_queue_row(direction="outbound")
    row = a_message_to_send(queue, "DEAD", message_id="m/1~x y")
    assert "m/1~x y" in sluice("outbox", "list", "--queue", queue.name).output
    done = sluice("outbox", "give-up", str(row.pk), "--reason", "obsolete")
    assert (done.exit_code, "CANCELLED" in done.output) == (0, True)
    again = sluice("outbox", "send-again", str(row.pk))
    assert (again.exit_code, again.stderr.partition(":")[0]) == (1, "OUTBOX_MISMATCH")
    found = json.loads(sluice("messages", "find", "--id", "m/1~x y", "--json").output)
    told = sluice("messages", "read", "--id", found["untried"])
    assert str(row.pk) in told.output


def test_an_operation_is_planned_by_json_and_by_a_file(sluice: Sluice, tmp_path: Path) -> None:
    queue, _, _ = a_blocked_queue()
    file = tmp_path / "filter.json"
    file.write_text(json.dumps({"queue": queue.name}))
    for given in (f"@{file}", file.read_text()):
        planned = sluice("operations", "plan", "--verb", "hold", "--filter", given, "--json")
        assert json.loads(planned.output)["total"] == 1
    assert sluice("operations", "plan", "--verb", "hold", "--filter", "{").exit_code == 2
    assert Operation.objects.count() == 2


class Shaky(httpx.BaseTransport):
    """Carries the first requests out and loses their answers."""

    def __init__(self, lost: int) -> None:
        self.inner, self.lost = httpx.WSGITransport(app=application()), lost

    def handle_request(self, request: httpx.Request) -> httpx.Response:
        response = self.inner.handle_request(request)
        if self.lost:
            self.lost -= 1
            raise httpx.ReadError("gone", request=request)
        return response


def test_what_was_done_though_the_answer_was_lost_is_not_done_again() -> None:
    a_blocked_queue()
    sluice = through(Shaky(lost=2), a_program())
    planned = sluice("operations", "plan", "--verb", "hold", "--filter", "{}", "--json")
    operation = Operation.objects.get()
    assert json.loads(planned.output)["id"] == str(operation.pk)


def test_nobody_there_is_told_after_some_tries() -> None:
    told = through(Shaky(lost=99), a_program())("queues", "list")
    assert told.exit_code == 3
    assert "Nobody answers" in told.stderr


@pytest.mark.parametrize(
    ("variables", "why"),
    [
        ({}, asking.ADDRESS),
        ({asking.ADDRESS: "sluice.example"}, asking.ADDRESS),
        ({asking.ADDRESS: "https://sluice.example"}, asking.TOKEN),
        ({asking.ADDRESS: "https://a", asking.TOKEN_FILE: "/nowhere"}, asking.TOKEN_FILE),
    ],
    ids=["nothing", "no scheme", "no token", "no file"],
)
def test_what_the_environment_lacks_is_said(variables: dict[str, str], why: str) -> None:
    with pytest.raises(NotConnectedError, match=why):
        connected(variables)


def test_a_token_is_no_option(tmp_path: Path) -> None:
    every = [one for group in built().commands.values() for one in commands_of(group)]
    assert not [one for one in every for name in one.params if "token" in str(name.name)]
    file = tmp_path / "token"
    file.write_text("sluice_abcdefgh_x\n")
    made = connected({asking.ADDRESS: "https://a", asking.TOKEN_FILE: str(file)})
    assert made.client.headers["Authorization"] == "Bearer sluice_abcdefgh_x"


def commands_of(group: Any) -> list[click.Command]:
    return list(group.commands.values())


def test_what_a_sender_wrote_does_not_steer_the_terminal() -> None:
    rows = [{"id": 1, "text": "a\x1b[2Jb\nc", "more": {"x": 1}}]
    assert showing.table(rows, width=80).splitlines()[1:] == ["1   a [2Jb c"]


def test_a_file_is_uploaded_and_what_is_no_upload_stores_nothing(
    sluice: Sluice, settings: Any, tmp_path: Path
) -> None:
    settings.SLUICE_BULK_ROOT = tmp_path / "bulk"
    settings.SLUICE_BULK_ROOT.mkdir()
    file = tmp_path / "Assets.CSV"
    file.write_bytes(b"A,B\n1,2\n")
    stored = json.loads(sluice("bulk", "upload-file", str(file), "--json").output)["source"]
    assert (settings.SLUICE_BULK_ROOT / stored).read_bytes() == file.read_bytes()
    answer = a_program().post("/bulk/uploads", {"file": "no form"})
    problem(answer, 422, "NO_FILE")
    kept = [one for one in settings.SLUICE_BULK_ROOT.rglob("*") if one.is_file()]
    assert kept == [settings.SLUICE_BULK_ROOT / stored]
