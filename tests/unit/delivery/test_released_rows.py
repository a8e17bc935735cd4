"""Rows of a partition that is not read: all that is due is worked off in one run."""

from datetime import timedelta

import pytest

from integration.delivery.report import YIELD, RunEnding
from integration.delivery.run import ISOLATE_AFTER_UNCLEAN_ENDS
from integration.delivery.steps import Step
from integration.policy.failure_thresholds import FailureThresholds
from integration.policy.retry import RetryPolicy
from integration.policy.states import ErrorState, PartitionState
from tests.support.fake_world import Died, FakeWorld, Script, Written

pytestmark = pytest.mark.fast

SECOND = timedelta(seconds=1)
ONCE = RetryPolicy(max_retries=0)
BATCH = 3
COUNT = 10


def held_back(*, keyed: bool, do: str = "ok") -> FakeWorld:
    """Ten failures, of one key or of none, in a partition that stopped at its failure threshold.

    All are corrected and released; of one key, that is the first, and the others are parked.
    """
    world = FakeWorld(
        batch_size=BATCH,
        retry=ONCE,
        keeps_keys_in_order=keyed,
        failure_thresholds=FailureThresholds(failure_threshold=0),
    )
    for place in range(COUNT):
        world.send("ok" if keyed and place else "permanent", key=b"k" if keyed else None)
    world.run()
    for offset in range(COUNT):
        row = world.row(offset)
        if row.state is ErrorState.HOLD:
            world.database.change(row.id, row.version, edited=b'{"do": "%s"}' % do.encode())
            world.person("release", row.id)
    world.place().state = PartitionState.BRAKED
    world.place().state_code = "TOO_MANY_OPEN_ERRORS"
    assert world.effects() == []
    return world


def dies(_: Step) -> None:
    raise Died


def after_unclean_ends(*, keyed: bool) -> FakeWorld:
    """The same, where so many runs have died that the next one isolates."""
    world = held_back(keyed=keyed)
    for _ in range(ISOLATE_AFTER_UNCLEAN_ENDS):
        with pytest.raises(Died):
            world.run(Script(2, dies))
    return world


def arrivals(world: FakeWorld) -> dict[int, tuple[int, int]]:
    """The numbers under which messages were applied, by offset."""
    return {one.offset: one.arrival for one in world.database.effects if isinstance(one, Written)}


def released_as_newest(*, until: int) -> FakeWorld:
    """A failure that somebody treats as the newest, with a newer message behind it applied."""
    world = FakeWorld(retry=RetryPolicy(max_retries=3))
    world.send("permanent", key=b"k")
    world.send(key=b"k")
    world.run()
    world.person("release", world.row(0).id)
    row = world.row(0)
    told = {"apply_as_newest": True, "edited": b'{"do": "until", "until": %d}' % until}
    world.database.change(row.id, row.version, **told)
    world.run()
    return world


def test_what_is_treated_as_the_newest_is_newer_than_what_was_there():
    world = released_as_newest(until=2)
    assert arrivals(world)[0] > arrivals(world)[1]


@pytest.mark.parametrize("keyed", [True, False])
def test_what_came_after_the_try_that_treats_it_as_the_newest_is_newer(keyed):
    """A retry is later; the decision, and the number that it drew, are not."""
    world = released_as_newest(until=4)
    world.configure(keeps_keys_in_order=keyed)
    assert world.row(0).state is ErrorState.RETRY
    newer = world.send(key=b"k")
    for _ in range(3):
        world.run()
        world.database.clock.advance(1_000)
    found = arrivals(world)
    assert found[1] < found[0] < found[newer]
    assert world.row(0).state is ErrorState.RESOLVED


def test_another_release_is_another_decision():
    world = released_as_newest(until=3)
    row = world.row(0)
    assert world.person("hold", row.id)
    assert world.person("release", row.id)
    world.run()
    assert arrivals(world)[0] == row.arrival < arrivals(world)[1]


def test_a_released_failure_has_its_whole_time_for_retries():
    """How long it had failed before, and lay on hold, spends nothing of it."""
    policy = RetryPolicy(max_retries=None, first=40 * SECOND, total=100 * SECOND)
    world = FakeWorld(carrier="row", retry=policy)
    world.send("until", until=99)
    for _ in range(2):
        states = []
        for _ in range(3):
            world.run()
            states.append(world.row(0).state)
            world.database.clock.advance(40)
        assert states == ["RETRY", "RETRY", "HOLD"]
        world.database.clock.advance(3_600)
        world.person("release", world.row(0).id)


@pytest.mark.parametrize("keyed", [True, False])
def test_what_was_released_is_through_in_one_run_though_nothing_is_read(keyed):
    world = held_back(keyed=keyed)
    report = world.run()
    assert (report.ending, report.drained) == (RunEnding.BRAKED, True)
    assert world.effects() == list(range(COUNT))
    assert {row.state for row in world.database.errors.values()} == {ErrorState.RESOLVED}


@pytest.mark.parametrize("keyed", [True, False])
def test_a_run_that_gives_way_in_between_says_that_something_is_left(keyed):
    world = held_back(keyed=keyed)

    def stop(*, quiet_seconds: float) -> str | None:
        assert quiet_seconds == 0
        return YIELD if world.effects() else None

    report = world.run(stop=stop)
    assert (report.ending, report.drained) == (RunEnding.YIELDED, False)
    assert 0 < len(world.effects()) < COUNT
    world.run()
    assert world.effects() == list(range(COUNT))


@pytest.mark.parametrize("keyed", [True, False])
def test_after_unclean_ends_as_many_run_alone_as_a_batch_has_and_no_more(keyed):
    world = after_unclean_ends(keyed=keyed)
    script = Script()
    world.run(script)
    assert world.effects() == list(range(COUNT))
    assert script.steps.count(Step.MARKED) == BATCH


@pytest.mark.parametrize("keyed", [True, False])
def test_so_it_is_also_where_each_run_gives_way_before(keyed):
    """Others wait for its slot: a run that counted for itself would run them alone for ever."""
    world = after_unclean_ends(keyed=keyed)
    script = Script()

    def stop(*, quiet_seconds: float) -> str:
        assert quiet_seconds == 0
        return YIELD

    while len(world.effects()) < COUNT:
        known = len(world.effects())
        world.run(script, stop=stop)
        assert len(world.effects()) > known
    assert world.effects() == list(range(COUNT))
    assert script.steps.count(Step.MARKED) == BATCH


def test_those_that_fail_again_do_not_keep_the_others_from_their_turn():
    world = held_back(keyed=False)
    row = world.row(1)
    world.database.change(row.id, row.version, edited=b'{"do": "permanent"}')
    world.run()
    assert world.effects() == [0, *range(2, COUNT)]
    assert (world.row(1).state, world.place().state) == (ErrorState.HOLD, PartitionState.BRAKED)


def test_a_row_that_meets_an_outage_has_the_pause_of_its_partition():
    world = FakeWorld(partitions=2, stay_seconds=2.0, retry=ONCE)
    world.send("permanent")
    world.run()
    row = world.row(0)
    world.database.change(row.id, row.version, edited=b'{"do": "outage"}')
    world.person("release", row.id)
    world.send(partition=1)
    world.down = True
    script = Script()
    assert world.run(script).ending is RunEnding.DRAINED
    # It, alone again after the batch that failed, and the message of the other partition.
    assert (script.steps.count(Step.BEGUN), world.place(0).probes) == (3, 1)
    assert world.effects(partition=1) == [0]
    world.down = False
    world.database.clock.advance(100)
    world.run()
    assert world.effects() == [0]


def test_an_outage_that_a_released_row_meets_ends_the_run():
    world = held_back(keyed=False, do="outage")
    world.down = True
    assert world.run().ending is RunEnding.BRAKED
    assert world.effects() == []


@pytest.mark.parametrize("sequential", [True, False])
@pytest.mark.parametrize("on_gap", ["advance", "block"])
def test_what_expires_resumes_no_queue_that_stopped_for_its_failures(on_gap, sequential):
    world = FakeWorld(on_gap=on_gap, sequential=sequential)
    for _ in range(COUNT):
        world.send("ok")
    world.place().state = PartitionState.BRAKED
    world.place().state_code = "TOO_MANY_OPEN_ERRORS"
    world.topic.expire(5)
    assert world.run().ending is RunEnding.BRAKED
    assert (world.place().state, world.effects()) == (PartitionState.BRAKED, [])
    world.resume()
    world.run()
    assert world.effects() == ([5, 6, 7, 8, 9] if on_gap == "advance" else [])
    assert [(gap.start, gap.end) for gap in world.database.gaps] == [(0, 5)]


@pytest.mark.parametrize("do", ["transient", "permanent", "outage", "ok"])
@pytest.mark.parametrize("ready", [False, True])
def test_what_the_head_meets_resumes_no_queue_that_stopped_for_its_failures(do, ready):
    """Nor does it hide the stop: only a person takes that away."""
    world = FakeWorld(sequential=True, retry=ONCE if ready else RetryPolicy(max_retries=2))
    world.send("transient")
    world.send("ok")
    world.run()
    world.place().state = PartitionState.BRAKED
    world.place().state_code = "TOO_MANY_OPEN_ERRORS"
    assert world.run().ending is RunEnding.BRAKED
    row = world.row(0)
    world.database.change(row.id, row.version, edited=b'{"do": "%s"}' % do.encode())
    if ready:
        world.person("release", row.id)
    world.down = True
    for _ in range(3):
        world.database.clock.advance(3_600)
        assert world.run().ending is RunEnding.BRAKED
        assert world.place().state_code == "TOO_MANY_OPEN_ERRORS"
    assert (world.row(0).attempts > 1) is (do != "outage")
    assert world.effects() == ([0] if do == "ok" else [])
    world.resume()
    ending = world.run().ending
    assert (ending is RunEnding.DRAINED) is (do == "ok")
    assert world.effects() == ([0, 1] if do == "ok" else [])
