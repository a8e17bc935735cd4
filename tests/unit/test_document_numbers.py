"""Numbers with exponents in documents: what a structure refuses to store."""

import pytest

from integration.documents.structures import plan_for
from integration.envelope import body_of
from integration.policy.failure import FailureClass

pytestmark = pytest.mark.fast


class Places:
    """A structure as its row would be."""

    name = "places"
    key_paths = ("$.k",)
    version_path = ""
    json_schema = None
    tombstone = "hold"


def code_of(numbers: str) -> str:
    body = body_of(f'{{"k": "HALL", "w": [{{"n": {numbers}}}]}}')
    assert isinstance(body, dict)
    found = plan_for(Places()).objection(body)
    assert found is None or found.kind is FailureClass.PERMANENT
    return "" if found is None else found.code


@pytest.mark.parametrize(
    ("numbers", "code"),
    [
        ("1e4300", "NUMBER_TOO_LONG"),
        ("-1E-4000", "NUMBER_TOO_LONG"),
        ("1.5e402", "NUMBER_TOO_LONG"),
        (f"[{'1e90,' * 20_000}1]", "NUMBER_TOO_LONG"),
        ("1.7976931348623157e308", ""),
        ("5e-324", ""),
        ("7" * 4_000, ""),
        ("0." + "7" * 4_000, ""),
        ("7" * 500 + ".5", ""),
        (f"[{'123456789.25,' * 20_000}1e9]", ""),
    ],
    ids=["long", "short", "just too long", "many", "largest", "least", *["as written"] * 4],
)
def test_numbers_that_the_database_would_unfold_are_refused(numbers: str, code: str) -> None:
    assert code_of(numbers) == code
