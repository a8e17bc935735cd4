"""The real main road over the in-memory fakes, every fault at any step, and what must hold."""

from collections import Counter
from collections.abc import Callable, Sequence
from typing import Any

from hypothesis import strategies as st
from hypothesis.stateful import (
    initialize,
    invariant,
    precondition,
    rule,
)

from integration.delivery.owned import Owned
from integration.delivery.report import RunEnding
from integration.delivery.steps import Step
from integration.policy.failure_thresholds import FailureThresholds
from integration.policy.retry import RetryPolicy
from integration.policy.states import Ended, ErrorState, may_move
from tests.property.delivery_rescues import Rescues
from tests.support.fake_world import Died, FakeWorld, Script
from tests.support.memory.partition_manager import MemoryPartitionManager
from tests.support.memory.tables import MemoryDatabase

GOOD = {Ended.APPLIED, Ended.SUPERSEDED, Ended.DUPLICATE, Ended.PASSED}
# Codes of failures that no try has led to, or several.
NO_TRY = {"PROCESS_CRASH", "SERVICE_DISABLED", "PARKED"}
VERBS = ["release", "hold", "delete", "restore", "edit", "park"]


class Generous(MemoryPartitionManager):
    """Lets another run work as soon as this one has given something up."""

    def __init__(self, database: MemoryDatabase, then: Callable[[], None]) -> None:
        super().__init__(database, database.queue.workers)
        self.then = then

    def give_up(self, surplus: Sequence[Owned]) -> None:
        super().give_up(surplus)
        self.then()


class RunContext(Rescues):
    """Partners send, runs come and go and die, people decide; nothing is lost or doubled."""

    tables: type[MemoryDatabase] = MemoryDatabase

    @initialize(
        sequential=st.booleans(),
        partitions=st.integers(1, 2),
        carrier=st.sampled_from(["row", "topic"]),
        retries=st.integers(0, 3),
        batch_size=st.integers(1, 6),
        on_gap=st.sampled_from(["block", "advance"]),
        on_head_expired=st.sampled_from(["advance", "stay_blocked"]),
        dedupe=st.booleans(),
        failure_threshold=st.sampled_from([0, 3]),
        copies=st.booleans(),
        keyed=st.booleans(),
        concurrency=st.sampled_from([1, 1, 2, 3]),
        seed=st.integers(0, 1000),
    )
    def begin(
        self, *, sequential: bool, partitions: int, copies: bool, keyed: bool, **fields: Any
    ) -> None:
        seed = fields.pop("seed")
        retries, failure_threshold = fields.pop("retries"), fields.pop("failure_threshold")
        self.world = FakeWorld(
            partitions=1 if sequential else partitions,
            tables=self.tables,
            sequential=sequential,
            crash_limit=2,
            retry=RetryPolicy(max_retries=retries),
            failure_thresholds=FailureThresholds(
                failure_threshold=failure_threshold, max_open_errors=12
            ),
            error_topic="errors" if copies else None,
            keeps_keys_in_order=keyed and not sequential,
            workers=1 if sequential else None,
            **fields,
        )
        self.world.seed = seed
        self.bodies: dict[tuple[int, int], tuple[int, str]] = {}
        self.keys: dict[tuple[int, int], bytes | None] = {}
        self.markers: set[tuple[int, int]] = set()
        self.deleted: set[tuple[int, int]] = set()
        self.late: set[int] = set()
        self.clean = True
        self.deaths = 0
        self.ids = 0

    # the outside

    @rule(seconds=st.sampled_from([1.0, 31.0, 100.0]))
    def wait(self, seconds: float) -> None:
        self.world.database.clock.advance(seconds)

    @rule(down=st.booleans())
    def outage(self, *, down: bool) -> None:
        self.world.down = down

    @rule(code=st.sampled_from([None, None, "SERVICE_DISABLED", "HANDLER_MISSING"]))
    def switch(self, code: str | None) -> None:
        self.world.switch(code)

    # people

    @precondition(lambda self: self.world.database.errors)
    @rule(verb=st.sampled_from(VERBS), which=st.integers(0, 1000))
    def person(self, verb: str, which: int) -> None:
        errors = list(self.world.database.errors)
        if errors:
            self.world.person(verb, errors[which % len(errors)])

    @rule()
    def acknowledge(self) -> None:
        self.world.acknowledge()

    @rule()
    def resume(self) -> None:
        self.world.resume()

    @rule(ahead=st.integers(0, 4), partition=st.integers(0, 1))
    def stop(self, ahead: int, partition: int) -> None:
        """Somebody wants the queue to stop a little further on."""
        partition %= len(self.world.database.places)
        self.world.stop_at(self.world.place(partition).next_offset + ahead, partition)

    @rule()
    def go_on(self) -> None:
        self.world.go_on()

    @rule(at=st.integers(1, 40), ahead=st.integers(0, 4))
    def be_stopped(self, at: int, ahead: int) -> None:
        self._run(Script(at, lambda _: self.stop(ahead, 0)))

    # runs

    @rule()
    def run(self) -> None:
        self._run(Script())

    @rule(at=st.integers(1, 40))
    def die(self, at: int) -> None:
        def die(step: Step) -> None:
            raise Died

        self._run(Script(at, die))

    @rule(at=st.integers(1, 40))
    def lose_the_lock(self, at: int) -> None:
        manager = MemoryPartitionManager(self.world.database)
        self._run(Script(at, lambda _: setattr(manager, "lost", True)), manager)

    @rule(at=st.integers(1, 60))
    def lose_the_session(self, at: int) -> None:
        seen = 0

        def breaks(name: str) -> bool:
            nonlocal seen
            seen += 1
            return seen == at

        self.world.database.interrupt = breaks
        try:
            self._run(Script())
        finally:
            self.world.database.interrupt = lambda _: False

    @rule(at=st.integers(1, 40))
    def be_taken_over(self, at: int) -> None:
        """The owner is stopped in the middle; another works through everything; it goes on."""
        self._run(Script(at, lambda _: self._take_over()))

    @rule(at=st.integers(1, 40))
    def be_joined(self, at: int) -> None:
        """Another run comes, gets its share between two batches of this one, and ends again."""
        database = self.world.database
        other = MemoryPartitionManager(database, database.queue.workers)
        manager = Generous(database, lambda: self._run(Script(), other))
        self._run(Script(at, lambda _: database.runs.append(other)), manager)
        if other in database.runs:
            database.runs.remove(other)  # nobody had anything to give

    def _take_over(self) -> None:
        other = MemoryPartitionManager(self.world.database)
        other.steal()
        self._run(Script(), other)

    @rule(at=st.integers(1, 40), verb=st.sampled_from(VERBS), which=st.integers(0, 1000))
    def be_watched(self, at: int, verb: str, which: int) -> None:
        self._run(Script(at, lambda _: self.person(verb, which)))

    def _run(self, script: Script, manager: MemoryPartitionManager | None = None) -> None:
        if self.world.database.queue.paused:
            return
        self.clean, deaths = False, self.deaths
        try:
            report = self.world.run(script, manager)
        except Died:
            self.deaths += 1
            return
        # One that was stopped meanwhile knows nothing of the death of the other.
        self.clean = report.ending is not RunEnding.LOST and self.deaths == deaths

    # what must hold

    @invariant()
    def everything_is_accounted_for(self) -> None:
        for (partition, offset), (_, do) in self.bodies.items():
            endings = self._endings(partition, offset)
            if self._is_through(partition, offset):
                assert len(endings) == 1, f"{partition}/{offset} ({do}) ended as {endings}"
            else:
                assert endings in ([], ["row"]), f"{partition}/{offset} ({do}): {endings}"

    def _is_through(self, partition: int, offset: int) -> bool:
        place = self.world.place(partition)
        return offset < place.next_offset or offset in place.done

    def _endings(self, partition: int, offset: int) -> list[str]:
        database = self.world.database
        at = [t for t in database.tracks if (t.partition, t.offset) == (partition, offset)]
        endings = [str(track.ended) for track in at if track.ended in GOOD]
        row = database.error_at(self.world.topic.uuid, partition, offset)
        if row is not None and row.state is not ErrorState.RESOLVED:
            endings.append("row")
        if row is not None and row.state is ErrorState.RESOLVED:
            assert endings, f"{partition}/{offset} is resolved without an ending"
        gaps = [g for g in database.gaps if g.partition == partition and g.start <= offset < g.end]
        if gaps and offset < self.world.place(partition).next_offset:
            endings.append("gap")
        return endings

    @invariant()
    def effects_are_those_of_the_applied(self) -> None:
        database = self.world.database
        effects = Counter((e.partition, e.offset) for e in self._effects())
        applied = Counter((t.partition, t.offset) for t in database.tracks if t.ended == "APPLIED")
        assert effects == applied
        assert all(count == 1 for count in effects.values()), effects

    @invariant()
    def nothing_beyond_the_position_has_an_effect(self) -> None:
        for effect in self._effects():
            assert self._is_through(effect.partition, effect.offset)

    @invariant()
    def nothing_beyond_a_stop_has_an_effect(self) -> None:
        for effect in self._effects():
            stop = self.world.place(effect.partition).stop_at
            assert stop is None or effect.offset < stop

    @invariant()
    def ages_follow_the_log(self) -> None:
        """Whenever it was applied, a message is as old as its place in the log."""
        for partition in self.world.database.places:
            effects = [e for e in self._effects() if e.partition == partition]
            by_age = sorted(effects, key=lambda e: e.arrival)
            assert [e.offset for e in by_age] == sorted(e.offset for e in effects)

    @invariant()
    def markers_stand_only_after_a_crash(self) -> None:
        if self.clean:
            states = [row.state for row in self.world.database.errors.values()]
            assert ErrorState.PROCESSING not in states
            assert all(place.owner is None for place in self.world.database.places.values())

    @invariant()
    def attempts_are_exact(self) -> None:
        for row in self.world.database.errors.values():
            numbers = [t.number for t in self.world.database.tries if t.error == row.id]
            settled = [
                t for t in self.world.database.tries if t.error == row.id and t.code not in NO_TRY
            ]
            crashes = row.crashes + self.world.forgiven[row.id]
            assert row.attempts == len(settled) + crashes, row
            assert numbers == sorted(numbers)

    @invariant()
    def states_move_as_drawn(self) -> None:
        assert all(may_move(*move) for move in self.world.database.moves)

    @invariant()
    def a_repetition_is_applied_once(self) -> None:
        if not self.world.database.queue.dedupe:
            return
        rows = {row.place[1:] for row in self.world.database.errors.values()}
        fresh = [(e.partition, e.offset) for e in self._effects()]
        ids = Counter(self.bodies[place][0] for place in fresh if place not in rows)
        assert all(count == 1 for count in ids.values()), ids

    @invariant()
    def what_is_dropped_as_repeated_is_known(self) -> None:
        """Another of the same id has an effect, or a row that people see."""
        database = self.world.database
        rows = {row.place[1:] for row in database.errors.values()}
        known = {id_ for place, (id_, _) in self.bodies.items() if place in rows}
        dropped: set[str] = set()
        for track in database.tracks:
            if (body := self.bodies.get((track.partition, track.offset))) is not None:
                (dropped if track.ended == "DUPLICATE" else known).add(body[0])
        assert dropped <= known

    def teardown(self) -> None:
        """In the end, with everything up and people who repair, every message ends."""
        if not hasattr(self, "world"):
            return
        self.world.down = False
        self.world.switch(None)
        self.world.go_on()
        for _ in range(20 + 10 * len(self.bodies)):
            if self._is_over():
                break
            self._repair()
            self._run(Script())
            self.world.relay()
            self.world.database.clock.advance(4_000)
        assert self._is_over(), self._what_is_left()
        self.check_invariants_at_the_end()

    def _repair(self) -> None:
        self.world.acknowledge()
        self.world.resume()
        for row in list(self.world.database.errors.values()):
            if row.state is ErrorState.HOLD:
                self.world.person("edit", row.id)
                self.world.person("release", row.id)

    def _is_over(self) -> bool:
        places = self.world.database.places.values()
        ends = {p: log.end for p, log in self.world.topic.partitions.items()}
        read = all(place.next_offset == ends[place.partition] for place in places)
        return read and not self.world.database.open_rows()

    def _what_is_left(self) -> str:
        places = [repr(place) for place in self.world.database.places.values()]
        return "\n".join([*places, *map(repr, self.world.database.open_rows())])

    def check_invariants_at_the_end(self) -> None:
        self.everything_is_accounted_for()
        self.effects_are_those_of_the_applied()
        self.ages_follow_the_log()
        self.a_sequential_queue_applies_in_order()
        self.messages_of_a_key_are_applied_in_order()
        self.attempts_are_exact()
        self.states_move_as_drawn()
