"""Whatever bytes come: a document or a documented flaw; and the library reads the same."""

import io
from decimal import Decimal
from typing import Any

import fastavro
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from integration.envelope import Flaw, FlawCode
from integration.formats.schema import Misfit
from integration.formats.wire import HEADER_BYTES, framed
from tests.support.avro import a_schema

pytestmark = pytest.mark.fast

SCHEMA: dict[str, Any] = {
    "type": "record",
    "name": "Everything",
    "fields": [
        {"name": "s", "type": "string"},
        {"name": "l", "type": "long"},
        {"name": "d", "type": "double"},
        {"name": "u", "type": ["null", "string", "long"]},
        {"name": "a", "type": {"type": "array", "items": ["null", "Everything"]}},
        {"name": "m", "type": {"type": "map", "values": "boolean"}},
        {"name": "e", "type": {"type": "enum", "name": "E", "symbols": ["A", "B"]}},
    ],
}
PLAIN = a_schema(SCHEMA)
TEXTS = st.text(st.characters(exclude_categories=["Cs"], exclude_characters="\0"), max_size=20)
LONGS = st.integers(-(2**63), 2**63 - 1)


def documents(depth: int = 2) -> st.SearchStrategy[dict[str, Any]]:
    inner = st.lists(st.none() | documents(depth - 1), max_size=2) if depth else st.just([])
    return st.fixed_dictionaries(
        {
            "s": TEXTS,
            "l": LONGS,
            "d": st.floats(allow_nan=False, allow_infinity=False),
            "u": st.none() | TEXTS | LONGS,
            "a": inner,
            "m": st.dictionaries(TEXTS, st.booleans(), max_size=3),
            "e": st.sampled_from(["A", "B"]),
        }
    )


def exact(value: Any) -> Any:
    if isinstance(value, float):
        return Decimal(repr(value))
    if isinstance(value, dict):
        return {name: exact(member) for name, member in value.items()}
    return [exact(item) for item in value] if isinstance(value, list) else value


@settings(max_examples=60)
@given(documents())
def test_what_the_library_writes_is_read_and_written_alike(document: dict[str, Any]) -> None:
    body = io.BytesIO()
    fastavro.schemaless_writer(body, fastavro.parse_schema(SCHEMA), document)
    record = framed(7, body.getvalue())
    found = PLAIN.decode(record)
    assert found == exact(document)
    assert PLAIN.encode(found) == record


@given(st.binary(max_size=200))
def test_any_bytes_are_a_document_or_a_flaw(body: bytes) -> None:
    found = PLAIN.decode(framed(7, body))
    if isinstance(found, Flaw):
        assert found.code in FlawCode
        return
    again = PLAIN.encode(found)
    assert not isinstance(again, Misfit)
    assert PLAIN.decode(again) == found


JSONS = st.recursive(
    st.none() | st.booleans() | st.integers() | TEXTS | st.decimals(allow_nan=False, places=3),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(TEXTS, inner, max_size=3),
    max_leaves=10,
)


@settings(max_examples=60)
@given(JSONS)
def test_any_document_is_written_or_refused_with_its_place(document: Any) -> None:
    found = PLAIN.encode(document)
    if isinstance(found, Misfit):
        assert found.path.startswith("$")
    else:
        assert found[HEADER_BYTES:]
