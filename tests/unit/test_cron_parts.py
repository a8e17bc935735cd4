"""The parts of cron tasks that need no server: parameters, registry, patience, turns."""

from dataclasses import dataclass
from datetime import UTC, datetime
from enum import StrEnum
from itertools import pairwise

import pytest
from hypothesis import given
from hypothesis import strategies as st

from crontasks import parameters
from crontasks.builtin.reprocessing import Pace
from crontasks.definitions import Definition, Registry, registry
from crontasks.dispatch.due import (
    LONGEST_PAUSE_SECONDS,
    MOST_STARTS,
    WINDOW_SECONDS,
    Due,
    Patience,
)
from crontasks.errors import BadParametersError, CronTaskConflictError, UnknownCronTaskError
from crontasks.outcome import EXCERPT_LINES, NOTHING, Context, Outcome, RunState
from crontasks.parameters import option
from crontasks.running import turns

pytestmark = pytest.mark.fast


class Colour(StrEnum):
    RED = "red"
    BLUE = "blue"


@dataclass(frozen=True)
class Settings:
    name: str
    days: int = option(7, "How long.", least=1, most=30)
    rate: float = option(1.0, "How fast.", least=0.1)
    on: bool = option(True, "Whether.")
    colour: Colour = option(Colour.RED, "Which.")
    limit: int | None = option(None, "At most.", least=1)


def test_json_values_fill_the_dataclass_with_their_types():
    raw = {"name": "n", "days": "14", "rate": 2, "on": "false", "colour": "blue", "limit": 3}
    assert parameters.read(Settings, raw) == Settings(
        name="n", days=14, rate=2.0, on=False, colour=Colour.BLUE, limit=3
    )
    assert parameters.read(Settings, {"name": "n"}) == Settings(name="n")
    assert parameters.read(Settings, {"name": "n", "limit": None}).limit is None


def test_every_mistake_is_told_at_once():
    raw = {"days": 31, "rate": "fast", "on": 1, "colour": "green", "dayz": 1, "limit": 0}
    with pytest.raises(BadParametersError) as refused:
        parameters.read(Settings, raw)
    told = "\n".join(refused.value.mistakes)
    assert "no parameter 'dayz'" in told
    assert "name is missing: write text" in told
    assert "days is 31: write at most 30" in told
    assert "rate is 'fast': write a number" in told
    assert "on is 1: write true or false" in told
    assert "colour is 'green': write one of red, blue" in told
    assert "limit is 0: write at least 1" in told


@pytest.mark.parametrize(
    "raw", [True, 1.5, "1.5", "", [], {}, float("nan"), "9" * 30, None, "x" * 20_000]
)
def test_what_is_no_whole_number_is_refused(raw):
    with pytest.raises(BadParametersError):
        parameters.read(Settings, {"name": "n", "days": raw})


@pytest.mark.parametrize("raw", [float("nan"), float("inf"), "nan", "1e999", True])
def test_a_number_is_finite(raw):
    with pytest.raises(BadParametersError):
        parameters.read(Settings, {"name": "n", "rate": raw})


@pytest.mark.parametrize("raw", [[], "text", None, 3])
def test_parameters_are_an_object(raw):
    with pytest.raises(BadParametersError):
        parameters.read(Settings, raw)


json_values = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | st.text(),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(), inner, max_size=3),
    max_leaves=5,
)


@given(st.dictionaries(st.sampled_from(["name", "days", "rate", "on", "colour", "x"]), json_values))
def test_any_json_is_read_or_refused(raw):
    try:
        found = parameters.read(Settings, raw)
    except BadParametersError:
        return
    assert 1 <= found.days <= 30


def test_parameters_are_described_for_a_form():
    described = {one.name: one for one in parameters.describe(Settings)}
    assert described["days"].kind == "a whole number"
    assert described["days"].default == 7
    assert described["limit"].kind == "a whole number or null"
    assert described["colour"].text == "Which."
    assert described["name"].is_required
    assert not described["limit"].is_required


def test_two_classes_cannot_have_one_name_and_an_unknown_name_is_told():
    mine = Registry()
    mine.add(Definition("one", Settings))  # type: ignore[arg-type]
    mine.add(Definition("one", Settings))  # type: ignore[arg-type]
    with pytest.raises(CronTaskConflictError):
        mine.add(Definition("one", Colour))  # type: ignore[arg-type]
    with pytest.raises(UnknownCronTaskError, match=r"'two'.* one") as refused:
        mine.named("two")
    assert refused.value.code == "UNKNOWN_CRON_TASK"


def test_every_shipped_cron_task_reads_its_own_defaults_and_says_what_it_does():
    names = [definition.name for definition in registry]
    assert {
        "queue_consumer",
        "error_queue_consumer",
        "relay",
        "errors_cleanup",
        "events",
        "history_cleanup",
        "reprocessing",
        "rescue",
        "retention_sync",
        "lag_monitor",
        "xa_recovery",
    } <= set(names)
    for definition in registry:
        if definition.origin.startswith("crontasks."):
            parameters.read(definition.task.parameters, {})
        assert definition.title
        assert definition.description


def test_an_excerpt_keeps_the_last_lines_and_cuts_long_ones():
    context = Context(instance_id=1, scheduled_at=datetime(2026, 1, 1, tzinfo=UTC))
    for number in range(EXCERPT_LINES + 50):
        context.say(f"{number} {'x' * 1_000}")
    lines = context.excerpt.splitlines()
    assert len(lines) == EXCERPT_LINES
    assert lines[-1].startswith(f"{EXCERPT_LINES + 49} ")
    assert max(map(len, lines)) == 300


def test_only_an_outcome_that_did_nothing_is_empty():
    assert NOTHING.is_empty
    assert Outcome(counts={"removed": 0}).is_empty
    assert not Outcome(counts={"removed": 1}).is_empty
    assert not Outcome(text="told").is_empty
    assert not Outcome(state=RunState.FAILED).is_empty


def test_a_new_cause_is_served_at_once_and_an_unchanged_one_at_growing_intervals():
    patience = Patience()
    stuck = Due(1, "rows 3 3")
    served = [now for now in range(200) if patience.select([stuck], float(now))]
    gaps = [b - a for a, b in pairwise(served)]
    assert gaps[:5] == [1, 2, 4, 8, 16]
    assert set(gaps[5:]) == {LONGEST_PAUSE_SECONDS}
    assert patience.select([Due(1, "rows 2 3")], 200.0) == [1]


def test_a_queue_with_two_causes_starts_once_and_others_do_not_wait_for_it():
    patience = Patience()
    due = [Due(2, "a"), Due(1, "b"), Due(2, "c")]
    assert patience.select(due, 0.0) == [1, 2]
    assert patience.select(due, 0.5) == []
    assert patience.select([*due, Due(3, "d")], 0.6) == [3]


def test_a_run_that_dies_at_every_start_rests_while_others_go_on():
    patience = Patience()
    starts = [
        now / 2
        for now in range(80)
        if 1 in patience.select([Due(1, f"abandoned 7 {now}"), Due(2, "other")], now / 2)
    ]
    assert starts[:5] == [0, 0.5, 1, 1.5, 2]
    for now in starts:
        assert sum(now <= later < now + WINDOW_SECONDS for later in starts) <= MOST_STARTS
    assert patience.select([Due(3, "abandoned 9 1")], 40.0) == [3]


def test_patience_forgets_causes_that_stayed_away():
    patience = Patience()
    for number in range(1_000):
        patience.select([Due(number, "once")], float(number))
    assert len(patience._served) < 50
    assert len(patience._starts) < 50


def test_the_more_queues_wait_the_sooner_a_run_gives_way():
    patience = [turns.patience_seconds(count, is_quiet=False) for count in range(1, 30)]
    assert patience[0] == pytest.approx(0.7)
    assert patience == sorted(patience, reverse=True)
    assert min(patience) == 0.2
    assert turns.patience_seconds(1, is_quiet=True) < 0.2


class FakeTime:
    """A clock that only sleeping moves."""

    def __init__(self) -> None:
        self.now = 100.0
        self.slept: list[float] = []

    def sleep(self, seconds: float) -> None:
        self.slept.append(seconds)
        self.now += seconds


def test_a_slow_pace_sleeps_in_short_pieces_and_keeps_its_rate():
    time = FakeTime()
    pace = Pace(0.1, clock=lambda: time.now, sleep=time.sleep)
    assert all(pace.wait(lambda: False) for _ in range(3))
    assert time.now - 100 == pytest.approx(20)
    assert max(time.slept) <= 0.2


def test_a_worker_that_ends_does_not_wait_for_the_next_turn():
    time = FakeTime()
    pace = Pace(0.1, clock=lambda: time.now, sleep=time.sleep)
    assert pace.wait(lambda: False)
    assert not pace.wait(lambda: time.now >= 103)
    assert time.now - 100 < 3.3, "one piece after it was told"
