"""What is in a retry wrapper, as jobs mask, change and choose it."""

import json

import pytest

from integration.masking.mask import HIDDEN, Part, Rule, mask_of
from integration.masking.matcher import Style
from spark_jobs.repairs.judging import Judge, Verdict
from spark_jobs.replay.choosing import Chooser, Record
from spark_jobs.replay.parameters import ReplayParameters
from spark_jobs.tables.masking import masked_record
from tests.unit.bulk.test_repair_judging import a_row, repair_parameters

pytestmark = pytest.mark.fast
CARD = "4000-1234"
DOCUMENT = {"siteid": "SOUTH", "assetnum": "A", "card": CARD}
XML = f"<PO><card>{CARD}</card><siteid>SOUTH</siteid></PO>"
MASK = mask_of(frozenset(Rule(Part.PAYLOAD, path, Style.WHOLE) for path in ("$.card", "/PO/card")))


def wrapped(message: object) -> bytes:
    return json.dumps({"retryCount": 2, "message": message}).encode()


@pytest.mark.parametrize("message", [DOCUMENT, json.dumps(DOCUMENT), XML])
def test_files_hold_no_masked_value_of_what_is_wrapped(message: object) -> None:
    shown = masked_record(MASK, wrapped(message)).decode()
    assert CARD not in shown
    assert "SOUTH" in shown
    assert json.loads(shown)["retryCount"] == 2


def test_what_is_wrapped_and_cannot_be_read_is_hidden_whole() -> None:
    assert masked_record(MASK, wrapped(f"card {CARD}")) == HIDDEN.encode()


@pytest.mark.parametrize("path", ["$.message.card", "$.message"])
def test_paths_that_begin_at_the_wrapper_hide_too(path: str) -> None:
    mask = mask_of(frozenset({Rule(Part.PAYLOAD, path, Style.WHOLE)}))
    for message in (DOCUMENT, json.dumps(DOCUMENT)):
        assert CARD not in masked_record(mask, wrapped(message)).decode()


def test_what_masks_nothing_leaves_the_record_to_the_byte() -> None:
    record = b'{ "message": {"a": 1.10}, "retryCount": 1 }'
    assert masked_record(MASK, record) == record


@pytest.mark.parametrize("is_text", [False, True])
def test_a_repair_changes_what_is_wrapped(is_text: bool) -> None:
    record = wrapped(json.dumps(DOCUMENT) if is_text else DOCUMENT)
    found = Judge(repair_parameters(wrapped=[1])).judge(a_row(record))
    assert found.kind is Verdict.FITS
    assert found.change is not None
    new = json.loads(found.change.record)
    assert new["retryCount"] == 2
    document = json.loads(new["message"]) if is_text else new["message"]
    assert document == {**DOCUMENT, "siteid": "NORTH"}
    assert Judge(repair_parameters()).judge(a_row(record)).kind is Verdict.MISFIT


@pytest.mark.parametrize("wraps", [False, True])
def test_a_replay_chooses_by_what_is_wrapped(wraps: bool) -> None:
    parameters = ReplayParameters.of(
        {
            "provider": 1,
            "provider_name": "main",
            "queue": 1,
            "topic": "assets",
            "into": "queue",
            "arrival": 0,
            "retry_wrapper": wraps,
            "chosen": {"path": "$.siteid=SOUTH"},
        }
    )
    record = Record(0, 7, 0, True, None, wrapped(json.dumps(DOCUMENT)), [])
    assert (Chooser(parameters).chosen(record) is not None) is wraps


@pytest.mark.parametrize(
    ("generations", "id_"), [({}, "main~assets~0~7"), ({"0": 2}, "main~assets@2~0~7")]
)
def test_a_replay_names_messages_as_the_queue_does(generations: dict[str, int], id_: str) -> None:
    parameters = ReplayParameters.of(
        {
            "provider": 1,
            "provider_name": "main",
            "queue": 1,
            "topic": "assets",
            "into": "queue",
            "arrival": 0,
            "generations": generations,
        }
    )
    chosen = Chooser(parameters).chosen(Record(0, 7, 0, True, None, b"{}", []))
    assert chosen is not None
    assert chosen.message_id == id_
