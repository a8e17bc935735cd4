"""Masked values in the rows of an export: hidden as on pages, and nothing else is touched."""

import json
import zlib
from typing import Any

import pytest

from integration.masking.mask import HIDDEN
from spark_jobs.exports.parameters import ExportParameters
from spark_jobs.exports.selecting import selection
from spark_jobs.exports.shaping import shaped
from tests.support.rows import an_envelope

pytestmark = pytest.mark.fast
SECRET = "4000123412341234"
DOCUMENT = {"order": 1, "person": {"name": "Jo", "card": SECRET}, "lines": [{"card": SECRET}]}
RULES = [
    {"part": "payload", "path": path, "style": "whole"}
    for path in ("$.person.card", "$.lines[*].card", "/A/card")
]


def rows(row: list[Any], **fields: Any) -> list[Any]:
    """What becomes of a row that SQL gave."""
    parameters = ExportParameters.of({"folder": "/srv", "masking": RULES, **fields})
    return list(shaped(parameters, selection(parameters)).values(row))


def documents(row: list[Any], **fields: Any) -> list[Any]:
    return rows(row, what="documents", **{"format": "jsonl", **fields})


def columns(*sources: str) -> list[dict[str, str]]:
    return [{"name": f"c{n}", "source": source} for n, source in enumerate(sources)]


def test_a_document_that_is_a_line_of_its_own_keeps_all_else() -> None:
    text = json.dumps(DOCUMENT)
    [shown] = documents([text])
    assert SECRET not in shown
    assert json.loads(shown)["order"] == 1
    assert json.loads(shown)["person"] == {"name": "Jo", "card": "⟦masked 1⟧"}
    [xml] = documents([json.dumps(f"<A><card>{SECRET}</card><b>1</b></A>")])
    assert json.loads(xml) == "<A><card>⟦masked 1⟧</card><b>1</b></A>"
    assert documents([None]) == [None]


@pytest.mark.parametrize("form", ["csv", "jsonl"])
def test_columns_by_path_hide_what_is_at_or_below_them(form: str) -> None:
    asked = columns("$.order", "$.person.card", "$.person", "$.lines[0].card", "key", "document")
    row = ["1", f'"{SECRET}"', json.dumps(DOCUMENT["person"]), "x", SECRET, json.dumps(DOCUMENT)]
    shown = documents(row, format=form, columns=asked, hidden=["key"])
    assert SECRET not in str(shown)
    assert shown[0] == "1"
    assert json.loads(shown[2])["name"] == "Jo"
    assert shown[4] == HIDDEN
    if form == "jsonl":
        assert [json.loads(value) for value in (shown[1], shown[3])] == [HIDDEN, HIDDEN]


@pytest.mark.parametrize("form", ["csv", "jsonl", "parquet"])
@pytest.mark.parametrize("wrapped", [True, False])
def test_payloads_of_messages_are_hidden_in_every_column(form: str, *, wrapped: bool) -> None:
    record = an_envelope(DOCUMENT) if wrapped else json.dumps(DOCUMENT).encode()
    asked = columns(
        "message_id", "external_id", "payload", "payload_base64", "$.person", "$.payload"
    )
    row = ["m-1", SECRET, zlib.compress(record)]
    shown = rows(row, what="messages", format=form, columns=asked, hidden=["external_id"])
    assert SECRET not in str(shown)
    assert zlib.compress(SECRET.encode()) not in str(shown).encode()
    assert shown[:2] == ["m-1", HIDDEN]
    assert "⟦masked 1⟧" in (shown[2].decode() if form == "parquet" else shown[2])


@pytest.mark.parametrize(
    "record", [b"\x00\x00\x00\x00\x07" + SECRET.encode(), b'{"card": ', b"\xff"]
)
def test_a_payload_that_cannot_be_read_is_hidden_whole(record: bytes) -> None:
    asked = columns("payload", "payload_base64", "$.card")
    shown = rows([zlib.compress(record)], what="messages", format="jsonl", columns=asked)
    assert shown == [HIDDEN, None, None]


def test_without_rules_rows_are_what_the_database_gave() -> None:
    text = json.dumps(DOCUMENT)
    assert documents([text], masking=[]) == [text]
