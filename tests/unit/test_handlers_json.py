"""JSON is written with exactly the numbers that were there."""

import json
import uuid
from datetime import UTC, date, datetime
from decimal import Decimal
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from integration.documents.exact_json import encode

pytestmark = pytest.mark.fast

SCALARS = (
    st.none()
    | st.booleans()
    | st.integers()
    | st.text(st.characters(exclude_categories=["Cs"]))
    | st.decimals(allow_nan=False, allow_infinity=False)
)
DOCUMENTS = st.recursive(
    SCALARS,
    lambda inner: st.lists(inner, max_size=4) | st.dictionaries(st.text(max_size=4), inner),
    max_leaves=12,
)


def _exact(text: str) -> Decimal:
    return Decimal(text)


@given(DOCUMENTS)
def test_what_is_written_reads_back_the_same(document: Any) -> None:
    again = json.loads(encode(document), parse_float=_exact)
    assert again == document


def test_decimals_keep_their_digits() -> None:
    assert encode([Decimal("1.10"), Decimal("123456789012345678901234567890.01")]) == (
        "[1.10,123456789012345678901234567890.01]"
    )


def test_dates_and_ids_become_text() -> None:
    one = uuid.UUID(int=1)
    document = {
        "at": datetime(2026, 3, 1, 8, tzinfo=UTC),
        "on": date(2026, 3, 1),
        "id": one,
        "empty": {},
        "none": (),
    }
    assert json.loads(encode(document)) == {
        "at": "2026-03-01T08:00:00+00:00",
        "on": "2026-03-01",
        "id": str(one),
        "empty": {},
        "none": [],
    }


@pytest.mark.parametrize(
    "value", [float("nan"), float("inf"), Decimal("NaN"), Decimal("-Infinity"), {1, 2}, object()]
)
def test_what_json_cannot_hold_is_refused(value: object) -> None:
    with pytest.raises(ValueError, match=r"JSON|hold"):
        encode({"deep": [value]})
