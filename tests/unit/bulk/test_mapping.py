"""From rows to documents, and what is wrong with the others."""

import json
from typing import Any

import pytest

from integration.envelope import Flaw as DocumentFlaw
from integration.envelope.json_text import parse_json
from spark_jobs.contract import Arguments
from spark_jobs.errors import JobError, balance
from spark_jobs.imports.mapping import Document, Mapper, Rejected
from spark_jobs.imports.rows import Flaw, Row
from tests.unit.bulk.job_requests import STRUCTURE, import_parameters

NAMES = ["num", "site", "weight", "bought", "active", "more"]
COLUMNS = [
    {"source": "num", "target": "assetnum", "required": True},
    {"source": "site", "target": "siteid"},
    {"source": "weight", "target": "facts.weight", "kind": "number"},
    {"source": "bought", "target": "facts.bought", "kind": "date"},
    {"source": "active", "target": "active", "kind": "boolean"},
    {"source": "more", "target": "more", "kind": "json"},
]


def mapped(*values: str, **more: Any) -> Document | Rejected:
    mapper = Mapper(import_parameters(columns=COLUMNS, **more), NAMES)
    return mapper.map(Row(5, ",".join(values), values))


def test_a_row_becomes_the_document_its_map_says() -> None:
    found = mapped("A-1", "BEDFORD", "1.50", "2026-01-31", "yes", '{"x": [1]}')
    assert isinstance(found, Document)
    assert found.text == (
        '{"assetnum":"A-1","siteid":"BEDFORD","facts":{"weight":1.50,"bought":"2026-01-31"},'
        '"active":true,"more":{"x":[1]}}'
    )
    assert found.key == '["A-1","BEDFORD"]'


def test_what_is_empty_is_left_out() -> None:
    found = mapped("A-1", "BEDFORD", "", "", "", "")
    assert isinstance(found, Document)
    assert json.loads(found.text) == {"assetnum": "A-1", "siteid": "BEDFORD"}


@pytest.mark.parametrize(
    ("values", "code"),
    [
        (("", "BEDFORD", "", "", "", ""), "MISSING_VALUE"),
        (("A-1", "", "", "", "", ""), "NO_KEY"),
        (("A-1", "B", "heavy", "", "", ""), "WRONG_KIND"),
        (("A-1", "B", "1e5", "", "", ""), "WRONG_KIND"),
        (("A-1", "B", "", "31.01.2026", "", ""), "WRONG_KIND"),
        (("A-1", "B", "", "2026-W05-1", "", ""), "WRONG_KIND"),
        (("A-1", "B", "", "", "maybe", ""), "WRONG_KIND"),
    ],
)
def test_what_cannot_be_stored_is_rejected_with_its_document(
    values: tuple[str, ...], code: str
) -> None:
    found = mapped(*values)
    assert isinstance(found, Rejected)
    assert found.flaw.code == code
    written = json.loads(found.payload)
    assert written.get("assetnum", "") == values[0], "a person mends what is there"


@pytest.mark.parametrize("place", [2, 3, 4, 5])
def test_what_is_of_another_kind_is_told_without_its_value(place: int) -> None:
    values = ["A-1", "B", "", "", "", ""]
    values[place] = "classified " * 10
    found = mapped(*values)
    assert isinstance(found, Rejected)
    assert found.flaw.code == "WRONG_KIND"
    assert NAMES[place] in found.flaw.text
    assert "classified" not in found.flaw.text
    assert b"classified" in found.payload, "a person mends what is there"


@pytest.mark.parametrize(
    "more", ["{", '{"ssn": "123-45-6789",', '{"ssn": "123-45-6789"}}', '"a\nb"', "NaN", "no json"]
)
@pytest.mark.parametrize("flaw", [None, Flaw("COLUMN_COUNT", "It has more.")])
def test_no_path_is_asked_for_what_is_in_a_text_that_should_be_json(
    more: str, flaw: Flaw | None
) -> None:
    mapper = Mapper(import_parameters(columns=COLUMNS), NAMES)
    found = mapper.map(Row(5, "", ("A-1", "B", "", "", "", more), flaw))
    assert isinstance(found, Rejected)
    assert found.payload.decode() == f'{{"assetnum":"A-1","siteid":"B","more":{more}}}'
    assert isinstance(parse_json(found.payload.decode(), 100), DocumentFlaw)


def test_a_text_that_should_be_json_makes_no_other_members() -> None:
    found = mapped("A-1", "B", "", "", "", '{"x":1},"note":"classified"')
    assert isinstance(found, Rejected)
    assert json.loads(found.payload) == {"assetnum": "A-1", "siteid": "B", "more": None}


def test_the_schema_of_the_structure_judges() -> None:
    schema = {"properties": {"siteid": {"enum": ["BEDFORD"]}}}
    found = mapped(
        "A-1", "ELSEWHERE", "", "", "", "", structure={**STRUCTURE, "json_schema": schema}
    )
    assert isinstance(found, Rejected)
    assert found.flaw.code == "SCHEMA_VIOLATION"


def test_lines_of_json_are_documents_already() -> None:
    mapper = Mapper(import_parameters(format="jsonl", columns=()), [])
    good = mapper.map(Row(1, '{"assetnum": 7.0, "siteid": "B"}'))
    assert good == Document('{"assetnum": 7.0, "siteid": "B"}', '["7","B"]', None)
    for text, code in (("[1]", "NO_OBJECT"), ("{", None), ('{"assetnum": 1}', "NO_KEY")):
        found = mapper.map(Row(2, text))
        assert isinstance(found, Rejected)
        assert code is None or found.flaw.code == code


def test_a_column_that_is_not_there_is_told_before_anything_is_read() -> None:
    with pytest.raises(JobError) as told:
        Mapper(import_parameters(columns=COLUMNS), ["num"])
    assert told.value.code == "UNKNOWN_COLUMN"


def test_a_mapped_column_that_is_there_twice_is_told() -> None:
    with pytest.raises(JobError) as told:
        Mapper(import_parameters(columns=COLUMNS), [*NAMES, "site"])
    assert told.value.code == "COLUMN_TWICE"


@pytest.mark.parametrize(
    "wrong",
    [
        {"format": "doc"},
        {"columns": []},
        {"columns": [{"source": "a", "target": ""}]},
        {"columns": [{"source": "a", "target": "x"}, {"source": "b", "target": "x.y"}]},
        {"columns": [{"source": "a", "target": "x"}, {"source": "b", "target": "x"}]},
        {"columns": [{"source": "a", "target": "x", "kind": "money"}]},
        {"delimiter": ""},
        {"delimiter": '"'},
        {"encoding": "rot13"},
        {"encoding": "cp037"},
        {"encoding": "iso2022_jp"},
        {"encoding": "unicode_escape"},
        {"quote": "\n"},
        {"encoding": "utf-16"},
        {"encoding": "klingon"},
        {"structure": {"name": "A", "key_paths": ["$..a..b"]}},
        {"surprise": 1},
    ],
)
def test_parameters_that_make_no_sense_are_refused(wrong: dict[str, Any]) -> None:
    with pytest.raises(JobError) as told:
        import_parameters(**wrong)
    assert told.value.code == "BAD_PARAMETERS"


def test_arguments_come_back_as_they_were_written() -> None:
    asked = Arguments(
        job="import", run="r", parameters={"a": 1}, database="dbname=x", plan={"p": 1}
    )
    assert Arguments.read(asked.written()) == asked
    for text in ("", "[]", "{}", '{"version": 2}', '{"version": 1, "job": "x"}'):
        with pytest.raises(JobError) as told:
            Arguments.read(text)
        assert told.value.code == "BAD_ARGUMENTS"


def test_counts_balance_when_every_row_went_somewhere() -> None:
    balance({"read": 10, "sent": 7, "rejected": 2, "skipped": 1})
    with pytest.raises(JobError) as told:
        balance({"read": 1, "sent": 0, "rejected": 0, "skipped": 0})
    assert told.value.code == "UNBALANCED"


def test_null_is_a_value_of_the_kind_json() -> None:
    found = mapped("A-1", "B", "", "", "", "null")
    assert isinstance(found, Document)
    assert json.loads(found.text)["more"] is None


def test_a_line_with_a_byte_order_mark_is_stored_without_it() -> None:
    mapper = Mapper(import_parameters(format="jsonl", columns=()), [])
    found = mapper.map(Row(1, '\ufeff{"assetnum": 1, "siteid": "B"}'))
    assert isinstance(found, Document)
    assert found.text.startswith("{")


def test_a_value_that_a_schema_stumbles_over_costs_its_row() -> None:
    schema = {"properties": {"weight": {"minimum": "5"}}}
    parameters = import_parameters(
        format="jsonl", columns=(), structure={**STRUCTURE, "json_schema": schema}
    )
    found = Mapper(parameters, []).map(Row(1, '{"assetnum": 1, "siteid": "B", "weight": 1e40}'))
    assert isinstance(found, Rejected)
    assert found.flaw.code == "UNJUDGED"


STRICT = {
    "properties": {
        "assetnum": {},
        "siteid": {},
        "facts": {"properties": {"weight": {}}, "additionalProperties": False},
    },
    "additionalProperties": False,
}


@pytest.mark.parametrize(
    ("target", "shut_out"),
    [("facts.weight", ""), ("facts.wieght", "facts.wieght"), ("color", "color"), ("siteid", "")],
)
def test_a_map_to_a_field_that_does_not_exist_is_refused_at_once(
    target: str, shut_out: str
) -> None:
    asked = {
        "columns": [{"source": "num", "target": "assetnum"}, {"source": "x", "target": target}],
        "structure": {**STRUCTURE, "json_schema": STRICT},
    }
    if not shut_out:
        assert import_parameters(**asked)
        return
    with pytest.raises(JobError) as told:
        import_parameters(**asked)
    assert told.value.code == "UNKNOWN_FIELD"
    assert shut_out in told.value.text


def test_a_schema_that_says_it_by_a_pattern_judges_each_row() -> None:
    schema = {**STRICT, "patternProperties": {"^x_": {}}}
    parameters = import_parameters(
        columns=[*COLUMNS[:2], {"source": "weight", "target": "color"}],
        structure={**STRUCTURE, "json_schema": schema},
    )
    found = Mapper(parameters, NAMES).map(Row(2, "", ("A-1", "B", "9", "", "", "")))
    assert isinstance(found, Rejected)
    assert found.flaw.code == "SCHEMA_VIOLATION"


@pytest.mark.parametrize(
    "wrong",
    [
        {"duplicates": "newest"},
        {"structure": None},
        {"structure": None, "target": {"queue": 1, "topic": "t"}, "duplicates": "first"},
        {"structure": {"name": "A", "key_paths": ["/ASSET/NUM"]}},
    ],
)
def test_what_cannot_be_judged_is_refused(wrong: dict[str, Any]) -> None:
    with pytest.raises(JobError) as told:
        import_parameters(**wrong)
    assert told.value.code == "BAD_PARAMETERS"


def test_without_a_structure_documents_have_no_key() -> None:
    parameters = import_parameters(structure=None, target={"queue": 1, "topic": "t"})
    found = Mapper(parameters, ["a", "b"]).map(Row(2, "A,B", ("A", "B")))
    assert found == Document('{"assetnum":"A","siteid":"B"}', None, None)
