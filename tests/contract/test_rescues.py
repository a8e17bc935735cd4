"""The contract of rescues: what is copied under an epoch is what a run reads there, once."""

from dataclasses import replace

import pytest

from integration.delivery.batch_result import BatchResult
from integration.delivery.owned import Owned
from integration.delivery.ports import PartitionManager
from integration.delivery.rescuing import Piece, RescueStep
from integration.values import Record
from tests.contract.rescue_worlds import DatabaseRescueWorld, MemoryRescueWorld
from tests.support.deliveries import a_batch_result, a_change, a_new_error, settle


def records(*offsets: int, size: int = 1) -> list[Record]:
    return [Record(0, at, 1_000 + at, b"k", b"x" * size, [("h", b"1")]) for at in offsets]


def a_piece(first: int, end: int, *offsets: int, size: int = 1) -> Piece:
    return Piece(first, end, records(*offsets, size=size), "PAUSED")


def add(tables, owned: Owned, piece: Piece) -> list[str]:
    """Add a piece; the steps on the way, none of them where it was refused."""
    steps: list[RescueStep] = []
    added = tables.rescues().add(owned, piece, steps.append)
    return [str(step) for step in steps] if added else []


def offsets(tables, owned: Owned, limit: int = 100) -> list[int]:
    return [record.offset for record in tables.repository().rescued(owned, limit)]


@pytest.fixture(scope="module")
def worlds() -> tuple[type[MemoryRescueWorld], type[DatabaseRescueWorld]]:
    return MemoryRescueWorld, DatabaseRescueWorld


@pytest.fixture
def manager(tables) -> PartitionManager:
    return tables.manager()


@pytest.fixture
def owned(manager) -> Owned:
    return manager.take()[0]


def next_owner(tables, manager: PartitionManager) -> Owned:
    manager.close(clean=True)
    return tables.manager().take()[0]


def test_pieces_of_one_range_are_read_by_the_next_owner_in_order(tables, manager, owned):
    assert add(tables, owned, a_piece(10, 15, 10, 11, 14)) == ["begun", "copied", "committed"]
    assert add(tables, owned, a_piece(15, 20, 17))
    after = next_owner(tables, manager)
    assert after.rescued == ((10, 20),)
    assert offsets(tables, after) == [10, 11, 14, 17]
    assert offsets(tables, after, limit=2) == [10, 11]
    after.next_offset = 12
    assert offsets(tables, after) == [14, 17]
    after.next_offset = 18
    assert offsets(tables, after) == []


def test_a_range_behind_a_hole_is_another_one(tables, manager, owned):
    add(tables, owned, a_piece(10, 12, 10, 11))
    add(tables, owned, a_piece(15, 17, 15, 16))
    after = next_owner(tables, manager)
    assert after.rescued == ((10, 12), (15, 17))
    assert offsets(tables, after) == [10, 11]
    after.next_offset = 12
    assert (after.rescued_until, after.gone_until(low=20)) == (None, 15)


def test_everything_a_record_carries_is_there(tables, owned):
    headers = [("größe", "übel".encode()), ("bytes", b"\xff\x00"), ("none", None), ("größe", b"2")]
    full = Record(0, 10, 1_234, b"\xffk", b"\x00v", headers)
    bare = Record(0, 11, None, None, None, None)
    empty = Record(0, 12, 0, b"", b"", [])
    tables.rescues().add(owned, Piece(10, 13, [full, bare, empty], "OFF"), lambda _: None)
    owned.rescued = ((10, 13),)
    found = tables.repository().rescued(owned, 10)
    assert [(r.timestamp_ms, r.key, r.value) for r in found] == [
        (1_234, b"\xffk", b"\x00v"),
        (None, None, None),
        (0, b"", b""),
    ]
    assert [list(record.headers or ()) for record in found] == [headers, [], []]


def test_an_old_epoch_and_a_position_that_moved_add_nothing(tables, manager, owned):
    fenced = replace(owned, epoch=owned.epoch - 1)
    moved = replace(owned, next_offset=9)
    assert add(tables, fenced, a_piece(10, 12, 10, 11)) == []
    assert add(tables, moved, a_piece(10, 12, 10, 11)) == []
    after = next_owner(tables, manager)
    assert after.rescued == ()


def test_the_limit_counts_what_stands(tables, owned):
    tables.limit_rescues(1)
    assert tables.rescues().room() == 2**20
    add(tables, owned, a_piece(10, 12, 10, 11, size=1_000))
    assert tables.rescues().room() == 2**20 - 2 * (1_000 + 3)


def test_behind_the_head_of_a_sequential_queue_begins_what_nobody_tried(tables, owned):
    settle(tables.repository(), owned, a_batch_result(11, 10))
    assert tables.rescues().first_untried(owned) == 11
    settle(tables.repository(), owned, BatchResult(11, new_errors=[a_new_error(11)]))
    assert tables.rescues().first_untried(owned) == 11  # a continuous queue has no head


def test_a_message_that_is_to_be_read_again_is_rescued_whatever_became_of_its_failure(
    tables, owned
):
    tables.keep_order()
    repository = tables.repository()
    settle(repository, owned, BatchResult(10, new_errors=[a_new_error(10)]))
    assert tables.rescues().first_untried(owned) == 11
    head = repository.head(owned)
    settle(repository, owned, BatchResult(11, changes=[a_change(head)]))
    tables.move(10)
    owned.next_offset = 10
    assert tables.rescues().first_untried(owned) == 10


def test_how_it_ended_is_noted_by_the_owner_alone(tables, owned):
    tables.rescues().note(replace(owned, epoch=owned.epoch - 1), "RESCUE_FULL", "No room.")
    assert tables.rescue_code() == ""
    tables.rescues().note(owned, "RESCUE_FULL", "No room.")
    assert tables.rescue_code() == "RESCUE_FULL"


def test_whoever_rescues_takes_what_it_is_told_to_and_its_death_says_nothing(tables):
    tables.put(1, suspect_offset=10, suspect_crashes=1)
    rescuer = tables.rescuer()
    taken = rescuer.take_only([tables.id_of(1)])
    assert [owned.partition for owned in taken] == [1]
    assert tables.rescuer().take_only([tables.id_of(1)]) == []
    tables.die(rescuer)
    held = tables.manager().take()
    assert [(owned.partition, owned.unclean_ends) for owned in held] == [(0, 0), (1, 0)]
    assert (held[1].suspect_offset, held[1].suspect_crashes) == (10, 1)
    assert held[1].epoch > taken[0].epoch
