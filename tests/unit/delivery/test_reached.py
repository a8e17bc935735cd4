"""How far the database knows a topic, whatever the position says."""

from typing import Any

import pytest

from integration.delivery.owned import OpenBatch, Owned
from integration.delivery.sending.results import Results
from integration.delivery.sending.values import Intent
from integration.policy.states import PartitionState
from tests.support.deliveries import a_row, a_unit

pytestmark = pytest.mark.fast


def standing_at(offset: int, **fields: Any) -> Owned:
    known = {"id": 1, "partition": 0, "epoch": 1, "topic_uuid": "t"}
    return Owned(next_offset=offset, state=PartitionState.RUNNING, **known | fields)


@pytest.mark.parametrize(
    ("known", "reached"),
    [
        ({}, 10),
        ({"failed_until": 9, "called_until": 7}, 10),
        ({"failed_until": 10}, 11),
        ({"called_until": 14, "failed_until": 12}, 15),
        ({"open_batch": OpenBatch(arrival=1, first=10, until=20, done={13, 12})}, 14),
        ({"open_batch": OpenBatch(arrival=1, first=1, until=9, done={13})}, 10),
    ],
)
def test_the_farthest_of_position_failures_calls_and_what_is_done_counts(known, reached):
    assert standing_at(10, **known).reached == reached


def test_calls_that_are_about_to_be_made_beyond_the_position_are_known_to_the_run():
    owned = standing_at(10)
    results = Results(None, owned, [a_unit(at) for at in (10, 11, 12)])
    results.close([Intent(a_unit(12), 7), Intent(a_unit(11), 7)])
    assert owned.reached == 13
    # A failure's call is made for a message that was read long ago, maybe in another topic.
    results.close([Intent(a_unit(30, row=a_row()), 7)])
    results.close([])
    assert owned.reached == 13
