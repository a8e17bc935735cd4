"""A batch in threads on the in-memory fakes: what is committed when, and what a later run takes up.

Of the threads one runs at a time, and a seed says which: the same seed tells the same story.
"""

from collections import Counter
from typing import Any

import pytest

from integration.delivery.owned import Owned
from integration.delivery.report import RunEnding
from integration.delivery.steps import Step
from integration.policy.failure_thresholds import FailureThresholds
from integration.policy.states import ErrorState, PartitionState
from tests.support.fake_world import Died, FakeWorld, Script, Written
from tests.support.memory.partition_manager import MemoryPartitionManager
from tests.support.memory.tables import MemoryDatabase

pytestmark = pytest.mark.fast

SEEDS = range(2)
STEPS = range(1, 45, 2)


def a_world(*deeds: str, seed: int = 0, **fields) -> FakeWorld:
    """A topic in which every third message has the same key."""
    world = FakeWorld(**({"concurrency": 3, "batch_size": 6} | fields))
    world.seed = seed
    for place, do in enumerate(deeds):
        world.send(do, key=b"abc"[place % 3 : place % 3 + 1], until=2)
    return world


def die(_: Step) -> None:
    raise Died


def run(world: FakeWorld, script: Script | None = None) -> bool:
    """One run; false when its process died."""
    try:
        world.run(script)
    except Died:
        world.free()
        return False
    return True


def account(world: FakeWorld, offsets: list[int]) -> None:
    """Each of these was applied once, those of a key in order, and as old as it is in the log."""
    effects = [effect for effect in world.database.effects if isinstance(effect, Written)]
    assert sorted(effect.offset for effect in effects) == offsets
    for key in range(3):
        of_key = [effect.offset for effect in effects if effect.offset % 3 == key]
        assert of_key == sorted(of_key)
    by_age = sorted(effects, key=lambda effect: effect.arrival)
    assert [effect.offset for effect in by_age] == offsets
    tracks = Counter(track.offset for track in world.database.tracks if track.ended == "APPLIED")
    assert tracks == Counter(offsets)


def test_each_thread_commits_its_share_under_the_number_of_the_batch():
    world = a_world(*["ok"] * 12)
    script = Script()
    assert world.run(script).ending is RunEnding.DRAINED
    assert script.steps.count(Step.COMMITTED) == 6
    assert world.database.logged == [(1, 0, 0, 5), (2, 0, 6, 11)]
    account(world, list(range(12)))


def test_with_one_thread_everything_is_as_it_always_was():
    script, numbers = Script(), set()
    for seed in SEEDS:
        world = a_world(*["ok"] * 12, seed=seed, concurrency=1)
        world.run(script)
        assert world.place().open_batch is None
        numbers.add(tuple(world.database.logged))
    assert script.steps.count(Step.COMMITTED) == 2 * len(SEEDS)
    assert numbers == {((1, 0, 0, 5), (2, 0, 6, 11))}


@pytest.mark.parametrize(
    "fields", [{"sequential": True}, {"is_error_queue": True}, {"concurrency": 1}]
)
def test_where_order_counts_there_is_one_thread(fields):
    assert a_world(**({"concurrency": 8} | fields)).database.queue.threads == 1


@pytest.mark.parametrize("seed", SEEDS)
def test_a_failure_undoes_its_own_thread_alone(seed):
    world = a_world("ok", "permanent", "ok", "ok", "ok", "ok", seed=seed)
    script = Script()
    world.run(script)
    assert (script.steps.count(Step.UNDONE), script.steps.count(Step.COMMITTED)) == (1, 3)
    assert (world.row(1).state, world.row(1).arrival) == (ErrorState.HOLD, (1, 1))
    account(world, [0, 2, 3, 4, 5])


@pytest.mark.parametrize("seed", SEEDS)
def test_a_death_at_any_step_loses_and_doubles_nothing_and_ages_stay(seed):
    ahead = set()
    for at in STEPS:
        world = a_world("ok", "permanent", *["ok"] * 8, seed=seed)
        if not run(world, Script(at, die)):
            ahead |= world.place().done
            assert run(world)
        account(world, [0, *range(2, 10)])
        assert world.row(1).arrival[1] == 1
    assert ahead, "nobody was ever ahead of the position"


@pytest.mark.parametrize("seed", SEEDS)
def test_a_second_death_in_what_the_first_has_left_open_changes_nothing(seed):
    for at in STEPS:
        world = a_world(*["ok"] * 10, seed=seed)
        run(world, Script(18, die))
        run(world, Script(at, die))
        assert run(world)
        account(world, list(range(10)))


@pytest.mark.parametrize("seed", SEEDS)
def test_what_stands_open_is_worked_by_one_thread_too(seed):
    for at in STEPS:
        world = a_world(*["ok"] * 10, seed=seed)
        run(world, Script(at, die))
        world.configure(concurrency=1, batch_size=2)
        assert run(world)
        account(world, list(range(10)))


class Unfenced(MemoryDatabase):
    """A database that lets an old epoch write."""

    def stands_at(self, owned: Owned) -> bool:
        return True

    def is_owned(self, owned: Owned) -> bool:
        return True


def taken_over_at_every_step(seed: int, tables: type[MemoryDatabase]) -> None:
    """The owner is stopped in a thread; another works through everything; it goes on."""
    for at in STEPS:
        world = a_world(*["ok"] * 10, seed=seed, tables=tables)
        other = MemoryPartitionManager(world.database)

        def take_over(_: Step, world: FakeWorld = world, other: Any = other) -> None:
            other.steal()
            world.run(manager=other)

        world.run(Script(at, take_over))
        world.run()
        account(world, list(range(10)))


@pytest.mark.parametrize("seed", SEEDS)
def test_a_stopped_owner_that_goes_on_in_a_thread_changes_nothing(seed):
    taken_over_at_every_step(seed, MemoryDatabase)


def test_without_the_fence_a_stopped_owner_doubles():
    with pytest.raises(AssertionError):
        taken_over_at_every_step(0, Unfenced)


@pytest.mark.parametrize("seed", SEEDS)
def test_what_kills_the_process_is_held_and_the_rest_goes_on(seed):
    world = a_world(*["ok"] * 4, "kill", *["ok"] * 5, seed=seed, crash_limit=2)
    deaths = 0
    while not run(world):
        deaths += 1
    # Two ends make suspects of what stands open; then it dies alone, as often as it may.
    assert deaths <= 4
    assert (world.row(4).code, world.row(4).state) == ("PROCESS_CRASH", ErrorState.HOLD)
    account(world, [0, 1, 2, 3, 5, 6, 7, 8, 9])


@pytest.mark.parametrize("seed", SEEDS)
def test_an_outage_in_one_thread_leaves_what_the_others_have_done(seed):
    world = a_world("ok", "outage", *["ok"] * 8, seed=seed)
    world.down = True
    assert world.run().ending is RunEnding.OUTAGE
    assert (world.place().state, world.place().next_offset) == (PartitionState.OUTAGE, 1)
    assert world.place().done >= {3}
    before = len(world.database.effects)
    # It is probed with the message that stands open, and with nothing that is done.
    world.database.clock.advance(100)
    assert world.run().ending is RunEnding.OUTAGE
    assert len(world.database.effects) == before
    world.down = False
    world.database.clock.advance(1000)
    world.run()
    account(world, list(range(10)))


@pytest.mark.parametrize("seed", SEEDS)
def test_a_stop_set_meanwhile_is_kept_to_the_message(seed):
    for at in STEPS:
        world = a_world(*["ok"] * 10, seed=seed)
        told = []
        world.run(Script(at, lambda _, world=world, told=told: told.append(world.stop_at(4))))
        if told == [True]:
            assert world.place().next_offset == 4
            account(world, [0, 1, 2, 3])
            world.go_on()
        world.run()
        account(world, list(range(10)))


def test_a_position_that_goes_back_reads_again_what_was_done_ahead():
    world = a_world("ok", "outage", *["ok"] * 4)
    world.down = True
    world.run()
    assert world.place().done
    world.down = False
    world.go_back(0)
    world.run()
    assert sorted(set(world.effects())) == list(range(6))
    assert world.effects().count(0) == 2


@pytest.mark.parametrize("on_gap", ["advance", "block"])
def test_what_expires_while_it_stands_open_is_a_gap_and_what_is_done_is_none(on_gap):
    world = a_world("ok", "outage", *["ok"] * 6, on_gap=on_gap, batch_size=8)
    world.down = True
    world.run()
    done, position = sorted(world.place().done), world.place().next_offset
    assert position == 1
    assert done
    world.topic.expire(8)
    world.down = False
    for _ in range(5):
        world.database.clock.advance(1000)
        world.run()
        world.acknowledge()
    lost = [offset for gap in world.database.gaps for offset in range(gap.start, gap.end)]
    assert lost == [offset for offset in range(1, 8) if offset not in done]
    assert world.place().next_offset == 8


@pytest.mark.parametrize("seed", SEEDS)
def test_a_repeated_id_is_dropped_whatever_its_keys(seed):
    world = FakeWorld(concurrency=4, batch_size=12, dedupe=True)
    world.seed = seed
    for place in range(12):
        world.send(key=b"%d" % place, id=f"id-{place % 3}")
    world.run()
    assert sorted(world.effects()) == [0, 1, 2]
    assert [track.ended for track in world.database.tracks].count("DUPLICATE") == 9


@pytest.mark.parametrize("seed", SEEDS)
def test_order_within_a_key_is_kept_over_failures_in_threads(seed):
    deeds = ["ok", "until", "ok", "ok", "ok", "permanent", *["ok"] * 6]
    for at in (*STEPS, 0):
        world = a_world(*deeds, seed=seed, keeps_keys_in_order=True)
        run(world, Script(at, die))
        for _ in range(6):
            world.database.clock.advance(100)
            run(world)
        held = [row for row in world.database.open_rows() if row.state is ErrorState.HOLD]
        assert [row.record.offset for row in held] == [5]
        world.person("edit", held[0].id)
        world.person("release", held[0].id)
        for _ in range(3):
            world.database.clock.advance(100)
            run(world)
        assert sorted(world.effects()) == list(range(12))
        for key in range(3):
            of_key = [offset for offset in world.effects() if offset % 3 == key]
            assert of_key == sorted(of_key)


def test_released_rows_are_tried_side_by_side():
    world = a_world(*["permanent"] * 6)
    world.run()
    for row in list(world.database.open_rows()):
        world.person("edit", row.id)
        world.person("release", row.id)
    script = Script()
    world.run(script)
    assert sorted(world.effects()) == list(range(6))
    assert script.steps.count(Step.COMMITTED) == 3


def test_failures_of_all_threads_count_for_the_threshold():
    limits = FailureThresholds(failure_threshold=4, max_open_errors=100)
    world = a_world(*["permanent"] * 12, failure_thresholds=limits)
    assert world.run().ending is RunEnding.BRAKED
    assert (world.place().state, world.place().next_offset) == (PartitionState.BRAKED, 6)


def test_a_topic_cut_behind_the_position_is_noticed_by_what_was_done_ahead():
    """Other messages get those offsets: taken for done, they would be passed untried."""
    world = a_world("ok", "outage", *["ok"] * 4)
    world.down = True
    world.run()
    position, last_done = world.place().next_offset, max(world.place().done)
    assert position < last_done
    part = world.topic.partitions[0]
    part.records = {at: record for at, record in part.records.items() if at < last_done}
    part.end = last_done
    world.down = False
    world.database.clock.advance(1000)
    world.run()
    place = world.place()
    assert (place.state, place.state_code) == (PartitionState.BLOCKED, "TOPIC_TRUNCATED")
    assert place.next_offset == position
