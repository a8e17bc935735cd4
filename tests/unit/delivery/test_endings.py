"""What follows from an outcome: every failure class, kind of queue, new or known row."""

import uuid
from datetime import timedelta
from typing import Any

import pytest

from integration.delivery.endings import Chance, end_failed, end_good
from integration.delivery.outcome import APPLIED, DUPLICATE, PASSED, STALE, SUPERSEDED, Failed
from integration.delivery.reading import header
from integration.delivery.snapshot import QueueSnapshot
from integration.delivery.unit import Unit
from integration.policy.failure import FailureClass
from integration.policy.retry import RetryPolicy
from integration.policy.states import Ended, ErrorState, PartitionState
from tests.support.deliveries import a_failure, a_record, a_row, a_unit

pytestmark = pytest.mark.fast

CHANCE = Chance(roll=0.0, new_id=uuid.UUID(int=1), probes=2, deployment="here")
SPENDING = [FailureClass.TRANSIENT, FailureClass.DEPENDENCY, FailureClass.CONFLICT]


def a_queue(**fields: Any) -> QueueSnapshot:
    known: dict[str, Any] = {
        "id": 1,
        "name": "q",
        "provider_id": 1,
        "provider_name": "main",
        "topic": "t",
        "sequential": False,
        "retry": RetryPolicy(max_retries=2, first=timedelta(seconds=30)),
    }
    return QueueSnapshot(**(known | fields))


def known_unit(*, head: bool = False, **fields: Any) -> Unit:
    unit = a_unit(5, row=a_row(**fields))
    unit.moves = head
    return unit


@pytest.mark.parametrize("outcome", [APPLIED, SUPERSEDED, DUPLICATE, STALE, PASSED])
def test_a_good_ending_is_told_and_closes_the_row_it_came_from(outcome):
    assert end_good(a_unit(), outcome).change is None
    ending = end_good(known_unit(attempts=3, retry_no=2, spent=2), outcome)
    assert ending.ended is outcome.ended
    assert ending.stop is None
    change = ending.change
    assert change is not None
    assert (change.state, change.ended) == (ErrorState.RESOLVED, outcome.ended)
    assert (change.counters.attempts, change.counters.retry_no) == (4, 2)


@pytest.mark.parametrize("kind", SPENDING)
@pytest.mark.parametrize("sequential", [True, False])
def test_a_spending_failure_is_tried_again(kind, sequential):
    queue = a_queue(sequential=sequential)
    ending = end_failed(a_unit(), Failed(a_failure(kind)), queue, CHANCE)
    new = ending.new_error
    assert ending.ended is Ended.RETRY
    assert new is not None
    assert (new.id, new.state, new.delay_seconds) == (CHANCE.new_id, ErrorState.RETRY, 30.0)
    assert (new.counters.attempts, new.counters.retry_no, new.counters.spent) == (1, 1, 1)
    if sequential:
        assert ending.stop is not None
        assert ending.stop.state is PartitionState.BACKOFF
        assert (ending.stop.error, ending.stop.resume_seconds) == (new.id, 30.0)
        assert (new.carrier, ending.outgoing) == ("row", [])
    else:
        [marker] = ending.outgoing
        assert ending.stop is None
        assert (marker.value, marker.partition, marker.topic) == (b"", 0, "t")
        assert (marker.retry_no, marker.delay_seconds, marker.error) == (1, 30.0, new.id)
        assert header(marker.headers, "sluice-ticket") == str(new.id)


@pytest.mark.parametrize("kind", SPENDING)
@pytest.mark.parametrize("sequential", [True, False])
def test_a_known_row_counts_on(kind, sequential):
    queue = a_queue(sequential=sequential)
    unit = known_unit(head=sequential, attempts=4, retry_no=4, spent=1, carrier="topic")
    ending = end_failed(unit, Failed(a_failure(kind)), queue, CHANCE)
    change = ending.change
    assert ending.new_error is None
    assert change is not None
    assert change.state is ErrorState.RETRY
    assert (change.counters.attempts, change.counters.retry_no, change.counters.spent) == (5, 5, 2)
    assert (ending.stop is not None) == sequential
    assert [marker.retry_no for marker in ending.outgoing] == ([] if sequential else [5])


@pytest.mark.parametrize("sequential", [True, False])
@pytest.mark.parametrize("known", [True, False])
def test_spent_retries_end_on_hold(sequential, known):
    queue = a_queue(sequential=sequential, retry=RetryPolicy(max_retries=2 if known else 0))
    unit = known_unit(head=sequential, spent=2) if known else a_unit()
    ending = end_failed(unit, Failed(a_failure()), queue, CHANCE)
    written = ending.change or ending.new_error
    assert ending.ended is Ended.HOLD
    assert written is not None
    assert (written.state, written.carrier, written.delay_seconds) == (ErrorState.HOLD, "row", None)
    assert ending.outgoing == []
    if sequential:
        assert ending.stop is not None
        assert (ending.stop.state, ending.stop.code) == (PartitionState.BLOCKED, "HEAD_HELD")
    else:
        assert ending.stop is None


def test_the_time_limit_ends_on_hold_too():
    queue = a_queue(retry=RetryPolicy(max_retries=None, total=timedelta(minutes=1)))
    ages = {"young": (29.0, 1), "old": (31.0, 1), "old, and released": (3_600.0, 0)}
    ended = {
        name: end_failed(
            known_unit(since_first_seconds=seconds, spent=spent),
            Failed(a_failure()),
            queue,
            CHANCE,
        ).ended
        for name, (seconds, spent) in ages.items()
    }
    assert ended == {
        "young": Ended.RETRY,
        "old": Ended.HOLD,
        "old, and released": Ended.RETRY,
    }


@pytest.mark.parametrize("sequential", [True, False])
@pytest.mark.parametrize("known", [True, False])
def test_a_permanent_failure_is_held_at_once(sequential, known):
    unit = known_unit(head=sequential) if known else a_unit()
    failed = Failed(a_failure(FailureClass.PERMANENT))
    ending = end_failed(unit, failed, a_queue(sequential=sequential), CHANCE)
    assert ending.ended is Ended.HOLD
    assert (ending.stop is not None) == sequential
    written = ending.change or ending.new_error
    assert written is not None
    assert written.counters.attempts == (2 if known else 1)


@pytest.mark.parametrize("sequential", [True, False])
@pytest.mark.parametrize("known", [True, False])
def test_an_outage_stops_and_spends_nothing(sequential, known):
    unit = known_unit() if known else a_unit()
    failed = Failed(a_failure(FailureClass.OUTAGE, "DOWN"))
    ending = end_failed(unit, failed, a_queue(sequential=sequential), CHANCE)
    assert (ending.ended, ending.new_error, ending.change, ending.outgoing) == (
        None,
        None,
        None,
        [],
    )
    assert ending.stop is not None
    assert (ending.stop.state, ending.stop.code) == (PartitionState.OUTAGE, "DOWN")
    assert (ending.stop.resume_seconds, ending.stop.probes) == (4.0, 3)


@pytest.mark.parametrize(
    ("sequential", "code", "waits"),
    [
        (True, "SERVICE_DISABLED", True),
        (True, "HANDLER_MISSING", True),
        (False, "HANDLER_MISSING", True),
        (False, "SERVICE_DISABLED", False),
        (False, "SYSTEM_DISABLED", False),
    ],
)
def test_what_is_switched_off_waits_or_is_held_without_an_attempt(sequential, code, waits):
    failed = Failed(a_failure(FailureClass.DISABLED, code))
    ending = end_failed(a_unit(), failed, a_queue(sequential=sequential), CHANCE)
    if waits:
        assert ending.stop is not None
        assert (ending.stop.state, ending.stop.code) == (PartitionState.WAITING, code)
        assert ending.new_error is None
    else:
        assert ending.new_error is not None
        assert ending.new_error.state is ErrorState.HOLD
        assert ending.new_error.counters.attempts == 0


def test_every_death_of_a_process_was_an_attempt():
    failed = Failed(a_failure(FailureClass.CRASH, "PROCESS_CRASH"), crashes=3)
    new = end_failed(a_unit(), failed, a_queue(), CHANCE).new_error
    assert new is not None
    assert (new.state, new.counters.attempts, new.counters.crashes) == (ErrorState.HOLD, 3, 3)
    # The owners that took over have counted those of a known row.
    change = end_failed(known_unit(attempts=5, crashes=3), failed, a_queue(), CHANCE).change
    assert change is not None
    assert (change.state, change.counters.attempts) == (ErrorState.HOLD, 5)


@pytest.mark.parametrize("fields", [{"carrier": "row"}, {"is_error_queue": True}])
def test_a_row_carries_the_retry_where_no_retry_marker_may_be_written(fields):
    ending = end_failed(a_unit(), Failed(a_failure()), a_queue(**fields), CHANCE)
    assert ending.outgoing == []
    assert ending.new_error is not None
    assert ending.new_error.carrier == "row"


def test_a_released_row_never_publishes_a_retry_marker_again():
    ending = end_failed(known_unit(carrier="row"), Failed(a_failure()), a_queue(), CHANCE)
    assert ending.outgoing == []


def test_a_held_message_is_copied_once_as_it_came():
    queue = a_queue(error_topic="errors", error_provider_id=9)
    record = a_record(5, b"\xff", key=b"k", headers=[("h", b"v"), ("sluice-error", b"forged")])
    unit = a_unit(record=record)
    permanent = Failed(a_failure(FailureClass.PERMANENT))
    [copy_row] = end_failed(unit, permanent, queue, CHANCE).outgoing
    assert (copy_row.topic, copy_row.provider_id, copy_row.kind) == ("errors", 9, "MIRROR")
    assert (copy_row.value, copy_row.key, copy_row.partition) == (b"\xff", b"k", None)
    assert header(copy_row.headers, "h") == "v"
    assert header(copy_row.headers, "sluice-error") == str(CHANCE.new_id)
    assert header(copy_row.headers, "sluice-deployment") == "here"
    again = end_failed(known_unit(copied=True), permanent, queue, CHANCE)
    assert again.outgoing == []


def test_a_late_row_of_a_sequential_queue_stops_nobody():
    queue = a_queue(sequential=True)
    for failure in (a_failure(), a_failure(FailureClass.PERMANENT)):
        ending = end_failed(known_unit(head=False), Failed(failure), queue, CHANCE)
        assert ending.stop is None
