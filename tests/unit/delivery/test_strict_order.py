"""Strict error queues on the in-memory fakes: failures that feed one are taken in turn."""

from dataclasses import replace

import pytest

from integration.delivery.report import RunEnding
from integration.delivery.steps import Step
from integration.policy.retry import RetryPolicy
from integration.policy.states import ErrorState, OutboxState
from tests.support.fake_world import FakeWorld, Script

pytestmark = pytest.mark.fast

ONCE = RetryPolicy(max_retries=0)


def a_strict_queue(**fields) -> FakeWorld:
    known = {"id": 9, "name": "failures", "sequential": True, "is_error_queue": True}
    return FakeWorld(**(known | fields))


def a_feeding_queue(strict: FakeWorld, **fields) -> FakeWorld:
    world = FakeWorld(**({"retry": ONCE, "error_topic": "failures"} | fields))
    world.feed(strict)
    return world


def two_held(world: FakeWorld) -> None:
    """A at offset 0, B at offset 1, both mended: only their turn is waited for."""
    for _ in range(2):
        world.send("permanent")
    world.run()
    for offset in (0, 1):
        assert world.person("edit", world.row(offset).id)


@pytest.fixture
def strict() -> FakeWorld:
    return a_strict_queue()


@pytest.fixture
def world(strict) -> FakeWorld:
    """Two held messages whose copies have been read as far as the order allows."""
    world = a_feeding_queue(strict)
    two_held(world)
    world.relay()
    assert strict.run().ending is RunEnding.BLOCKED
    return world


def test_the_error_queue_stands_at_the_first_copy_and_links_it(world, strict):
    first = world.row(0)
    place = strict.place()
    assert (place.next_offset, place.state, place.state_code) == (0, "BLOCKED", "HEAD_HELD")
    assert (place.state_error, first.copy_offset) == (first.id, 0)
    assert world.row(1).copy_offset is None
    assert strict.database.errors == {}


def test_the_second_is_not_tried_before_the_first_is_closed(world):
    world.person("release", world.row(1).id)
    world.run()
    assert (world.row(1).state, world.row(1).attempts, world.effects()) == ("READY", 1, [])
    world.person("release", world.row(0).id)
    world.run()
    assert world.effects() == [0, 1]


def test_only_the_feeding_queue_runs_a_released_row(world, strict):
    world.person("release", world.row(0).id)
    assert strict.run().ending is RunEnding.BLOCKED
    assert (world.row(0).state, strict.place().next_offset) == ("READY", 0)
    assert strict.effects() == []


def test_the_position_advances_when_the_row_closes(world, strict):
    world.person("release", world.row(0).id)
    world.run()
    assert strict.run().ending is RunEnding.BLOCKED
    assert (strict.place().next_offset, strict.place().state_error) == (1, world.row(1).id)
    world.person("delete", world.row(1).id)
    assert strict.run().ending is RunEnding.DRAINED
    assert (strict.place().next_offset, strict.place().state) == (2, "RUNNING")


def test_deleting_the_first_lets_the_second_go(world):
    world.person("release", world.row(1).id)
    world.person("delete", world.row(0).id)
    world.run()
    assert world.effects() == [1]


def test_a_first_that_fails_again_keeps_its_place(strict):
    world = a_feeding_queue(strict)
    world.send("permanent")
    world.send("permanent")
    world.run()
    world.person("edit", world.row(1).id)
    for offset in (0, 1):
        world.person("release", world.row(offset).id)
    world.run()
    assert [world.row(at).state for at in (0, 1)] == ["HOLD", "READY"]
    assert world.effects() == []


def test_a_copy_that_never_reaches_kafka_strands_nobody(strict):
    world = a_feeding_queue(strict)
    two_held(world)
    dead = [replace(row, state=OutboxState.DEAD) for row in world.database.outbox[:1]]
    world.database.outbox[:1] = dead
    world.relay()
    assert strict.run().ending is RunEnding.BLOCKED
    assert strict.place().state_error == world.row(1).id
    for offset in (0, 1):
        world.person("release", world.row(offset).id)
    world.run()
    assert world.effects() == [0, 1]
    assert strict.run().ending is RunEnding.DRAINED


def test_a_copy_that_expired_gives_its_place_up(world, strict):
    world.person("release", world.row(1).id)
    strict.topic.expire(1)
    strict.run()
    assert strict.place().state_error == world.row(1).id
    world.run()
    assert world.effects() == [1]
    world.person("release", world.row(0).id)
    world.run()
    assert world.effects() == [1, 0]


def test_a_queue_that_stays_blocked_waits_for_an_expired_copy_too(strict):
    strict.configure(on_head_expired="stay_blocked")
    world = a_feeding_queue(strict)
    two_held(world)
    world.relay()
    strict.run()
    strict.topic.expire(1)
    assert strict.run().ending is RunEnding.BLOCKED
    world.person("release", world.row(1).id)
    world.run()
    assert (strict.place().next_offset, world.effects()) == (0, [])


def test_the_order_goes_through_all_queues_that_feed_it(strict):
    first, second = a_feeding_queue(strict), a_feeding_queue(strict, id=2, name="other")
    first.send("permanent")
    first.run()
    second.database.clock.advance(1)
    second.send("permanent")
    second.run()
    for world in (second, first):
        world.person("edit", world.row(0).id)
    second.person("release", second.row(0).id)
    second.run()
    assert second.effects() == []
    first.person("delete", first.row(0).id)
    second.run()
    assert second.effects() == [0]


def test_a_strangers_failure_at_the_head_holds_ours_back(strict):
    strict.send()
    strict.run()
    world = a_feeding_queue(strict)
    two_held(world)
    world.relay()
    world.person("release", world.row(0).id)
    world.run()
    assert world.effects() == []
    strict.person("delete", strict.row(0).id)
    strict.run()
    world.run()
    assert world.effects() == [0]


def test_without_strict_order_everybody_goes_and_copies_pass(strict):
    strict.configure(sequential=False)
    world = a_feeding_queue(strict)
    two_held(world)
    world.relay()
    assert strict.run().ending is RunEnding.DRAINED
    assert (strict.place().next_offset, world.row(1).copy_offset) == (2, 1)
    world.person("release", world.row(1).id)
    world.run()
    assert world.effects() == [1]


def test_giving_the_order_up_lets_the_error_queue_go_on(world, strict):
    strict.configure(sequential=False)
    assert strict.run().ending is RunEnding.DRAINED
    assert (strict.place().next_offset, strict.place().state) == (2, "RUNNING")
    assert world.row(0).state == "HOLD"


def test_many_released_rows_go_in_one_run_in_their_order(strict):
    world = a_feeding_queue(strict)
    for _ in range(20):
        world.send("permanent")
    world.run()
    for offset in reversed(range(20)):
        world.person("edit", world.row(offset).id)
        world.person("release", world.row(offset).id)
    world.run()
    assert world.effects() == list(range(20))


def test_an_outage_at_the_first_ends_the_run_and_lets_nobody_overtake(strict):
    world = a_feeding_queue(strict)
    two_held(world)
    first = world.row(0)
    world.database.errors[first.id] = replace(first, edited=b'{"do": "outage"}')
    for offset in (0, 1):
        world.person("release", world.row(offset).id)
    world.down = True
    script = Script()
    assert world.run(script).ending is RunEnding.OUTAGE
    assert script.steps.count(Step.BEGUN) == 2  # optimistic, then alone
    assert ([world.row(at).state for at in (0, 1)], world.effects()) == (["READY"] * 2, [])


@pytest.mark.parametrize("step", [Step.BEGUN, Step.SETTLED])
def test_a_run_that_is_fenced_at_a_copy_moves_nothing(strict, step):
    world = a_feeding_queue(strict)
    two_held(world)
    world.relay()

    def take_over(seen: Step) -> None:
        if seen is step:
            strict.place().epoch += 1

    script = Script()
    script.step = take_over  # type: ignore[method-assign]
    strict.run(script)
    assert (strict.place().next_offset, strict.place().state) == (0, "RUNNING")
    assert world.row(0).copy_offset is None
    assert world.row(0).state is ErrorState.HOLD
