"""The contract of Repository and UnitOfWork for sending: intents, ends, later owners."""

from dataclasses import replace
from types import SimpleNamespace

import pytest

from integration.delivery.batch_result import BatchResult
from integration.delivery.key_order import order_key
from integration.delivery.owned import Owned
from integration.delivery.ports import Repository
from integration.delivery.sending.call_threads import CallThreads
from integration.delivery.sending.sender import Sender
from integration.delivery.sending.values import DeliveryEnd, Dispatch, Intent, Past
from integration.policy.circuit import Circuit, Move
from integration.policy.states import CircuitState, DeliveryState
from integration.store.circuits import DatabaseCircuits
from tests.contract.repository_world import World
from tests.contract.repository_worlds import MemoryWorld
from tests.support.deliveries import a_new_error, a_row, a_unit
from tests.support.partners import an_endpoint


@pytest.fixture
def endpoint(tables: World) -> int:
    return 7 if isinstance(tables, MemoryWorld) else an_endpoint().pk


@pytest.fixture(autouse=True)
def circuits(tables: World, endpoint: int):
    known = tables.database.circuits if isinstance(tables, MemoryWorld) else DatabaseCircuits()
    known.look(endpoint)
    return known


def settle(repository: Repository, owned: Owned, batch_result: BatchResult) -> bool:
    """As a delivery batch does it: in one statement where that says it all."""
    done = repository.settle_at_once(owned, batch_result)
    if done is None:
        with repository.work(owned) as work:
            done = work.settle(batch_result)
    if done:
        owned.next_offset = batch_result.next_offset
    return done


def intend(repository: Repository, owned: Owned, *intents: Intent) -> bool:
    return settle(
        repository, owned, BatchResult(owned.next_offset, dispatch=Dispatch(list(intents)))
    )


def an_intent(endpoint: int, offset: int, **fields) -> Intent:
    return Intent(a_unit(offset), endpoint, **fields)


def next_owner(tables: World) -> Owned:
    return tables.manager().take()[0]


def test_an_intent_that_nobody_ended_is_a_doubt_of_the_next_owner(tables, owned, endpoint):
    repository = tables.repository()
    first, second = an_intent(endpoint, 10), an_intent(endpoint, 11)
    assert intend(repository, owned, first, second)
    assert first.id is not None
    assert not repository.past(owned).doubts, "its own calls are no doubts"
    end = DeliveryEnd(id=second.id or 0, state=DeliveryState.DELIVERED, took_ms=3)
    assert settle(repository, owned, BatchResult(10, dispatch=Dispatch(ends=[end])))

    later = replace(owned, epoch=owned.epoch + 1)
    past = repository.past(later, [10, 11])
    found = {at: (doubt.id, doubt.endpoint) for at, doubt in past.doubts.items()}
    assert found == {10: (first.id, endpoint)}
    assert past.delivered == {11: second.unit.message_id}


def test_a_position_knows_up_to_where_calls_were_meant(tables, owned, endpoint):
    intend(tables.repository(), owned, an_intent(endpoint, 10), an_intent(endpoint, 12))
    for fields, expected in (
        ({"next_offset": 10}, 12),
        ({"next_offset": 12}, 12),
        ({"next_offset": 13}, None),
        ({"next_offset": 10, "topic_uuid": "another"}, None),
    ):
        tables.put(**fields)
        owned = taken_over(tables, owned)
        assert (fields, owned.called_until) == (fields, expected)


def test_beyond_a_position_that_went_back_each_batch_reads_what_is_its_own(tables, owned, endpoint):
    """Months of deliveries may lie there, and the payloads of all failures that were closed."""
    repository = tables.repository()
    intents = [an_intent(endpoint, at) for at in (10, 11, 13, 5_000)]
    assert intend(repository, owned, *intents)
    ends = [DeliveryEnd(id=i.id or 0, state=DeliveryState.DELIVERED, took_ms=3) for i in intents]
    closed = a_new_error(12)
    settle(repository, owned, BatchResult(13, new_errors=[closed], dispatch=Dispatch(ends=ends)))
    tables.alter(closed.id, state="DELETED")
    later = replace(owned, epoch=owned.epoch + 1, next_offset=10, failed_until=12)
    read: list[Past] = []
    known_last: list[int | None] = []

    def past(owned, offsets, last=None) -> Past:
        known_last.append(last)
        read.append(repository.past(owned, offsets, last))
        return read[-1]

    sender, known = Sender(None, CallThreads(), None), SimpleNamespace(past=past)
    context = SimpleNamespace(repository=known)
    of_row = sender.past(context, later, [a_unit(9, row=a_row())])
    assert (of_row.delivered, of_row.deleted) == ({}, {}), "a failure has nothing to be passed"
    batches = [(10, 11), (12, 13), (4_001, 4_002), (5_000, 5_001), (5_002,), (5_003,)]
    for batch in batches:
        sender.past(context, later, [a_unit(at) for at in batch])
    ended = [sorted([*one.delivered, *one.deleted]) for one in read]
    assert ended == [[], [10, 11], [12, 13], [], [5_000]], "behind the last one nothing is read"
    assert known_last == [None, *[5_000] * 4], "that is looked for once, by the first batch"


def test_where_the_last_delivery_is_known_nobody_looks_for_it(tables, owned, endpoint):
    """Behind what counts no more, as it is sent again, a search passes all of it."""
    repository = tables.repository()
    intents = [an_intent(endpoint, at) for at in (10, 5_000)]
    assert intend(repository, owned, *intents)
    ends = [DeliveryEnd(id=i.id or 0, state=DeliveryState.DELIVERED, took_ms=3) for i in intents]
    settle(repository, owned, BatchResult(10, dispatch=Dispatch(ends=ends)))
    later = replace(owned, epoch=owned.epoch + 1)
    assert repository.past(later).last == 5_000
    assert repository.past(later, [10], 4_000).last == 4_000
    assert repository.past(later, [10], -1).last == -1


def test_what_is_known_of_a_failures_call_is_read_again_for_each_of_its_tries(
    tables, owned, endpoint
):
    repository = tables.repository()
    settle(repository, owned, BatchResult(11, new_errors=[a_new_error(10, delay_seconds=0.0)]))
    tables.later(1)
    [row] = repository.due_rows(owned, 10)
    assert intend(repository, owned, Intent(a_unit(row=row, record=row.record), endpoint))
    owned = taken_over(tables, owned)
    sender, context = Sender(None, CallThreads(), None), SimpleNamespace(repository=repository)
    [doubt] = sender.past(context, owned, [a_unit(row=row)]).doubted_errors.values()
    end = DeliveryEnd(id=doubt.id, state=DeliveryState.UNKNOWN)
    assert settle(repository, owned, BatchResult(11, dispatch=Dispatch(ends=[end])))
    assert not sender.past(context, owned, [a_unit(row=row)]).doubted_errors


def test_a_repeat_takes_the_place_of_the_doubt_and_is_counted(tables, owned, endpoint):
    repository = tables.repository()
    intend(repository, owned, an_intent(endpoint, 10))
    owned = taken_over(tables, owned)
    doubt = repository.past(owned).doubts[10]
    again = an_intent(endpoint, 10, attempt=doubt.attempt + 1, replaces=(doubt.id,))
    assert intend(repository, owned, again)
    owned = taken_over(tables, owned)
    found = repository.past(owned).doubts[10]
    assert (found.id, found.attempt, found.repeated) == (again.id, 2, 1)


def taken_over(tables: World, owned: Owned) -> Owned:
    """The owner died without a word; the next one has a higher epoch."""
    if isinstance(tables, MemoryWorld):
        tables.database.places[owned.partition].owner = None
    else:
        for manager in tables.managers:
            tables.die(manager)
        tables.managers.clear()
    return next_owner(tables)


def test_under_an_open_circuit_no_intent_is_written(tables, owned, endpoint, circuits):
    repository = tables.repository()
    version = circuits.look(endpoint).version
    opened = Move(Circuit(state=CircuitState.OPEN), 0.0)
    version = circuits.move(endpoint, version, opened, "", "")
    refused = an_intent(endpoint, 10, circuit_version=version)
    assert intend(repository, owned, refused)
    assert refused.id is None

    probing = circuits.probe(endpoint, version, 30)
    other = an_intent(endpoint, 10, circuit_version=version)
    probe = an_intent(endpoint, 11, circuit_version=probing)
    assert intend(repository, owned, other, probe)
    assert (other.id, probe.id is None) == (None, False)


def test_the_probe_that_an_earlier_owner_died_in_may_be_made_again_at_once(
    tables, owned, endpoint, circuits
):
    repository = tables.repository()
    opened = Move(Circuit(state=CircuitState.OPEN, probes=3), 0.0)
    version = circuits.move(endpoint, circuits.look(endpoint).version, opened, "", "")
    probing = circuits.probe(endpoint, version, 3_600)
    assert intend(repository, owned, an_intent(endpoint, 10, circuit_version=probing))
    repository.past(owned)
    assert circuits.look(endpoint).version == probing, "its own is under way"

    owned = taken_over(tables, owned)
    assert repository.past(owned).doubts
    status = circuits.look(endpoint)
    assert (status.circuit.state, status.circuit.probes) == (CircuitState.OPEN, 3)
    again = circuits.probe(endpoint, status.version, 3_600)
    assert again is not None
    assert repository.past(owned).doubts
    assert circuits.look(endpoint).version == again, "this one is somebody else's"


def test_a_failure_in_flight_is_marked_and_one_that_a_person_moved_is_left_out(
    tables, owned, endpoint
):
    repository = tables.repository()
    new = [a_new_error(10, delay_seconds=0.0), a_new_error(11, delay_seconds=0.0)]
    settle(repository, owned, BatchResult(12, new_errors=new))
    tables.later(1)
    mine, moved = repository.due_rows(owned, 10)
    intents = [Intent(a_unit(row=row, record=row.record), endpoint) for row in (mine, moved)]
    intents[1].unit.row = replace(moved, version=moved.version + 5)
    assert intend(repository, owned, *intents)
    assert (intents[0].id is None, intents[1].id) == (False, None)
    assert tables.row(mine.id).state == "PROCESSING"
    assert tables.row(moved.id).state == "RETRY"

    settle(repository, owned, BatchResult(12, dispatch=Dispatch(returned=[mine])))
    assert tables.row(mine.id).state == "RETRY"


def test_failures_of_the_old_topic_and_the_new_one_at_one_offset_have_a_call_each(
    tables, owned, endpoint
):
    repository = tables.repository()
    before, now = (a_new_error(10, delay_seconds=0.0) for _ in range(2))
    settle(repository, owned, BatchResult(11, new_errors=[before]))
    tables.alter(before.id, topic_uuid="topic-before")
    settle(repository, owned, BatchResult(11, new_errors=[now]))
    tables.later(1)
    due = repository.due_rows(owned, 10)
    intents = [Intent(a_unit(row=row, record=row.record), endpoint) for row in due]
    assert intend(repository, owned, *intents)
    doubts = repository.past(replace(owned, epoch=owned.epoch + 1)).doubted_errors
    assert {id_: doubt.id for id_, doubt in doubts.items()} == {
        intent.unit.row.id: intent.id for intent in intents
    }
    assert doubts.keys() == {before.id, now.id}


def test_a_fenced_owner_writes_no_intent(tables, owned, endpoint):
    repository = tables.repository()
    stale = replace(owned, epoch=owned.epoch - 1)
    intent = an_intent(endpoint, 10)
    assert not intend(repository, stale, intent)
    assert not repository.past(replace(owned, epoch=owned.epoch + 1)).doubts


def test_keys_with_an_open_failure_are_told(tables, owned):
    tables.configure(keeps_keys_in_order=True)
    repository = tables.repository()
    unit = a_unit(10)
    unit.record.key = b"k"
    settle(repository, owned, BatchResult(11, new_errors=[a_new_error(10, unit=unit)]))
    known, other = order_key(b"k"), order_key(b"other")
    assert repository.open_keys(owned, [known, other]) == {known: 10}
