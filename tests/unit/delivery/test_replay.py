"""A position that went back meets offsets again: their open rows are the messages now."""

from dataclasses import replace

import pytest

from integration.delivery.report import RunEnding
from integration.policy.retry import RetryPolicy
from integration.policy.states import ErrorState, OutboxKind
from tests.support.fake_world import FakeWorld

pytestmark = pytest.mark.fast

ONCE = RetryPolicy(max_retries=0)


def watched(world: FakeWorld) -> list[str]:
    """The names of the statements from here on; `effect` is one handler call."""
    told: list[str] = []
    world.database.interrupt = lambda name: bool(told.append(name))
    return told


def endings(world: FakeWorld, offset: int) -> list[str]:
    return [track.ended for track in world.database.tracks if track.offset == offset]


@pytest.mark.parametrize("retries", [0, 3])
def test_an_offset_with_an_open_row_is_passed_untouched(retries):
    world = FakeWorld(retry=RetryPolicy(max_retries=retries), batch_size=3)
    for do in ("ok", "transient", "ok", "ok", "permanent", "ok"):
        world.send(do)
    world.run()
    rows = {offset: world.row(offset) for offset in (1, 4)}
    ages = {offset: row.arrival for offset, row in rows.items()}
    tries = list(world.database.tries)
    told = watched(world)

    world.go_back()
    assert world.run().ending is RunEnding.DRAINED

    end = len(world.topic.partitions[0].records)
    assert world.place().next_offset == end == 6
    # They are as new as what was read again around them.
    for offset, row in rows.items():
        assert world.row(offset).arrival > ages[offset]
        assert replace(world.row(offset), arrival=ages[offset]) == row
    assert (world.database.tries, len(world.database.errors)) == (tries, 2)
    # Whoever goes back wants what was applied to be applied again.
    assert told.count("effect") == 4
    assert sorted(world.effects()) == [0, 0, 2, 2, 3, 3, 5, 5]
    assert endings(world, 4) == ["HOLD", "PASSED"]


def test_the_row_goes_on_where_it_was_after_its_message_was_passed():
    world = FakeWorld(retry=ONCE)
    world.send("permanent")
    world.run()
    world.go_back()
    world.run()
    world.person("edit", world.row(0).id)
    world.person("release", world.row(0).id)
    world.run()
    assert (world.effects(), world.row(0).state, world.row(0).attempts) == ([0], "RESOLVED", 2)


def test_a_retry_marker_still_brings_its_row_in_a_replay():
    world = FakeWorld(retry=RetryPolicy(max_retries=3), carrier="topic")
    world.send("until", until=2)
    world.run()
    [marker] = [
        row for row in world.database.outbox if row.outgoing.kind == OutboxKind.RETRY_MARKER
    ]
    world.database.clock.advance(31)
    world.relay()
    world.go_back()
    world.run()
    assert marker.outgoing.error == world.row(0).id
    assert (world.effects(), world.row(0).state) == ([0], ErrorState.RESOLVED)
    assert endings(world, 0) == ["RETRY", "PASSED", "APPLIED"]


def close(world: FakeWorld, offset: int, verb: str) -> None:
    """Somebody deletes a failure, or it is corrected and applied."""
    row = world.row(offset)
    if verb == "delete":
        world.person("delete", row.id)
    else:
        ended = {"state": ErrorState.RESOLVED, "ended": "APPLIED", "not_before": None}
        world.database.change(row.id, row.version, **ended)


@pytest.mark.parametrize("sequential", [False, True])
@pytest.mark.parametrize("verb", ["delete", "resolve"])
def test_a_closed_row_does_not_keep_its_offset_from_being_replayed(verb, sequential):
    world = FakeWorld(retry=ONCE, sequential=sequential)
    world.send("permanent")
    world.send()
    world.run()
    close(world, 0, verb)
    world.run()
    world.go_back()
    world.run()
    assert (world.row(0).state, world.row(0).attempts) == (ErrorState.HOLD, 2)


def test_a_sequential_replay_passes_no_closed_row_at_which_a_run_begins():
    world = FakeWorld(sequential=True, retry=ONCE)
    for offset in range(3):
        world.send("permanent")
        world.run()
        close(world, offset, "resolve")
        # Whatever it failed of is mended.
        world.topic.partitions[0].records[offset].value = b'{"do": "ok"}'
    world.run()
    assert (world.place().next_offset, world.effects()) == (3, [])
    world.go_back()
    for offset in range(3):
        world.stop_at(offset + 1)
        world.run()
        world.go_on()
    assert world.effects() == [0, 1, 2]
    assert {world.row(offset).state for offset in range(3)} == {ErrorState.RESOLVED}


@pytest.mark.parametrize("verb", ["delete", "resolve"])
def test_a_head_that_fails_in_a_replay_is_passed_once_it_is_closed_again(verb):
    world = FakeWorld(sequential=True, retry=ONCE)
    for do in ("permanent", "ok"):
        world.send(do)
    world.run()
    close(world, 0, verb)
    world.run()
    world.go_back()
    assert world.run().ending is RunEnding.BLOCKED
    close(world, 0, verb)
    assert world.run().ending is RunEnding.DRAINED
    assert (world.place().next_offset, world.effects()) == (2, [1, 1])


@pytest.mark.parametrize("sequential", [False, True])
@pytest.mark.parametrize("verb", ["delete", "resolve"])
def test_a_row_closed_since_the_position_went_back_is_still_the_message(verb, sequential):
    """Whether somebody closes it before or after a run comes to it makes no difference."""
    world = FakeWorld(retry=ONCE, sequential=sequential)
    for do in ("ok", "permanent", "ok", "ok"):
        world.send(do)
    world.run()
    if sequential:
        # A person skips what blocks the queue; it stays open.
        world.go_back(2)
        world.run()
    # Whatever it failed of is mended: read again, it would be applied.
    world.topic.partitions[0].records[1].value = b'{"do": "ok"}'
    world.go_back()
    close(world, 1, verb)
    row = world.row(1)
    assert world.run().ending is RunEnding.DRAINED
    assert (world.effects(), world.row(1)) == ([0, 2, 3, 0, 2, 3], row)
    assert world.place().next_offset == 4


def test_a_row_that_was_released_is_applied_once_the_position_has_come_to_it():
    world = FakeWorld(retry=ONCE, batch_size=2)
    for do in ("ok", "permanent", "ok", "permanent", "ok"):
        world.send(do)
    world.run()
    world.go_back()
    world.person("edit", world.row(3).id)
    world.person("release", world.row(3).id)
    assert world.run().ending is RunEnding.DRAINED
    assert sorted(world.effects()) == [0, 0, 2, 2, 3, 4, 4]
    assert world.effects().index(3) > world.effects().index(2, 3)
    assert endings(world, 3) == ["HOLD", "PASSED", "APPLIED"]


@pytest.mark.parametrize("state", ["released", "retry"])
def test_what_is_read_again_comes_before_what_failed_behind_it(state):
    """The older message of the key would have the last word otherwise."""
    retries = 0 if state == "released" else 3
    world = FakeWorld(keeps_keys_in_order=True, retry=RetryPolicy(max_retries=retries))
    world.send(key=b"a")
    held = world.send("permanent" if state == "released" else "until", until=2, key=b"a")
    world.send(key=b"a")
    world.run()
    if state == "released":
        world.person("edit", world.row(held).id)
        world.person("release", world.row(held).id)
    world.database.clock.advance(3_600)
    world.go_back()
    world.run()
    assert world.effects() == [0, 0, held, held + 1]


@pytest.mark.parametrize("sequential", [False, True])
def test_a_failure_that_is_met_again_is_newer_than_what_is_read_again_before_it(sequential):
    """Whoever keeps the newest by the number of the arrival would drop it as superseded."""
    world = FakeWorld(sequential=sequential, retry=ONCE)
    for do in ("ok", "permanent", "ok"):
        world.send(do)
    world.run()
    world.go_back()
    world.run()
    world.person("edit", world.row(1).id)
    world.person("release", world.row(1).id)
    world.run()
    newest = {effect.offset: effect.arrival for effect in world.database.effects}
    assert newest[0] < newest[1] < newest[2]


def test_a_marker_of_a_failures_former_life_brings_no_retry():
    world = FakeWorld(retry=RetryPolicy(max_retries=3), carrier="topic", batch_size=1)
    world.send("until", until=2)
    world.run()
    world.database.clock.advance(31)
    world.relay()
    world.run()
    assert world.row(0).state is ErrorState.RESOLVED
    # It fails again when it is read again.
    world.topic.partitions[0].records[0].value = b'{"do": "until", "until": 9}'
    world.go_back()
    world.run()
    assert (world.row(0).state, world.effects()) == (ErrorState.RETRY, [0])


def test_only_a_replay_asks_for_rows():
    world = FakeWorld(retry=ONCE, batch_size=2)
    asked = watched(world)
    for do in ("permanent", "ok", "ok", "ok", "ok", "ok"):
        world.send(do)
    world.run()
    assert "failed_between" not in asked
    world.go_back()
    world.run()
    # Three batches, and only the first lies where something had failed.
    assert asked.count("failed_between") == 1


@pytest.mark.parametrize("gap", [False, True])
def test_a_sequential_replay_waits_at_the_open_row_it_comes_to(gap):
    """Its late release would put it behind messages that the replay applies again."""
    world = FakeWorld(sequential=True, retry=ONCE)
    world.send()
    if gap:
        world.topic.begin()
        world.topic.finish()
    held = world.send("permanent")
    world.send()
    world.run()
    row = world.row(held)
    world.go_back()
    told = watched(world)

    assert world.run().ending is RunEnding.BLOCKED

    assert told.count("effect") == 1
    assert (world.place().next_offset, world.place().state_code) == (held, "HEAD_HELD")
    assert (world.row(held), world.effects()) == (row, [0, 0])
    world.person("edit", row.id)
    world.person("release", row.id)
    assert world.run().ending is RunEnding.DRAINED
    assert world.effects() == [0, 0, held, held + 1]


def test_a_sequential_replay_takes_a_released_row_at_its_place():
    world = FakeWorld(sequential=True, retry=ONCE)
    for do in ("ok", "permanent", "ok", "ok"):
        world.send(do)
    world.run()
    world.person("edit", world.row(1).id)
    world.person("release", world.row(1).id)
    world.go_back()
    assert world.run().ending is RunEnding.DRAINED
    assert world.effects() == [0, 0, 1, 2, 3]
    assert world.row(1).state is ErrorState.RESOLVED
