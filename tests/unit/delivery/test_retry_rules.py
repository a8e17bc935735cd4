"""Whose rule decides about retries: the service's, the handler's, or the queue's."""

import uuid
from dataclasses import replace
from datetime import timedelta
from typing import Any

import pytest

from integration.delivery.endings import Chance, end_failed
from integration.delivery.outcome import Failed
from integration.delivery.snapshot import QueueSnapshot, Service
from integration.handlers import Constant, Exponential, Linear, List, inbound
from integration.handlers.registry import registry
from integration.handlers.retries import BadRetryError
from integration.policy.retry import Backoff, RetryPolicy, RetryRule, RetrySource, choose
from integration.policy.states import Ended
from integration.selectors.setup.retry_line import of_service
from tests.support.deliveries import a_failure, a_row, a_taker, a_unit

pytestmark = pytest.mark.fast

CHANCE = Chance(roll=0.0, new_id=uuid.UUID(int=1))
QUEUE = RetryPolicy(max_retries=7, cap=timedelta(minutes=9), jitter=0.5, total=timedelta(hours=8))
OWN = RetryRule(backoff=Backoff.CONSTANT, first=timedelta(seconds=4), max_retries=1)
DECLARED = Exponential(2, factor=3, retries=2).rule


def a_queue(own: RetryRule | None = None, declared: RetryRule | None = None, **more: Any) -> Any:
    service = Service("X", replace(a_taker(), retry=declared), retry=own)
    known: dict[str, Any] = {"id": 1, "name": "q", "provider_id": 1, "provider_name": "main"}
    known |= {"topic": "t", "sequential": False, "carrier": "row", "retry": QUEUE}
    return QueueSnapshot(**(known | {"services": {"X": service}} | more))


@pytest.mark.parametrize(
    ("own", "declared", "by", "delay"),
    [
        (OWN, DECLARED, RetrySource.SERVICE, 4.0),
        (None, DECLARED, RetrySource.HANDLER, 2.0),
        (None, None, RetrySource.QUEUE, 30.0),
    ],
)
def test_the_services_rule_goes_before_the_handlers_and_that_before_the_queues(
    own, declared, by, delay
):
    unit = a_unit()
    unit.interface = "X"
    ending = end_failed(unit, Failed(a_failure()), a_queue(own, declared), CHANCE)
    assert ending.new_error is not None
    assert (ending.new_error.retry_by, ending.new_error.delay_seconds) == (by, delay)


@pytest.mark.parametrize(("own", "spent"), [(OWN, 1), (None, 7)])
def test_its_own_number_of_retries_counts_and_who_had_it_is_told_when_they_are_spent(own, spent):
    unit = a_unit(row=a_row(spent=spent))
    unit.interface = "X"
    ending = end_failed(unit, Failed(a_failure()), a_queue(own), CHANCE)
    assert ending.ended is Ended.HOLD
    assert ending.change is not None
    assert ending.change.retry_by == (RetrySource.QUEUE if own is None else RetrySource.SERVICE)


def test_what_a_rule_leaves_out_is_the_queues():
    for rule in (Constant(5), Linear(5), Exponential(5), List([5, 6])):
        policy, by = choose(QUEUE, handler=rule.rule)
        assert by is RetrySource.HANDLER
        assert policy == replace(
            QUEUE,
            backoff=rule.rule.backoff,
            first=timedelta(seconds=5),
            delays=rule.rule.delays,
        )
    unlimited = choose(replace(QUEUE, max_retries=None), handler=Constant(5).rule)[0]
    assert unlimited.max_retries is None
    own = choose(QUEUE, handler=Constant(1, retries=0, longest=2, jitter=0, within=3).rule)[0]
    assert (own.max_retries, own.jitter) == (0, 0)
    assert (own.cap, own.total) == (timedelta(seconds=2), timedelta(seconds=3))


def test_a_queue_that_sends_knows_its_own_policy_only():
    """A publish channel may be called as a service is."""
    assert a_queue(OWN, DECLARED, sends=True).retry_for("X")[1] is RetrySource.QUEUE
    assert a_queue(OWN, DECLARED).retry_for("Y")[1] is RetrySource.QUEUE


def test_what_no_engine_could_follow_is_refused_where_it_is_written():
    for wrong in (
        lambda: Constant(-1),
        lambda: Linear(1, retries=-1),
        lambda: Exponential(1, factor=0.5),
        lambda: List([]),
        lambda: List([1, -1]),
    ):
        with pytest.raises(BadRetryError):
            wrong()


def test_the_decorator_registers_the_rule():
    inbound("RULED", retry=List([1, 2]))(lambda _: None)
    try:
        entry = registry.get("RULED")
        assert entry is not None
        assert entry.retry == List([1, 2]).rule
    finally:
        registry._by_interface.pop("RULED")


def test_a_service_tells_whose_rule_it_has():
    assert of_service(None, None) == "As the queue says by which they come."
    assert of_service(OWN, DECLARED).startswith("Its own: 1 retry: after 4 s;")
    assert of_service(None, DECLARED).startswith("Declared by its handler: 2 retries: after 2 s, 6")
    assert "as often as the queue says" in of_service(Exponential(1).rule, None)
