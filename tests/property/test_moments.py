"""Times of records: whatever number a producer wrote is a moment or an unknown time."""

from datetime import UTC, datetime, timedelta, timezone

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from integration.endpoints.outbound import outbound_of
from integration.values import moment_of
from tests.support.deliveries import a_message, a_record

pytestmark = pytest.mark.fast

NUMBERS = st.integers(-(2**63), 2**63 - 1)
FARTHEST = [timezone(timedelta(hours=hours)) for hours in (-23, 23)]


@given(NUMBERS)
@example(1_700_000_000_000_000)
@example(1_700_000_000_000_000_000)
@example(253_402_300_799_999)
def test_any_number_is_a_moment_of_every_zone_or_unknown(number: int) -> None:
    moment = moment_of(number)
    assert outbound_of(a_message(a_record(timestamp_ms=number))).sent_at == moment
    if moment is not None:
        assert (moment - datetime(1970, 1, 1, tzinfo=UTC)) // timedelta(milliseconds=1) == number
        for zone in FARTHEST:
            moment.astimezone(zone)


def test_usual_times_are_known_to_the_millisecond() -> None:
    assert moment_of(None) is None
    assert moment_of(1_700_000_000_123) == datetime(2023, 11, 14, 22, 13, 20, 123_000, UTC)
