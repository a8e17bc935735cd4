"""What a run does about what changes under it: a row's time, a moved row, a removed queue."""

from dataclasses import replace

import pytest

from integration.delivery.report import RunEnding
from integration.delivery.steps import Step
from integration.policy.retry import RetryPolicy
from integration.policy.states import ErrorState, PartitionState
from tests.support.fake_world import FakeWorld, Script

pytestmark = pytest.mark.fast

ONCE = RetryPolicy(max_retries=0)


def test_a_partition_waits_as_long_as_its_head_does():
    """Whoever starts it sooner starts it for nothing, again and again."""
    world = FakeWorld(sequential=True)
    world.send("transient")
    world.run()
    row = world.row(0)
    world.database.errors[row.id] = replace(row, not_before=500.0)
    world.place().state, world.place().resume_at = PartitionState.RUNNING, None
    assert world.run().ending is RunEnding.BACKOFF
    assert (world.place().state_code, world.place().resume_at) == ("RETRY_WAIT", 500.0)
    assert world.row(0).attempts == 1


def test_a_due_head_does_not_cut_the_pause_of_an_outage_short():
    world = FakeWorld(sequential=True)
    world.send("transient")
    world.run()
    world.database.clock.advance(31)
    place = world.place()
    place.state, place.state_code, place.probes = PartitionState.OUTAGE, "DOWN", 5
    place.resume_at = world.database.clock.seconds + 40
    assert world.run().ending is RunEnding.OUTAGE
    assert (place.state, place.state_code, place.probes) == ("OUTAGE", "DOWN", 5)
    assert place.resume_at == world.database.clock.seconds + 40
    world.database.clock.advance(41)
    world.run()
    assert world.row(0).attempts == 2


def test_a_row_of_a_partition_that_is_gone_is_tracked_there():
    world = FakeWorld(retry=ONCE)
    world.send("permanent")
    world.send()
    world.run()
    row = world.row(0)
    record = type(row.record)(7, 3, None, None, b'{"do": "ok"}', [])
    world.database.errors[row.id] = replace(row, record=record, state=ErrorState.READY)
    report = world.run()
    assert [(t.partition, t.offset, t.ended) for t in world.database.tracks[-1:]] == [
        (7, 3, "APPLIED")
    ]
    assert report.counts["APPLIED"] == 1


@pytest.mark.parametrize("sequential", [True, False])
def test_a_row_that_a_person_moves_before_it_is_marked_is_left_alone(sequential):
    """The partition is still ours: what else it has to do goes on."""
    world = FakeWorld(sequential=sequential, retry=ONCE)
    world.send("permanent")
    world.run()
    held = world.row(0)
    world.person("edit", held.id)
    world.person("release", held.id)
    if not sequential:
        world.send()
    world.place().suspect_offset, world.place().released = 99, False
    told = []

    def moves(name: str) -> bool:
        told.append(name)
        if told.count("mark") == 1 and name == "mark":
            world.person("hold", held.id)
        return False

    world.database.interrupt = moves
    report = world.run()
    assert world.row(0).state is ErrorState.HOLD
    assert "mark" in told
    if sequential:
        assert (report.ending, world.place().state_code) == (RunEnding.BLOCKED, "HEAD_HELD")
    else:
        assert (report.ending, world.effects()) == (RunEnding.DRAINED, [1])


@pytest.mark.parametrize("at", [Step.TAKEN, Step.FETCHED, Step.BEGUN, Step.COMMITTED])
def test_a_queue_that_is_removed_under_a_run_ends_it_with_a_sentence(at):
    world = FakeWorld(batch_size=1, stay_seconds=5.0)
    for _ in range(3):
        world.send()

    class Remover(Script):
        def step(self, step: Step) -> None:
            super().step(step)
            if step is at:
                world.database.remove()

    report = world.run(Remover())
    assert (report.ending, "'q' was deleted" in report.text) == (RunEnding.STOPPED, True)


def test_a_partition_that_probes_holds_up_no_other_and_is_not_held_up_itself():
    world = FakeWorld(partitions=2, batch_size=50)
    for _ in range(20):
        world.send(partition=0)
        world.send(partition=1)
    place = world.place(1)
    place.state, place.state_code, place.probes = PartitionState.OUTAGE, "DOWN", 1
    script = Script()
    world.run(script)
    assert [world.place(p).next_offset for p in (0, 1)] == [20, 20]
    # The whole first partition, one message as a probe, and what is behind that.
    assert script.steps.count(Step.COMMITTED) == 3
    assert sorted((e.partition, e.offset) for e in world.database.effects) == [
        (p, o) for p in (0, 1) for o in range(20)
    ]
