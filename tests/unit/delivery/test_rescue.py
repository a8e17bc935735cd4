"""Records that are rescued before they expire, on the in-memory fakes: applied once, in order."""

import pytest

from integration.delivery.report import RunEnding
from integration.delivery.rescuing import RescueStep
from integration.delivery.steps import Step
from integration.policy.retry import RetryPolicy
from integration.policy.states import ErrorState, PartitionState
from tests.support.fake_rescue import rescue_in
from tests.support.fake_world import Died, FakeWorld, Script
from tests.support.memory.partition_manager import MemoryPartitionManager

pytestmark = pytest.mark.fast

ONCE = RetryPolicy(max_retries=0)
KINDS = pytest.mark.parametrize(
    "fields",
    [{"sequential": True}, {"sequential": False}, {"keeps_keys_in_order": True}],
    ids=["sequential", "continuous", "keyed"],
)


def a_world(count: int = 10, **fields) -> FakeWorld:
    world = FakeWorld(batch_size=4, **fields)
    for n in range(count):
        world.send(key=f"k{n % 3}".encode())
    return world


@KINDS
@pytest.mark.parametrize("until", [1, 3, 4, 6, 10])
def test_what_was_rescued_is_applied_once_and_in_order_though_kafka_forgot_it(fields, until):
    world = a_world(**fields)
    assert rescue_in(world, until).records == until
    assert (world.effects(), world.place().next_offset) == ([], 0)
    world.topic.expire(until)
    assert world.run().ending is RunEnding.DRAINED
    assert (world.effects(), world.place().next_offset) == (list(range(10)), 10)
    assert world.database.gaps == []


@KINDS
def test_what_kafka_still_has_as_well_is_applied_once(fields):
    world = a_world(**fields)
    rescue_in(world, 6)
    world.run()
    assert world.effects() == list(range(10))


@pytest.mark.parametrize("at", list(RescueStep)[:-1])
def test_its_death_at_any_step_loses_nothing_and_counts_against_no_message(at):
    world, seen = a_world(), []

    def die(step: RescueStep) -> None:
        seen.append(step)
        if seen.count(at) == 2 or step is at is RescueStep.TAKEN:
            raise Died

    with pytest.raises(Died):
        rescue_in(world, 10, die, piece_records=3)
    rescue_in(world, 10, piece_records=3)
    world.topic.expire(10)
    world.run()
    assert (world.effects(), world.place().unclean_ends) == (list(range(10)), 0)


def test_a_second_rescue_goes_on_behind_the_first():
    world = a_world()
    rescue_in(world, 4)
    assert rescue_in(world, 4).records == 0
    assert rescue_in(world, 9).records == 5
    assert world.place().rescued == ((0, 9),)


def test_what_was_gone_before_stays_a_gap_behind_what_was_rescued():
    world = a_world()
    rescue_in(world, 3)
    world.topic.expire(5)
    assert rescue_in(world, 8).gone == 2
    world.topic.expire(10)
    assert world.run().ending is RunEnding.BLOCKED
    assert (world.effects(), world.place().next_offset) == ([0, 1, 2], 3)
    assert [(gap.start, gap.end) for gap in world.database.gaps] == [(3, 5)]
    world.acknowledge()
    assert world.run().ending is RunEnding.BLOCKED
    assert world.effects() == [0, 1, 2, 5, 6, 7]
    assert [(gap.start, gap.end) for gap in world.database.gaps] == [(3, 5), (8, 10)]


def test_gaps_are_passed_where_that_is_chosen():
    world = a_world(on_gap="advance")
    rescue_in(world, 3)
    world.topic.expire(5)
    rescue_in(world, 8)
    world.topic.expire(9)
    assert world.run().ending is RunEnding.DRAINED
    assert world.effects() == [0, 1, 2, 5, 6, 7, 9]


def test_the_limit_ends_it_where_it_is_and_it_goes_on_once_there_is_room():
    world = a_world()
    size = len(world.topic.partitions[0].records[0].value or b"") + 2
    world.database.rescue_limit_bytes = 4 * size
    report = rescue_in(world, 10)
    assert (report.records, report.endings[0][0]) == (4, "RESCUE_FULL")
    assert world.place().rescue_code == "RESCUE_FULL"
    world.database.rescue_limit_bytes = 2**20
    assert rescue_in(world, 10).endings[0] == ("", "")
    assert world.place().rescue_code == ""
    world.topic.expire(10)
    world.run()
    assert world.effects() == list(range(10))


def test_markers_alone_are_noted_though_the_limit_was_lowered_below_what_stands():
    world = a_world(0)
    world.topic.begin()
    world.send()
    world.topic.finish(commit=False)
    world.database.rescue_limit_bytes = -1
    assert rescue_in(world, 2).endings[0] == ("", "")
    assert world.place().rescued == ((0, 2),)


def test_behind_a_held_head_everything_is_rescued_and_the_head_expires_as_ever():
    world = FakeWorld(sequential=True, retry=ONCE, on_head_expired="stay_blocked")
    world.send("permanent")
    for _ in range(5):
        world.send()
    world.run()
    assert rescue_in(world, 6).records == 5
    world.topic.expire(6)
    world.run()
    assert (world.row(0).expired, world.effects()) == (True, [])
    world.person("edit", world.row(0).id)
    world.person("release", world.row(0).id)
    world.run()
    assert (world.effects(), world.database.gaps) == ([0, 1, 2, 3, 4, 5], [])


def test_a_rescued_message_that_fails_is_a_failure_like_any_other():
    world = FakeWorld(sequential=True, retry=ONCE)
    world.send()
    world.send("permanent")
    world.send()
    rescue_in(world, 3)
    assert world.run().ending is RunEnding.BLOCKED
    assert (world.row(1).state, world.effects()) == (ErrorState.HOLD, [0])
    world.person("edit", world.row(1).id)
    world.person("release", world.row(1).id)
    world.run()
    assert world.effects() == [0, 1, 2]


def test_a_rescued_message_that_fails_keeps_its_place_though_kafka_forgot_it():
    world = FakeWorld(sequential=True, retry=RetryPolicy(max_retries=3))
    for do in ("ok", "transient", "ok"):
        world.send(do)
    rescue_in(world, 3)
    world.topic.expire(3)
    world.run()
    assert world.run().ending is RunEnding.BACKOFF
    assert (world.effects(), world.place().next_offset, world.row(1).expired) == ([0], 1, False)


def test_markers_at_the_end_of_what_was_rescued_are_passed():
    world = a_world(2)
    world.topic.begin()
    world.send()
    world.topic.finish(commit=False)
    rescue_in(world, 4)
    assert world.place().rescued == ((0, 4),)
    world.topic.expire(4)
    assert world.run().ending is RunEnding.DRAINED
    assert (world.place().next_offset, world.database.gaps) == (4, [])


@pytest.mark.parametrize("at", [RescueStep.READ, RescueStep.BEGUN, RescueStep.COPIED])
def test_whoever_lost_the_partition_adds_nothing(at):
    world = a_world()

    def steal(step: RescueStep) -> None:
        if step is at:
            world.free()
            MemoryPartitionManager(world.database).take()
            world.free()

    report = rescue_in(world, 10, steal)
    assert (report.records, report.endings[0][0]) == (0, "RESCUE_FENCED")
    world.free()
    world.run()
    assert (world.place().rescued, world.effects()) == ((), list(range(10)))


@pytest.mark.parametrize(
    ("change", "code"), [("recreate", "TOPIC_RECREATED"), ("delete", "TOPIC_GONE")]
)
def test_a_topic_that_is_another_one_under_its_hands_gives_nothing(change, code):
    world = a_world()

    def strike(step: RescueStep) -> None:
        if step is RescueStep.READ:
            getattr(world.topic, change)()

    report = rescue_in(world, 10, strike)
    assert (report.records, report.endings[0][0]) == (0, code)


def test_what_was_rescued_is_applied_though_its_topic_is_another_one_by_now():
    world = a_world()
    rescue_in(world, 6)
    world.topic.recreate()
    for _ in range(20):
        world.send(key=b"new")
    assert world.run().ending is RunEnding.BLOCKED
    assert world.effects() == list(range(6))
    assert world.place().state_code == "TOPIC_RECREATED"


def test_a_look_for_the_sake_of_another_partition_vouches_for_nothing_behind_what_was_rescued():
    """It passed over the topic's being another one, and is too young to be repeated by itself."""
    world = FakeWorld(partitions=2, batch_size=4)
    for n in range(12):
        world.send(partition=n % 2)
    rescue_in(world, {0: 6})
    world.topic.recreate(2)
    for _ in range(20):
        world.send()
    assert world.run().ending is RunEnding.BLOCKED
    assert (world.effects(0), world.effects(1)) == (list(range(6)), [])
    assert world.place().state_code == "TOPIC_RECREATED"


def test_what_was_rescued_of_a_topic_that_lost_its_end_is_applied_and_then_it_blocks():
    """Another partition has it looked at; it has grown beyond what was rescued until it is read."""
    world = FakeWorld(partitions=2, batch_size=4)
    for n in range(12):
        world.send(partition=n % 2)
    rescue_in(world, {0: 6})
    log = world.topic.partitions[0]
    log.end = 4
    for lost in (4, 5):
        del log.records[lost]

    def grow(_: Step) -> None:
        for _ in range(10):
            world.send()

    world.run(Script(2, grow))

    assert (world.effects(0), world.effects(1)) == (list(range(6)), list(range(6)))
    place = world.place()
    assert (place.next_offset, place.lost_from, place.state_code) == (6, 4, "TOPIC_TRUNCATED")


def test_kafka_is_not_needed_for_what_was_rescued():
    world = a_world()
    rescue_in(world, 6)
    world.topic.reachable = False
    world.run()
    assert world.effects() == list(range(6))
    assert world.place().state is PartitionState.OUTAGE
    world.topic.reachable = True
    world.database.clock.advance(100)
    world.run()
    assert world.effects() == list(range(10))


def test_a_partition_in_trouble_leaves_those_that_were_rescued_alone():
    world = FakeWorld(partitions=2, batch_size=4)
    for n in range(12):
        world.send(partition=n % 2)
    rescue_in(world, 5)
    world.place(1).rescued = ()
    world.topic.reachable = False
    world.run()
    assert (world.effects(0), world.effects(1)) == ([0, 1, 2, 3, 4], [])


def test_going_back_among_what_stands_applies_it_again():
    world = a_world()
    rescue_in(world, 6)
    world.topic.expire(6)
    world.run()
    world.go_back(2)
    world.run()
    assert world.effects() == [*range(10), *range(2, 10)]


def test_a_stop_among_what_was_rescued_is_kept():
    world = a_world()
    rescue_in(world, 8)
    world.topic.expire(8)
    world.stop_at(5)
    assert world.run().ending is RunEnding.STOPPED
    assert world.effects() == list(range(5))
    world.go_on()
    world.run()
    assert world.effects() == list(range(10))
