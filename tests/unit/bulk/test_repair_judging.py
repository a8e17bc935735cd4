"""What a repair makes of one message, told without Spark and without a database."""

import base64
import json
import uuid
from typing import Any

import pytest

from integration.envelope import DEFAULT
from spark_jobs.errors import JobError
from spark_jobs.repairs.judging import Judge, Judged, Row, Verdict
from spark_jobs.repairs.parameters import RepairParameters
from spark_jobs.repairs.releasing import MOST_CAUSES, OTHERWISE, causes
from tests.unit.bulk.job_requests import STRUCTURE

pytestmark = pytest.mark.fast
SITE = '[{"op":"replace","path":"/siteid","value":"NORTH"}]'


def repair_parameters(**fields: Any) -> RepairParameters:
    said = {
        "selection": {"queues": [1], "text": fields.pop("text", "")},
        "recipe": SITE,
        "structures": {"MXASSET": STRUCTURE},
        "defaults": {"1": "MXASSET"},
    }
    return RepairParameters.of(said | fields)


def a_row(record: bytes | None, **fields: Any) -> Row:
    values = {
        "place": 0,
        "id": uuid.uuid4(),
        "version": 1,
        "queue": 1,
        "now": 1,
        "state": "HOLD",
        "interface": "",
        "record": record,
        "headers": [],
    }
    return Row(**values | fields)


def judged(record: bytes | None, **fields: Any) -> Judged:
    asked = {name: fields.pop(name) for name in ("recipe", "structures", "text") if name in fields}
    return Judge(repair_parameters(**asked)).judge(a_row(record, **fields))


def test_what_fits_is_changed_and_keeps_every_digit() -> None:
    found = judged(b'{"assetnum":"A","siteid":"SOUTH","n":1.10,"big":12345678901234567890}')
    assert found.kind is Verdict.FITS
    assert found.change is not None
    wanted = b'{"assetnum":"A","siteid":"NORTH","n":1.10,"big":12345678901234567890}'
    assert found.change.record == wanted


@pytest.mark.parametrize(
    ("record", "fields", "kind", "why"),
    [
        (b'{"assetnum":"A","siteid":"NORTH"}', {}, Verdict.SAME, ""),
        (
            b'{"assetnum":"A"}',
            {},
            Verdict.MISFIT,
            "“replace /siteid” finds nothing there to change.",
        ),
        (b"<a/>", {}, Verdict.MISFIT, "It is XML, which is edited singly."),
        (b'{"a":', {}, Verdict.MISFIT, "It cannot be read (TRUNCATED_JSON); edit it singly."),
        (None, {}, Verdict.MISFIT, "It has no value: it is a tombstone."),
        (b"{}", {"now": 2}, Verdict.MOVED_ON, ""),
        (b"{}", {"state": "READY"}, Verdict.WRONG_STATE, ""),
        (None, {"now": None, "state": None, "headers": None}, Verdict.GONE, ""),
    ],
)
def test_what_does_not_fit_is_told_by_its_kind(
    record: bytes | None, fields: dict[str, Any], kind: Verdict, why: str
) -> None:
    assert judged(record, **fields) == Judged(kind, why)


def test_the_structure_of_the_rows_own_service_judges_it() -> None:
    record = b'{"siteid":"SOUTH"}'
    assert judged(record).kind is Verdict.REFUSED
    assert judged(record).why.startswith("NO_KEY: ")
    assert judged(record, interface="MXASSET").kind is Verdict.REFUSED
    assert judged(record, interface="MXOTHER").kind is Verdict.FITS, "it has no structure"
    assert judged(record, queue=2).kind is Verdict.FITS, "nor has that queue a default service"


def test_a_value_that_a_schema_refuses_is_not_in_the_reason() -> None:
    schema = {"properties": {"n": {"maximum": 5}}}
    structures = {"MXASSET": {**STRUCTURE, "json_schema": schema}}
    found = judged(b'{"assetnum":"A","siteid":"S","n":987654}', structures=structures)
    assert found.kind is Verdict.REFUSED
    assert "987654" not in found.why


def test_what_a_schema_stumbles_over_costs_its_message_alone() -> None:
    for rule, value, why in (
        ({"minimum": "5"}, b"1", "The structure cannot judge it ("),
        ({"pattern": "("}, b'"A"', "SCHEMA_UNUSABLE: "),
    ):
        schema = {"properties": {"assetnum": rule}}
        structures = {"MXASSET": {**STRUCTURE, "json_schema": schema}}
        found = judged(b'{"assetnum":%s,"siteid":"S"}' % value, structures=structures)
        assert found.kind is Verdict.REFUSED
        assert found.why.startswith(why)


def test_a_record_that_would_grow_too_large_is_refused() -> None:
    text = "x" * (DEFAULT.max_bytes - 60)
    record = json.dumps({"assetnum": "A", "siteid": "S", "t": text}, separators=(",", ":")).encode()
    recipe = '[{"op":"replace","path":"/siteid","value":"' + "N" * 200 + '"}]'
    assert judged(record, recipe=recipe).why.startswith("It would be larger than")


def test_a_text_is_looked_for_in_records_and_in_what_envelopes_hide() -> None:
    plain = b'{"assetnum":"A","siteid":"K\\u00f6ln"}'
    hidden = json.dumps({"INTERFACE": "X", "payload": json.dumps({"siteid": "Köln"})}).encode()
    named = [["x", base64.b64encode("Köln".encode()).decode()]]
    assert judged(plain, text="Köln").kind is Verdict.FITS
    assert judged(hidden, text="Köln", queue=2).kind is Verdict.FITS
    assert judged(b'{"assetnum":"A","siteid":"S"}', text="Köln").kind is Verdict.NOT_MEANT
    in_header = judged(b'{"payload":"Bonn"}', text="Köln", headers=named)
    assert in_header.kind is Verdict.NOT_MEANT


@pytest.mark.parametrize(
    ("fields", "code"),
    [
        ({"recipe": "nonsense"}, "BAD_RECIPE"),
        ({"recipe": SITE.replace("NORTH", "⟦masked 1⟧")}, "BAD_RECIPE"),
        ({"unknown": 1}, "BAD_PARAMETERS"),
        ({"selection": {}}, "BAD_PARAMETERS"),
        ({"selection": {"queues": [1], "since": "soon"}}, "BAD_PARAMETERS"),
        ({"stop": {"sometimes": 1}}, "BAD_PARAMETERS"),
    ],
)
def test_parameters_that_cannot_be_read_are_refused(fields: dict[str, Any], code: str) -> None:
    with pytest.raises(JobError) as told:
        repair_parameters(**fields)
    assert told.value.code == code


def test_rare_reasons_are_counted_together() -> None:
    ranked = [(f"why {n}", 100 - n) for n in range(MOST_CAUSES + 2)]
    told = causes(ranked)
    assert len(told) == MOST_CAUSES + 1
    assert told[-1] == {"why": OTHERWISE, "messages": 60 + 59}
    assert causes(ranked[:1]) == [{"why": "why 0", "messages": 100}]
