"""What the command line prints of an answer, and how it ends."""

import json
from collections.abc import Callable, Iterator, Mapping
from itertools import count
from pathlib import Path
from typing import Any

import pytest

from console.api.urls import document
from integration.actions.check import Ending
from integration.models import EnterpriseService, ExternalSystem, MessageError, Queue
from sluice_cli import main, operations, showing
from tests.support.command_line import Sluice, a_command_line
from tests.support.every_page import a_world
from tests.support.operator_api import a_program
from tests.support.rows import a_held, a_queue_row

pytestmark = [pytest.mark.servers, pytest.mark.django_db]
Words = Callable[[int], str]


@pytest.fixture
def sluice() -> Sluice:
    return a_command_line(a_program())


def sample(schema: Mapping[str, Any], words: Words, numbers: Iterator[int]) -> Any:
    """An answer of this schema in which no two values are the same, two of each list."""
    found = operations._resolved(document(), schema)
    found = found["anyOf"][0] if "anyOf" in found else found
    made: Any = words(next(numbers))
    match found.get("type"):
        case None if "$ref" in found:
            made = sample(found, words, numbers)
        case "object":
            parts = found.get("properties") or {"one": {}, "two": {}}
            made = {name: sample(part, words, numbers) for name, part in parts.items()}
        case "array":
            parts = found.get("prefixItems") or [found["items"]] * 2
            made = [sample(part, words, numbers) for part in parts]
        case "integer" | "number":
            made = next(numbers)
        case "boolean":
            made = True
        case _:
            pass
    return made


def values_in(answer: object) -> Iterator[str]:
    if isinstance(answer, dict):
        for value in answer.values():
            yield from values_in(value)
    elif isinstance(answer, list):
        for value in answer:
            yield from values_in(value)
    else:
        yield from ("yes" if answer is True else str(answer)).split("\n")


def answers() -> Iterator[tuple[operations.Operation, dict[str, Any]]]:
    """The schema of every answer in JSON, with its operation."""
    for one in operations.every():
        said = document()["paths"][one.path][one.method.lower()]["responses"]
        good = next(content for status, content in said.items() if status.startswith("2"))
        schema = good["content"].get("application/json", {}).get("schema")
        if schema:
            yield one, schema


@pytest.mark.parametrize(
    "words",
    [
        lambda number: f"word-{number}",
        lambda number: f"A sentence of many words, so that no table of them has room: {number}.",
        lambda number: f"{number}, and\nanother line: {number}",
    ],
    ids=["words", "sentences", "texts"],
)
@pytest.mark.parametrize("width", [60, 200])
def test_whatever_an_answer_has_is_printed_or_named(words: Words, width: int) -> None:
    kinds = set()
    for operation, schema in answers():
        answer = sample(schema, words, count(1000))
        listed = showing.list_in(answer)
        kinds.add(listed is None)
        assert operation.place == "" or listed is not None, "what has pages is a list"
        if listed is None:
            printed = showing.facts(answer, width)
            missing = [one for one in values_in(answer) if one not in printed]
            assert not missing, (operation.command, printed)
        else:
            rows = listed[1]
            columns = showing.table(rows, width).split("\n")[0].lower().split()
            left = showing.left_out(rows, width)
            missing = [name for name in rows[0] if not (name in left or name[:8] in str(columns))]
            assert not missing, operation.command
    assert kinds == {True, False}


def test_what_has_no_value_takes_no_line() -> None:
    answer: dict[str, Any] = {
        "id": 7,
        "code": None,
        "text": "",
        "sent": 0,
        "is_open": False,
        "headers": [],
        "circuit": {"state": None, "tries": []},
        "tables": [{"table": "a", "rows": 2, "why": None}, {"table": "bb", "rows": 0, "why": ""}],
    }
    assert showing.facts(answer, 80).split("\n") == [
        "id       7",
        "sent     0",
        "is_open  no",
        "tables",
        "  TABLE  ROWS",
        "  a      2",
        "  bb     0",
    ]
    assert showing.facts({"code": None}) == "None."


def test_a_text_keeps_its_lines_and_steers_no_terminal() -> None:
    assert showing.facts({"text": "{\n\t\x1b[2J\n}"}).split("\n") == [
        "text",
        "  {",
        "       [2J",
        "  }",
    ]


def a_failure(payload: str, offset: int = 10) -> MessageError:
    """On hold, for the handler that does what its messages say."""
    service, _ = EnterpriseService.objects.get_or_create(interface="OBEY")
    queue = Queue.objects.filter(default_service=service).first()
    queue = queue or a_queue_row("continuous", default_service=service)
    held = {"interface": "OBEY", "headers": [], "arrival_batch": 5, "arrival_index": 10}
    return a_held(queue, offset, payload=payload.encode(), **held)


def test_a_check_says_how_it_ended_and_so_does_its_exit_code(sluice: Sluice) -> None:
    good = sluice("failures", "check", str(a_failure('{"n": 7}').pk))
    assert (good.exit_code, good.output.split()[:2]) == (0, ["ending", "APPLIED"])
    assert "INSERTED" in good.output
    error = a_failure('{"n": 7, "do": "permanent"}', offset=11)
    bad = sluice("failures", "check", str(error.pk))
    assert (bad.exit_code, bad.output.split()[:2]) == (1, ["ending", "FAILED"])
    as_json = sluice("failures", "check", str(error.pk), "--json")
    assert as_json.exit_code == 1
    told = json.loads(as_json.output)
    lines = [" ".join(line.split()) for line in bad.output.split("\n")]
    assert {f"code {told['code']}", f"text {told['text']}"} <= set(lines)


def test_a_check_that_was_not_run_says_why_and_is_no_good_one(sluice: Sluice) -> None:
    EnterpriseService.objects.create(interface="ELSEWHERE")
    text = '{"interfacetype": "X", "INTERFACE": "ELSEWHERE", "payload": {"n": 1}}'
    told = sluice("failures", "check", str(a_failure(text).pk))
    assert (told.exit_code, told.output.split()[:2]) == (1, ["ending", "NOT_RUN"])
    assert "SLUICE_INTEGRATIONS" in told.output


def test_what_ends_a_command_is_known_to_the_api() -> None:
    known = {one.command for one in operations.every()}
    assert main.VERDICTS.keys() | main.STEPS.keys() <= known
    assert set(Ending) - main.GOOD_ENDINGS == {"FAILED", "REFUSED", "KEPT", "TIMED_OUT", "NOT_RUN"}


def test_an_endpoint_that_cannot_be_reached_is_told_by_the_exit_code(sluice: Sluice) -> None:
    world = a_world()
    told = sluice("endpoints", "test", world["name"])
    assert told.exit_code == 1
    assert "is_good" in told.output


def test_a_payload_without_headers_is_printed(sluice: Sluice) -> None:
    told = sluice("failures", "read-payload", str(a_failure('{"n": 7}').pk))
    assert '"n"' in told.output
    assert "headers" not in told.output


def test_what_a_table_leaves_out_is_named(sluice: Sluice) -> None:
    world = a_world()
    told = sluice("changes", "list", "--name", world["name"])
    assert "after" in told.stderr.partition("Left out: ")[2]


FILE = """format: 1
providers:
- name: plant
  bootstrap_servers: kafka:9092
  properties: {client.id: sluice, linger.ms: LINGER}
systems:
- name: eam
  description: DESCRIPTION
"""


def test_a_configuration_file_is_planned_and_applied(sluice: Sluice, tmp_path: Path) -> None:
    file = tmp_path / "sluice.yaml"
    file.write_text(FILE.replace("LINGER", "5").replace("DESCRIPTION", "Assets"))
    planned = sluice("configuration", "plan", str(file))
    assert planned.exit_code == 2, "as manage.py config plan ends where there is something to do"
    assert not ExternalSystem.objects.exists()
    lines = planned.output.split("\n")
    assert "+ external system eam" in lines
    assert '    description: "Assets"' in lines
    assert any("defaults (--json has them)" in line for line in lines)
    applied = sluice("configuration", "apply", str(file), "--reason", "live")
    assert (applied.exit_code, applied.output.split()[-1]) == (0, "done.")
    assert "name: eam" in sluice("configuration", "export").output
    again = sluice("configuration", "plan", str(file))
    assert (again.exit_code, again.output) == (0, "No changes.\n")


def test_a_plan_tells_of_each_field_what_it_was_and_will_be(sluice: Sluice, tmp_path: Path) -> None:
    file = tmp_path / "sluice.yaml"
    file.write_text(FILE.replace("LINGER", "5").replace("DESCRIPTION", "Assets"))
    sluice("configuration", "apply", str(file))
    file.write_text(FILE.replace("LINGER", "50").replace("DESCRIPTION", "Orders"))
    lines = sluice("configuration", "plan", str(file)).output.split("\n")
    assert '    description: "Assets" -> "Orders"' in lines
    assert "    properties.linger.ms: 5 -> 50" in lines
    assert "client.id" not in "".join(lines), "of a mapping only what differs"
    assert json.loads(sluice("configuration", "plan", str(file), "--json").output)["steps"]
    pruned = sluice("configuration", "plan", str(file), "--prune").output
    assert pruned.startswith("~ ")


def test_a_mistake_in_a_file_has_its_line_once(sluice: Sluice, tmp_path: Path) -> None:
    file = tmp_path / "sluice.yaml"
    file.write_text("format: 1\nsystems:\n- name: eam\n  colour: red\n")
    refused = sluice("configuration", "plan", str(file))
    assert refused.exit_code == 1
    [line] = [line for line in refused.stderr.split("\n") if "colour" in line]
    assert line.startswith("  line 4: systems eam, colour: ")
    assert line.count("line 4") == 1
