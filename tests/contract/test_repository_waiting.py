"""The contract of the Repository, in memory and on PostgreSQL: messages that wait for an object."""

from dataclasses import replace
from uuid import UUID

from integration.delivery.batch_result import BatchResult
from integration.delivery.owned import Owned
from integration.delivery.ports import Repository
from integration.handlers.arrivals import Arrived
from integration.policy.states import ErrorState
from tests.support.deliveries import BOOM, a_change, a_new_error, settle


def wait_for(
    repository: Repository, owned: Owned, key: str, *, looks: bool = True, **fields
) -> UUID:
    """A failure that waits for the asset of that key."""
    failure = replace(BOOM, waits_for=("asset", key))
    new = a_new_error(owned.next_offset, failure=failure, **fields)
    failed = BatchResult(owned.next_offset + 1, new_errors=[new])
    settle(repository, owned, failed)
    if looks:
        repository.wake_waiting(owned, failed)
    return new.id


def come(repository: Repository, owned: Owned, *keys: str, kind: str = "asset") -> None:
    stored = BatchResult(owned.next_offset, arrivals=[Arrived(kind, keys)])
    settle(repository, owned, stored)
    repository.wake_waiting(owned, stored)


def due(repository: Repository, owned: Owned) -> list[int]:
    return [row.offset for row in repository.due_rows(owned, 10)]


def test_an_object_that_arrives_makes_those_due_that_wait_for_it_and_no_others(tables, owned):
    repository = tables.repository()
    wait_for(repository, owned, "A")
    wait_for(repository, owned, "B")
    come(repository, owned, "A", "C")
    come(repository, owned, "B", kind="location")
    assert due(repository, owned) == [10]


def test_a_reminder_in_the_topic_is_not_needed_then(tables, owned):
    repository = tables.repository()
    error = wait_for(repository, owned, "A", carrier="topic")
    come(repository, owned, "A")
    assert due(repository, owned) == [10]
    assert tables.row(error).carrier == "row"


def test_one_that_is_held_stays_held(tables, owned):
    repository = tables.repository()
    error = wait_for(repository, owned, "A", state=ErrorState.HOLD, delay_seconds=None)
    come(repository, owned, "A")
    assert tables.row(error).state == "HOLD"


def test_the_second_look_finds_what_came_before_the_wait(tables, owned):
    repository = tables.repository()
    come(repository, owned, "A")
    wait_for(repository, owned, "A")
    wait_for(repository, owned, "B")
    assert due(repository, owned) == [10]


def test_an_arrival_makes_a_message_due_once(tables, owned):
    repository = tables.repository()
    come(repository, owned, "A")
    wait_for(repository, owned, "A")
    [row] = repository.due_rows(owned, 10)
    failure = replace(BOOM, waits_for=("asset", "A"))
    again = a_change(row, ErrorState.RETRY, failure=failure)
    with repository.work(owned) as work:
        assert work.claim([(row.id, row.version)])
        assert work.settle(BatchResult(owned.next_offset, changes=[again]))
    repository.wake_waiting(owned, BatchResult(owned.next_offset, changes=[again]))
    assert due(repository, owned) == []
    come(repository, owned, "A")
    assert due(repository, owned) == [10]


def test_a_look_that_was_lost_is_made_up_for(tables, owned):
    repository = tables.repository()
    come(repository, owned, "A")
    wait_for(repository, owned, "A", looks=False)
    assert due(repository, owned) == []
    repository.wake_missed()
    assert due(repository, owned) == [10]
