"""The handler calls of one transaction: pieces, narrowing by index and by halves, stops."""

from collections.abc import Sequence
from typing import Any

import pytest
from django.db import DatabaseError
from psycopg import errors

from integration.delivery.handler_transaction import (
    FailedAt,
    HandlerTransaction,
    groups,
    pieces,
    stops,
)
from integration.delivery.outcome import APPLIED, STALE, SUPERSEDED, Failed, Outcome
from integration.delivery.snapshot import QueueSnapshot
from integration.delivery.unit import Unit
from integration.handlers import (
    Applied,
    BatchItemError,
    OutageError,
    PermanentError,
    Superseded,
    TransientError,
    permanent,
)
from integration.handlers.outbound import Outbound
from integration.policy.failure import FailureClass
from tests.support.deliveries import a_failure, a_row, a_taker, a_unit
from tests.support.memory.partition_manager import MemoryPartitionManager
from tests.support.memory.repository import MemoryRepository
from tests.support.memory.tables import MemoryDatabase

pytestmark = pytest.mark.fast


class Bench:
    """One transaction on the fake, and what its handlers are told to do by offset."""

    def __init__(self, *, sequential: bool = False, bad: dict[int, Any] | None = None) -> None:
        queue = QueueSnapshot(
            id=1, name="q", provider_id=1, provider_name="main", topic="t", sequential=sequential
        )
        self.queue = queue
        self.database = MemoryDatabase(queue, {0: 10})
        self.repository = MemoryRepository(self.database)
        self.bad = bad or {}
        self.calls: list[list[int]] = []
        self.kept: list[int] = []
        self.one = a_taker(self.call)
        self.indexed = a_taker(self.by_index, batch=True)
        self.mute = a_taker(self.without_index, batch=True)

    def call(self, message: Any) -> Any:
        self.calls.append([message.offset])
        return self.obey(message)

    def by_index(self, messages: Sequence[Any]) -> None:
        self.calls.append([message.offset for message in messages])
        for index, message in enumerate(messages):
            try:
                self.obey(message)
            except Exception as e:
                raise BatchItemError(index) from e

    def without_index(self, messages: Sequence[Any]) -> None:
        self.calls.append([message.offset for message in messages])
        for message in messages:
            self.obey(message)

    def obey(self, message: Any) -> Any:
        self.repository.effect(message.offset)
        does = self.bad.get(message.offset)
        if isinstance(does, Exception):
            raise does
        return does(self.repository) if callable(does) else does

    def run(self, mode: str, units: Sequence[Unit], together: int = 1) -> list[Outcome] | FailedAt:
        manager = MemoryPartitionManager(self.database)
        [owned] = manager.take()
        with self.repository.work(owned) as work:
            handler_transaction = HandlerTransaction(work, Outbound(), self.queue, manager)
            if mode == "optimistic":
                result = handler_transaction.optimistic(units)
            else:
                result = handler_transaction.with_savepoints(units, together)
            self.kept = list(work.batch.effects)
            work.abandon()
        return result

    def units(self, taker: Any, *offsets: int) -> list[Unit]:
        return [a_unit(offset, taker=taker) for offset in offsets]


def codes(outcomes: list[Outcome] | FailedAt) -> list[str]:
    assert isinstance(outcomes, list)
    return [o.failure.code if isinstance(o, Failed) else str(o.ended) for o in outcomes]


def swallow(repository: MemoryRepository) -> None:
    """A statement fails and the handler goes on as if nothing was."""
    try:
        repository.refuse(errors.UniqueViolation("twice"))
    except DatabaseError:
        return


def orphan(repository: MemoryRepository) -> None:
    repository.effect("orphan", orphan=True)


def test_consecutive_messages_of_one_batch_handler_are_one_piece():
    batch, other, one = a_taker(batch=True), a_taker(batch=True), a_taker()
    takers = [batch, batch, one, one, batch, other, other]
    units = [a_unit(n, taker=taker) for n, taker in enumerate(takers)]
    units[6].known = STALE
    found = [[unit.at for unit in piece] for piece in pieces(units)]
    assert found == [[0, 1], [2], [3], [4], [5], [6]]
    assert list(pieces([])) == []


def test_what_is_known_of_a_message_is_no_part_of_a_call():
    batch = a_taker(batch=True)
    units = [a_unit(n, taker=batch) for n in range(7)]
    for place in (1, 4):
        units[place].known = STALE
    found = [[unit.at for unit in piece] for piece in pieces(units)]
    assert found == [[0], [1], [2, 3], [4], [5, 6]]


@pytest.mark.parametrize("mode", ["optimistic", "savepoints"])
def test_each_outcome_is_that_of_its_own_message(mode):
    bench = Bench()
    units = bench.units(bench.indexed, *range(7))
    for place in (1, 4):
        units[place].known = STALE
    outcomes = bench.run(mode, units)
    assert codes(outcomes) == [str((STALE if n in {1, 4} else APPLIED).ended) for n in range(7)]
    assert bench.kept == [0, 2, 3, 5, 6]


@pytest.mark.parametrize(
    ("kind", "code", "sequential", "moves", "expected"),
    [
        (FailureClass.TRANSIENT, "X", True, True, True),
        (FailureClass.PERMANENT, "X", True, True, True),
        (FailureClass.TRANSIENT, "X", True, False, False),
        (FailureClass.TRANSIENT, "X", False, True, False),
        (FailureClass.OUTAGE, "X", False, False, True),
        (FailureClass.DISABLED, "HANDLER_MISSING", False, True, True),
        (FailureClass.DISABLED, "SERVICE_DISABLED", False, True, False),
        # A failure before the position stops its partition as well: what would run behind it would
        # have its effects, and no end written down.
        (FailureClass.DISABLED, "SERVICE_DISABLED", True, False, True),
    ],
)
def test_what_nothing_may_run_behind(kind, code, sequential, moves, expected):
    unit = a_unit(row=None if moves else a_row())
    queue = Bench(sequential=sequential).queue
    assert stops(unit, Failed(a_failure(kind, code)), queue) is expected
    assert stops(unit, APPLIED, queue) is False


@pytest.mark.parametrize(
    ("taker", "bad", "place"),
    [
        ("one", PermanentError("no"), 2),
        ("one", permanent("no", code="NO"), 2),
        ("one", swallow, 2),
        ("one", orphan, None),
        ("indexed", PermanentError("no"), 2),
        ("mute", PermanentError("no"), None),
        ("mute", swallow, None),
    ],
)
def test_an_optimistic_batch_ends_at_its_first_failure(taker, bad, place):
    bench = Bench(bad={12: bad})
    result = bench.run("optimistic", bench.units(getattr(bench, taker), 10, 11, 12, 13))
    assert isinstance(result, FailedAt)
    assert result.place == place


@pytest.mark.parametrize("taker", ["one", "indexed", "mute"])
@pytest.mark.parametrize("bad", [PermanentError("no"), swallow, orphan])
def test_under_savepoints_a_failure_undoes_only_itself(taker, bad):
    bench = Bench(bad={12: bad, 14: bad})
    outcomes = bench.run("savepoints", bench.units(getattr(bench, taker), 10, 11, 12, 13, 14, 15))
    ended = [isinstance(outcome, Failed) for outcome in outcomes]
    assert ended == [False, False, True, False, True, False]
    assert bench.kept == [10, 11, 13, 15]


def test_one_savepoint_is_for_so_many_and_for_a_whole_call():
    batch, one = a_taker(batch=True), a_taker()
    takers = [one] * 4 + [batch] * 4 + [one] * 2
    units = [a_unit(n, taker=taker) for n, taker in enumerate(takers)]
    found = [[unit.at for unit in group] for group in groups(units, 3)]
    assert found == [[0, 1, 2], [3], [4, 5, 6, 7], [8, 9]]
    assert list(groups([], 3)) == []


@pytest.mark.parametrize("together", [1, 2, 3, 4, 7, 32])
@pytest.mark.parametrize("bad", [ValueError("bad"), swallow, orphan])
def test_a_failure_stays_alone_however_many_share_a_savepoint(together, bad):
    bench = Bench(bad={2: bad, 5: bad, 6: bad})
    outcomes = bench.run("savepoints", bench.units(bench.one, *range(9)), together)
    assert [n for n, outcome in enumerate(outcomes) if isinstance(outcome, Failed)] == [2, 5, 6]
    assert bench.kept == [0, 1, 3, 4, 7, 8]


def test_what_shared_a_savepoint_with_a_failure_runs_again_and_the_culprit_does_not():
    bench = Bench(bad={2: ValueError("bad")})
    bench.run("savepoints", bench.units(bench.one, *range(5)), together=4)
    assert bench.calls == [[0], [1], [2], [0], [1], [3], [4]]


def test_a_message_that_fails_only_when_it_runs_again_fails_alone():
    times = []

    def second(_: MemoryRepository) -> None:
        times.append(1)
        if len(times) == 2:
            raise ValueError("not twice")

    bench = Bench(bad={1: second, 3: ValueError("bad")})
    outcomes = bench.run("savepoints", bench.units(bench.one, *range(5)), together=5)
    assert [n for n, outcome in enumerate(outcomes) if isinstance(outcome, Failed)] == [1, 3]
    assert bench.kept == [0, 2, 4]


def test_an_outage_ends_the_trial_behind_what_went_well_before_it_under_one_savepoint():
    bench = Bench(bad={2: OutageError("down")})
    outcomes = bench.run("savepoints", bench.units(bench.one, *range(5)), together=5)
    assert [isinstance(outcome, Failed) for outcome in outcomes] == [False, False, True]
    assert bench.kept == [0, 1]


def test_a_named_culprit_is_cut_out_and_an_unnamed_one_is_found_by_halves():
    bench = Bench(bad={12: PermanentError("no")})
    bench.run("savepoints", bench.units(bench.indexed, 10, 11, 12, 13))
    assert bench.calls == [[10, 11, 12, 13], [10, 11], [12], [13]]
    bench = Bench(bad={12: PermanentError("no")})
    bench.run("savepoints", bench.units(bench.mute, 10, 11, 12, 13))
    assert bench.calls == [[10, 11, 12, 13], [10, 11], [12, 13], [12], [13]]


@pytest.mark.parametrize("taker", ["one", "indexed", "mute"])
def test_a_sequential_queue_runs_nothing_behind_a_failure(taker):
    bench = Bench(sequential=True, bad={12: TransientError("later")})
    outcomes = bench.run("savepoints", bench.units(getattr(bench, taker), 10, 11, 12, 13))
    assert codes(outcomes) == ["APPLIED", "APPLIED", "TRANSIENT_ERROR"]
    assert bench.kept == [10, 11]


@pytest.mark.parametrize("mode", ["optimistic", "savepoints"])
def test_an_outage_ends_the_trial_where_it_was_met(mode):
    bench = Bench(bad={11: OutageError("down")})
    result = bench.run(mode, bench.units(bench.one, 10, 11, 12))
    assert bench.calls == [[10], [11]]
    if mode == "optimistic":
        assert isinstance(result, FailedAt)
    else:
        assert codes(result) == ["APPLIED", "OUTAGE"]
        assert bench.kept == [10]


def test_an_outage_in_a_batch_is_not_looked_for_by_halves():
    bench = Bench(bad={12: OutageError("down")})
    outcomes = bench.run("savepoints", bench.units(bench.mute, 10, 11, 12, 13))
    assert codes(outcomes) == ["OUTAGE"]
    assert bench.calls == [[10, 11, 12, 13]]


@pytest.mark.parametrize("mode", ["optimistic", "savepoints"])
def test_known_outcomes_call_nobody_and_verdicts_are_read(mode):
    bench = Bench(bad={11: Superseded(), 12: Applied()})
    units = bench.units(bench.one, 10, 11, 12)
    units[0].known = STALE
    assert bench.run(mode, units) == [STALE, SUPERSEDED, APPLIED]
    assert bench.calls == [[11], [12]]


def test_a_batch_that_goes_on_behind_a_stop_is_not_kept():
    """Its verdict for the second message stops a sequential queue; the third has run already."""

    def verdicts(messages: Sequence[Any]) -> list[Any]:
        bad = permanent("no", code="NO")
        return [bad if message.offset == 11 else None for message in messages]

    bench = Bench(sequential=True)
    units = bench.units(a_taker(verdicts, batch=True), 10, 11, 12)
    result = bench.run("optimistic", units)
    assert isinstance(result, FailedAt)
    assert (result.place, result.failure.code) == (1, "NO")


@pytest.mark.parametrize(
    ("returned", "code"),
    [
        ([None] * 3, "WRONG_VERDICT_COUNT"),
        (7, "WRONG_VERDICT_COUNT"),
        ([True, 1], "UNKNOWN_VERDICT"),
    ],
)
def test_wrong_verdicts_are_failures(returned, code):
    bench = Bench()
    taker = a_taker(lambda _: returned, batch=True)
    outcomes = bench.run("savepoints", bench.units(taker, 10, 11))
    assert codes(outcomes) == [code, code]


def test_a_wrong_verdict_of_one_message_is_a_failure():
    outcomes = Bench(bad={10: "yes"})
    assert codes(outcomes.run("savepoints", outcomes.units(outcomes.one, 10))) == [
        "UNKNOWN_VERDICT"
    ]


def test_an_index_outside_the_batch_is_as_good_as_none():
    def wrong(messages: Sequence[Any]) -> None:
        raise BatchItemError(7) from PermanentError("no")

    bench = Bench()
    result = bench.run("optimistic", bench.units(a_taker(wrong, batch=True), 10, 11))
    assert isinstance(result, FailedAt)
    assert result.place is None
