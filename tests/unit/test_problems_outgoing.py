"""What is wrong on the way out: each endpoint once, what may have arrived, a late relay."""

from dataclasses import replace
from datetime import timedelta
from typing import Any

import pytest

from crontasks.problems.facts import Facts, Late, Problem, Way
from crontasks.problems.finding import problems
from integration.models import Endpoint, EndpointCircuit, ExternalSystem
from integration.policy.states import CircuitState
from integration.selectors.delivering.endpoints import EndpointRow
from integration.selectors.delivering.figures import Window
from integration.selectors.delivering.open_calls import Open
from integration.selectors.delivering.standing import judge
from integration.selectors.queues.rows import QueueRow
from tests.unit.test_problems import ALL, NOW, a_row

pytestmark = pytest.mark.fast
DOWN = EndpointCircuit(state=CircuitState.OPEN, opened_at=NOW - timedelta(hours=1), text="refused")


def an_endpoint(circuit: EndpointCircuit = DOWN, **switches: Any) -> EndpointRow:
    plant = ExternalSystem(pk=2, name="plant")
    endpoint = Endpoint(pk=5, name="supplier", system=plant, endpoint_type="http", **switches)
    standing, situation = judge(endpoint, circuit, 7, is_used=True, now=NOW)
    return EndpointRow(
        endpoint=endpoint,
        standing=standing,
        situation=situation,
        waiting=7,
        open=Open(),
        quarter=Window(),
        queues=("q-0", "q-1"),
    )


def a_sender(number: int, **place: Any) -> QueueRow:
    row = a_row(place=place, pk=number, name=f"q-{number}")
    return replace(row, sends=True, direction="outbound")


def found(*rows: QueueRow, **facts: Any) -> list[Problem]:
    return problems(Facts(now=NOW, live_processes=ALL, rows=rows, **facts))


def test_an_endpoint_that_is_down_is_told_once_however_many_queues_wait_for_it() -> None:
    stands = {"state": "OUTAGE", "state_code": "ENDPOINT_DOWN", "resume_at": NOW}
    [one] = found(a_sender(0, **stands), a_sender(1, **stands), endpoints=[an_endpoint()])
    assert (one.what, one.way, one.subject) == ("supplier is down", Way.ENDPOINT, "supplier")
    assert "refused" in one.why
    assert "7 messages wait" in one.why


def test_a_pause_is_a_plan_and_no_problem() -> None:
    paused = an_endpoint(EndpointCircuit(), paused_until=NOW + timedelta(hours=1))
    stands = {"state": "OUTAGE", "state_code": "ENDPOINT_PAUSED", "resume_at": NOW}
    assert found(a_sender(0, **stands), endpoints=[paused]) == []


def test_an_endpoint_that_is_off_while_messages_wait_names_their_queues() -> None:
    off = an_endpoint(EndpointCircuit(), enabled=False)
    [one] = found(a_sender(0), a_sender(1), endpoints=[off])
    assert one.what == "The endpoint supplier is switched off"
    assert "q-0 and q-1 wait for it." in one.why
    assert not one.is_grave


def test_endpoints_that_take_each_others_messages_for_repeats_are_told() -> None:
    sharing = replace(an_endpoint(EndpointCircuit()), shares_ledger=("lines",))
    [one] = found(a_sender(0), endpoints=[sharing])
    assert one.what == "The endpoint supplier shares its ledger"
    assert "lines" in one.why
    assert (one.way, one.subject, one.is_grave) == (Way.ENDPOINT, "supplier", False)
    assert found(endpoints=[sharing]) == []


def test_what_may_have_arrived_is_counted_by_queue() -> None:
    [one] = found(a_sender(0), a_sender(1), unknown={1: 3})
    assert one.what == "3 messages of q-1 may have arrived"
    assert (one.way, one.subject) == (Way.QUEUE, "q-1")


def test_an_outbox_that_is_not_sent_is_told_while_a_relay_lives() -> None:
    [one] = found(a_sender(0), late=[Late("plant", 300.0)])
    assert one.what == "The outbox of plant is not sent"
    assert "5 min" in one.why
    why = "BROKER_RIGHTS: Kafka lets the provider plant in, but refuses it a right"
    [told] = found(a_sender(0), late=[Late("plant", 300.0, why)])
    assert told.why.endswith("Kafka lets the provider plant in, but refuses it a right.")
