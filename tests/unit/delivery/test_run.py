"""One run on the in-memory fakes, step by step: what is tried how often, and where it stops."""

import pytest

from integration.delivery.report import RunEnding
from integration.delivery.steps import Step
from integration.policy.failure_thresholds import FailureThresholds
from integration.policy.retry import RetryPolicy
from integration.policy.states import ErrorState, PartitionState
from tests.support.fake_world import Died, FakeWorld, Script
from tests.support.memory.partition_manager import MemoryPartitionManager
from tests.support.memory.rows import GapRow
from tests.support.memory.tables import MemoryDatabase

pytestmark = pytest.mark.fast

ONCE = RetryPolicy(max_retries=0)
KINDS = pytest.mark.parametrize("sequential", [True, False])


@KINDS
def test_messages_are_applied_in_batches_and_the_position_follows(sequential):
    world = FakeWorld(sequential=sequential, batch_size=4)
    for _ in range(10):
        world.send()
    script = Script()
    report = world.run(script)
    assert report.ending is RunEnding.DRAINED
    assert world.effects() == list(range(10))
    assert world.place().next_offset == 10
    assert script.steps.count(Step.COMMITTED) == 3


def test_an_optimistic_failure_and_its_solo_replay_are_one_attempt():
    world = FakeWorld(sequential=True, retry=ONCE)
    for do in ("ok", "ok", "permanent", "ok"):
        world.send(do)
    script = Script()
    assert world.run(script).ending is RunEnding.BLOCKED
    assert (world.effects(), world.row(2).attempts) == ([0, 1], 1)
    assert script.steps.count(Step.UNDONE) == 1
    assert script.steps.count(Step.COMMITTED) == 2


def test_a_deadlock_repeats_the_whole_batch_five_times_before_it_spends():
    world = FakeWorld(retry=ONCE)
    for do in ("ok", "deadlock", "ok"):
        world.send(do)
    script = Script()
    world.run(script)
    # Five free repetitions, and the sixth failure narrows the batch down.
    assert script.steps.count(Step.UNDONE) == 6
    assert world.effects() == [0, 2]
    assert (world.row(1).code, world.row(1).attempts) == ("DEADLOCK", 1)


def test_a_continuous_queue_takes_savepoints_while_failures_are_frequent():
    world = FakeWorld(
        retry=ONCE, batch_size=2, failure_thresholds=FailureThresholds(failure_threshold=0)
    )
    for do in ("permanent", "ok", "permanent", "ok", "permanent", "ok"):
        world.send(do)
    script = Script()
    world.run(script)
    # Only the first batch was tried optimistically.
    assert script.steps.count(Step.UNDONE) == 1
    assert world.effects() == [1, 3, 5]


def test_an_isolated_handler_has_a_transaction_of_its_own():
    world = FakeWorld(batch_size=10)
    for interface in ("", "", "ALONE", "ALONE", ""):
        world.send(interface=interface)
    script = Script()
    world.run(script)
    assert script.steps.count(Step.COMMITTED) == 4
    assert world.effects() == [0, 1, 2, 3, 4]


def test_an_isolated_handler_that_fails_is_called_once_for_an_attempt():
    calls = []

    class Counting(FakeWorld):
        def obey(self, message):
            calls.append(message.offset)
            return super().obey(message)

    world = Counting(retry=ONCE)
    for do in ("ok", "permanent", "ok"):
        world.send(do, interface="ALONE")
    world.run()
    assert (calls, world.effects()) == ([0, 1, 2], [0, 2])
    assert (world.row(1).state, world.row(1).attempts) == (ErrorState.HOLD, 1)


def test_what_the_commit_of_a_lone_message_refuses_is_its_own_failure():
    world = FakeWorld(retry=ONCE)
    for do in ("ok", "orphan", "ok"):
        world.send(do, interface="ALONE")
    world.run()
    assert world.effects() == [0, 2]
    assert world.row(1).attempts == 1


@KINDS
def test_what_the_database_refuses_at_settlement_lands_on_its_own_message(sequential):
    world = FakeWorld(sequential=sequential, retry=ONCE)
    for do in ("ok", "overlong", "ok"):
        world.send(do)
    for _ in range(3):
        world.run()
        for row in list(world.database.errors.values()):
            world.person("delete", row.id)
    assert world.effects() == [0, 2]
    assert world.place().next_offset == 3


def test_a_released_head_in_an_outage_is_tried_once_a_run():
    world = FakeWorld(sequential=True, retry=ONCE)
    world.send("permanent")
    world.run()
    row = world.row(0)
    world.database.change(row.id, row.version, edited=b'{"do": "outage"}')
    world.person("release", row.id)
    world.down = True
    script = Script()
    assert world.run(script).ending is RunEnding.OUTAGE
    assert script.steps.count(Step.BEGUN) == 2
    assert (world.row(0).state, world.row(0).attempts) == (ErrorState.READY, 1)
    world.down = False
    world.database.clock.advance(100)
    world.run()
    assert (world.effects(), world.row(0).state) == ([0], ErrorState.RESOLVED)


def test_a_killer_is_isolated_held_and_its_neighbours_commit():
    world = FakeWorld(crash_limit=2, batch_size=10)
    for do in ("ok", "kill", "ok"):
        world.send(do)
    deaths = 0
    for _ in range(10):
        try:
            world.run()
        except Died:
            deaths += 1
    # Two with the whole batch, two alone under its marker.
    assert deaths == 4
    assert world.effects() == [0, 2]
    row = world.row(1)
    assert (row.state, row.code, row.attempts, row.crashes) == ("HOLD", "PROCESS_CRASH", 2, 2)


def test_a_released_killer_gets_a_fresh_budget_of_deaths():
    world = FakeWorld(crash_limit=2)
    world.send("kill")
    for _ in range(5):
        with_death(world)
    world.person("edit", world.row(0).id)
    world.person("release", world.row(0).id)
    # Another process dies meanwhile; the released message is not blamed for it.
    for _ in range(2):
        with pytest.raises(Died):
            world.run(Script(1, die))
    world.run()
    assert (world.effects(), world.row(0).state) == ([0], ErrorState.RESOLVED)


def die(step: Step) -> None:
    raise Died


def with_death(world: FakeWorld) -> None:
    try:
        world.run()
    except Died:
        return


def test_the_row_of_a_recreated_topic_does_not_open_the_new_one():
    """A released head must not take the block off a topic that is another one now."""
    world = FakeWorld(sequential=True, retry=ONCE)
    world.send("permanent")
    world.run()
    old = world.topic.uuid
    [row] = world.database.errors.values()
    world.person("edit", row.id)
    world.person("release", row.id)
    world.topic.recreate()
    for _ in range(3):
        world.send()
    for _ in range(3):
        assert world.run().ending is RunEnding.BLOCKED
    assert (world.place().state_code, world.place().topic_uuid) == ("TOPIC_RECREATED", old)
    assert world.effects() == []


def test_what_expires_after_an_acknowledgement_is_another_gap():
    world = FakeWorld()
    for _ in range(10):
        world.send()
    world.topic.expire(4)
    assert world.run().ending is RunEnding.BLOCKED
    world.topic.expire(7)
    world.acknowledge()
    assert world.run().ending is RunEnding.BLOCKED
    assert [(gap.start, gap.end) for gap in world.database.gaps] == [(0, 4), (4, 7)]
    world.acknowledge()
    assert world.run().ending is RunEnding.DRAINED
    assert world.effects() == [7, 8, 9]


def test_a_skip_is_no_acknowledgement_of_what_expires_after_the_position_went_back():
    world = FakeWorld()
    for _ in range(10):
        world.send()
    world.run()
    world.database.gaps.append(GapRow(0, world.topic.uuid, 0, 10, "SKIPPED", acknowledged=True))
    world.go_back(0)
    world.topic.expire(5)
    assert world.run().ending is RunEnding.BLOCKED
    assert [(gap.start, gap.end) for gap in world.database.gaps] == [(0, 10), (0, 5)]


def test_a_head_that_a_person_deleted_is_no_gap_when_it_expires():
    world = FakeWorld(sequential=True, retry=ONCE)
    world.send("permanent")
    world.send()
    world.run()
    world.person("delete", world.row(0).id)
    world.topic.expire(1)
    assert world.run().ending is RunEnding.DRAINED
    assert (world.database.gaps, world.effects()) == ([], [1])


@pytest.mark.parametrize("on_head_expired", ["advance", "stay_blocked"])
def test_an_expired_head_is_passed_or_waited_for_and_stays_open(on_head_expired):
    world = FakeWorld(sequential=True, retry=ONCE, on_head_expired=on_head_expired)
    world.send("permanent")
    world.send()
    world.run()
    world.topic.expire(1)
    world.run()
    advanced = on_head_expired == "advance"
    assert world.effects() == ([1] if advanced else [])
    assert world.place().state_code == ("" if advanced else "HEAD_HELD")
    assert (world.row(0).state, world.row(0).expired) == (ErrorState.HOLD, True)
    world.person("edit", world.row(0).id)
    world.person("release", world.row(0).id)
    world.run()
    assert sorted(world.effects()) == [0, 1]


def test_an_expired_head_that_would_be_tried_by_itself_is_held_where_it_is_passed():
    """Tried later, it would be applied after newer messages, and nobody would have been asked."""
    world = FakeWorld(sequential=True, retry=RetryPolicy(max_retries=3))
    world.send("until", until=2)
    world.send()
    world.run()
    world.topic.expire(1)
    for _ in range(2):
        world.run()
        world.database.clock.advance(3_600)
    assert (world.effects(), world.row(0).state) == ([1], ErrorState.HOLD)


@pytest.mark.parametrize("looks", [0, 1])
def test_a_deleted_head_does_not_resume_the_queue(looks):
    world = FakeWorld(sequential=True, retry=ONCE)
    world.send("permanent")
    world.run()
    world.place().state, world.place().state_code = PartitionState.BRAKED, "TOO_MANY_OPEN_ERRORS"
    for _ in range(looks):
        assert world.run().ending is RunEnding.BRAKED
    world.person("delete", world.row(0).id)
    assert world.run().ending is RunEnding.BRAKED
    world.resume()
    assert world.run().ending is RunEnding.DRAINED


class LosesItsLocks(Script):
    """The session that holds the locks breaks at the first step of this kind, unnoticed so far."""

    def __init__(self, manager: MemoryPartitionManager, when: Step) -> None:
        super().__init__()
        self.manager = manager
        self.when = when

    def step(self, step: Step) -> None:
        super().step(step)
        self.manager.lost = self.manager.lost or step is self.when


@pytest.mark.parametrize(
    ("when", "applied"),
    [(Step.CHECKED, []), (Step.COMMITTED, [0, 1])],
    ids=["before settling", "between batches"],
)
def test_an_owner_without_its_locks_settles_nothing_more(when, applied):
    world = FakeWorld(batch_size=2)
    for _ in range(4):
        world.send()
    manager = MemoryPartitionManager(world.database)
    script = LosesItsLocks(manager, when)
    assert world.run(script, manager).ending is RunEnding.LOST
    assert world.effects() == applied
    # Between batches it is noticed before the next one begins.
    assert script.steps.count(Step.BEGUN) == 1
    assert world.place().released is False
    world.run()
    assert world.effects() == [0, 1, 2, 3]


def test_the_position_is_committed_about_once_a_second_while_a_run_lasts():
    world = FakeWorld(stay_seconds=2.5)
    world.send()
    began = world.clock
    script = Script()
    world.run(script)
    assert 2 <= script.steps.count(Step.GROUP_COMMITTED) <= world.clock - began
    assert world.topic.committed == {0: 1}


def test_what_was_counted_is_told_every_few_seconds_and_each_of_it_once():
    world = FakeWorld(stay_seconds=11.0)
    for do in ("ok", "permanent", "ok"):
        world.send(do)
    report = world.run()
    first, second = world.tallies
    assert first.endings == {"APPLIED": 2, "HOLD": 1}
    assert sum(first.latency.counts) == 2
    assert second.is_empty
    assert report.untold().is_empty
    assert report.counts == {"APPLIED": 2, "HOLD": 1}


@pytest.mark.parametrize(("at", "applied"), [("commit", []), ("answer", [0])])
def test_a_lost_session_at_the_commit_is_looked_up(at, applied):
    world = FakeWorld()
    world.send()
    world.database.interrupt = lambda name: name == at
    report = world.run()
    assert report.ending is (RunEnding.LOST if at == "commit" else RunEnding.DRAINED)
    assert world.place().released is (at == "answer")
    assert world.effects() == applied
    world.database.interrupt = lambda _: False
    world.run()
    assert world.effects() == [0]


def test_between_batches_of_released_rows_nobody_waits_for_kafka():
    world = FakeWorld(
        retry=ONCE, batch_size=2, failure_thresholds=FailureThresholds(failure_threshold=0)
    )
    for _ in range(6):
        world.send("permanent")
    world.run()
    for offset in range(6):
        world.person("edit", world.row(offset).id)
        world.person("release", world.row(offset).id)
    assert min(world.waits) > 0, "with nothing released it waits for records"
    world.waits.clear()
    for _ in range(2):
        world.run()
    assert world.effects() == list(range(6))
    assert world.waits[0] == 0.0


class Timed(MemoryPartitionManager):
    """Notes when the clock of the handlers runs."""

    def __init__(self, database: MemoryDatabase) -> None:
        super().__init__(database)
        self.notes: list[str] = []

    def working(self) -> None:
        super().working()
        self.notes.append("working")

    def resting(self) -> None:
        super().resting()
        self.notes.append("resting")


def test_a_commit_that_waits_for_kafka_is_not_on_the_handlers_time():
    world = FakeWorld(two_phase=True, batch_size=2)
    for _ in range(6):
        world.send()
    manager, before = Timed(world.database), []

    class Noting(Script):
        def step(self, step: Step) -> None:
            super().step(step)
            if step is Step.COMMITTED:
                before.append(manager.notes[-2:])

    world.run(Noting(), manager)
    # When the handlers were through, and at the end: nothing was read ahead in between.
    assert before == [["resting", "resting"]] * 3
