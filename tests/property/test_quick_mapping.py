"""The quick way of an import gives what the plain one gives, whatever the rows hold."""

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from spark_jobs.imports.mapping import Document, Mapper
from spark_jobs.imports.parameters import ColumnKind
from spark_jobs.imports.quick_mapping import quick
from spark_jobs.imports.rows import Row
from tests.unit.bulk.job_requests import import_parameters

pytestmark = pytest.mark.fast

NAMES = ["a", "b", "c", "d", "e"]
KINDS = st.sampled_from([None, *(str(kind) for kind in ColumnKind if kind is not ColumnKind.JSON)])
NUMBERS = st.one_of(
    st.integers().map(str),
    st.decimals(allow_nan=False, allow_infinity=False).map(str),
    st.from_regex(r"-?0?\.?0{0,8}\d{0,5}(\.0{0,9}\d{0,3})?", fullmatch=True),
)
TEXTS = st.text(alphabet=st.characters(exclude_categories=["Cs"], exclude_characters="\0"))
WORDS = st.sampled_from(
    ["", " ", "true", "No", "1", "0", "-0", "2026-01-31", "2026-02-30", "x" * 300]
)
VALUES = st.one_of(TEXTS, NUMBERS, WORDS, st.dates().map(str))


@st.composite
def maps(draw: st.DrawFn) -> list[dict[str, Any]]:
    targets = draw(st.permutations(["assetnum", "siteid", "w", 'x"é', "z"]))
    return [
        {"source": name, "target": target, "kind": draw(KINDS), "required": draw(st.booleans())}
        for name, target in zip(NAMES, targets, strict=True)
    ]


@given(columns=maps(), rows=st.lists(st.tuples(*[VALUES] * len(NAMES)), min_size=1, max_size=20))
def test_both_ways_make_the_same_of_every_row(
    columns: list[dict[str, Any]], rows: list[tuple[str, ...]]
) -> None:
    parameters = import_parameters(columns=columns)
    mapper = Mapper(parameters, NAMES)
    found = quick(parameters, NAMES)
    for values in rows:
        row = Row(2, "", values)
        plain = mapper._plainly(row)
        assert mapper.map(row) == plain
        document = None if found is None else found.document(values)
        assert document is None or Document(*document, None) == plain


def test_an_ordinary_row_goes_the_quick_way() -> None:
    kinds = [None, "text", "number", "date", "boolean"]
    targets = ["assetnum", "siteid", "price", "bought", "active"]
    columns = [
        {"source": name, "target": target, "kind": kind}
        for name, target, kind in zip(NAMES, targets, kinds, strict=True)
    ]
    found = quick(import_parameters(columns=columns), NAMES)
    assert found is not None
    assert found.document(("A-1", "B", "1.50", "2026-01-31", "yes")) == (
        '{"assetnum":"A-1","siteid":"B","price":1.50,"bought":"2026-01-31","active":true}',
        '["A-1","B"]',
    )


@pytest.mark.parametrize(
    "more",
    [
        {"structure": {"name": "A", "key_paths": ["$.assetnum"], "json_schema": {}}},
        {"structure": {"name": "A", "key_paths": ["$.assetnum"], "version_path": "$.v"}},
        {"structure": {"name": "A", "key_paths": ["$.a.b"]}},
        {"structure": {"name": "A", "key_paths": ["$..assetnum"]}},
        {"columns": [{"source": "a", "target": "assetnum"}, {"source": "b", "target": "s.id"}]},
        {"columns": [{"source": "a", "target": "assetnum", "kind": "integer"}]},
    ],
)
def test_what_needs_the_document_itself_goes_the_plain_way(more: dict[str, Any]) -> None:
    asked = {"columns": [{"source": "a", "target": "assetnum"}], **more}
    assert quick(import_parameters(**asked), ["a", "b"]) is None
