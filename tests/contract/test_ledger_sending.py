"""The contract of Ledger and Work for sending: intents, ends, and what a later owner is told."""

from dataclasses import replace

import pytest

from integration.delivery.owned import Owned
from integration.delivery.ports import Ledger
from integration.delivery.sending.values import DeliveryEnd, Dispatch, Intent
from integration.delivery.settlement import Settlement
from integration.policy.circuit import Circuit, Move
from integration.policy.states import CircuitState, DeliveryState
from integration.store.circuits import DatabaseCircuits
from tests.contract.ledger_worlds import MemoryWorld, World
from tests.support.deliveries import a_new_error, a_unit
from tests.support.partners import an_endpoint


@pytest.fixture
def owned(tables: World) -> Owned:
    return tables.desk().take()[0]


@pytest.fixture
def endpoint(tables: World) -> int:
    return 7 if isinstance(tables, MemoryWorld) else an_endpoint().pk


@pytest.fixture(autouse=True)
def circuits(tables: World, endpoint: int):
    known = tables.database.circuits if isinstance(tables, MemoryWorld) else DatabaseCircuits()
    known.look(endpoint)
    return known


def settle(ledger: Ledger, owned: Owned, settlement: Settlement) -> bool:
    """As a flight does it: in one statement where that says it all."""
    done = ledger.settle_at_once(owned, settlement)
    if done is None:
        with ledger.work(owned) as work:
            done = work.settle(settlement)
    if done:
        owned.next_offset = settlement.next_offset
    return done


def intend(ledger: Ledger, owned: Owned, *intents: Intent) -> bool:
    return settle(ledger, owned, Settlement(owned.next_offset, dispatch=Dispatch(list(intents))))


def an_intent(endpoint: int, offset: int, **fields) -> Intent:
    return Intent(a_unit(offset), endpoint, **fields)


def next_owner(tables: World) -> Owned:
    return tables.desk().take()[0]


def test_an_intent_that_nobody_ended_is_a_doubt_of_the_next_owner(tables, owned, endpoint):
    ledger = tables.ledger()
    first, second = an_intent(endpoint, 10), an_intent(endpoint, 11)
    assert intend(ledger, owned, first, second)
    assert first.id is not None
    assert not ledger.past(owned).doubts, "its own calls are no doubts"
    end = DeliveryEnd(id=second.id or 0, state=DeliveryState.DELIVERED, took_ms=3)
    assert settle(ledger, owned, Settlement(10, dispatch=Dispatch(ends=[end])))

    later = replace(owned, epoch=owned.epoch + 1)
    past = ledger.past(later)
    assert {at: doubt.id for at, doubt in past.doubts.items()} == {10: first.id}
    assert past.delivered == {11: second.unit.message_id}


def test_a_repeat_takes_the_place_of_the_doubt_and_is_counted(tables, owned, endpoint):
    ledger = tables.ledger()
    intend(ledger, owned, an_intent(endpoint, 10))
    owned = taken_over(tables, owned)
    doubt = ledger.past(owned).doubts[10]
    again = an_intent(endpoint, 10, attempt=doubt.attempt + 1, replaces=(doubt.id,))
    assert intend(ledger, owned, again)
    owned = taken_over(tables, owned)
    found = ledger.past(owned).doubts[10]
    assert (found.id, found.attempt, found.repeated) == (again.id, 2, 1)


def taken_over(tables: World, owned: Owned) -> Owned:
    """The owner died without a word; the next one has a higher epoch."""
    if isinstance(tables, MemoryWorld):
        tables.database.places[owned.partition].owner = None
    else:
        tables.close()
    return next_owner(tables)


def test_under_an_open_circuit_no_intent_is_written(tables, owned, endpoint, circuits):
    ledger = tables.ledger()
    version = circuits.look(endpoint).version
    opened = Move(Circuit(state=CircuitState.OPEN), 0.0)
    version = circuits.move(endpoint, version, opened, ("", ""))
    refused = an_intent(endpoint, 10, circuit_version=version)
    assert intend(ledger, owned, refused)
    assert refused.id is None

    probing = circuits.probe(endpoint, version, 30)
    other = an_intent(endpoint, 10, circuit_version=version)
    probe = an_intent(endpoint, 11, circuit_version=probing)
    assert intend(ledger, owned, other, probe)
    assert (other.id, probe.id is None) == (None, False)


def test_a_failure_in_flight_is_marked_and_one_that_a_person_moved_is_left_out(
    tables, owned, endpoint
):
    ledger = tables.ledger()
    new = [a_new_error(10, delay_seconds=0.0), a_new_error(11, delay_seconds=0.0)]
    settle(ledger, owned, Settlement(12, new_errors=new))
    tables.later(1)
    mine, moved = ledger.due_rows(owned, 10)
    intents = [Intent(a_unit(row=row, record=row.record), endpoint) for row in (mine, moved)]
    intents[1].unit.row = replace(moved, version=moved.version + 5)
    assert intend(ledger, owned, *intents)
    assert (intents[0].id is None, intents[1].id) == (False, None)
    assert tables.row(mine.id).state == "PROCESSING"
    assert tables.row(moved.id).state == "RETRY"

    settle(ledger, owned, Settlement(12, dispatch=Dispatch(returned=[mine])))
    assert tables.row(mine.id).state == "RETRY"


def test_a_fenced_owner_writes_no_intent(tables, owned, endpoint):
    ledger = tables.ledger()
    stale = replace(owned, epoch=owned.epoch - 1)
    intent = an_intent(endpoint, 10)
    assert not intend(ledger, stale, intent)
    assert not ledger.past(replace(owned, epoch=owned.epoch + 1)).doubts


def test_keys_with_an_open_failure_are_told(tables, owned):
    ledger = tables.ledger()
    unit = a_unit(10)
    unit.record.key = b"k"
    settle(ledger, owned, Settlement(11, new_errors=[a_new_error(10, unit=unit)]))
    assert ledger.open_keys([b"k", b"other"]) == frozenset({b"k"})
