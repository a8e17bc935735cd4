"""Cleanup as the console shows it: its rules, its last runs, and what the next ones remove."""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import Any, ClassVar, Final, Protocol, cast

from crontasks import parameters
from crontasks.cleanup import simulation
from crontasks.cleanup.rules import Rule
from crontasks.cleanup.simulation import OldRows, RuleForecast
from crontasks.definitions import CronTask, registry
from crontasks.errors import BadParametersError
from crontasks.instances import selectors
from crontasks.instances.selectors import InstanceRow
from crontasks.models import CronInstance, CronRun
from integration.counting import so_many
from integration.store.sessions import database_time

RUNS: Final = 5
# Ages are shown in steps, each from so many days on.
AGES: Final = ((365, "a year and more"), (90, "90 to 364 days"), (30, "30 to 89 days"))
YOUNGER: Final = ((14, "14 to 29 days"), (7, "7 to 13 days"), (0, "less than 7 days"))


class Cleaning(CronTask, Protocol):
    """A cron task that removes by rules."""

    rules: ClassVar[tuple[Rule, ...]]

    @staticmethod
    def sql_values(parameters: Any, at: datetime) -> Mapping[str, object]: ...


@dataclass(frozen=True, slots=True)
class RuleRow:
    """One rule in words, with the days it keeps: a number, or a word."""

    rule: Rule
    keeps: str


@dataclass(frozen=True, slots=True)
class Cleanup:
    """One cleanup: its schedule, rules and last runs. `mistake`: its parameters are none."""

    row: InstanceRow
    portion: int
    rules: tuple[RuleRow, ...]
    runs: tuple[CronRun, ...]
    mistake: str = ""


@dataclass(frozen=True, slots=True)
class Group:
    """Rows of one rule, status and age."""

    rule: Rule
    status: str
    age: str
    rows: int
    size_bytes: int


@dataclass(frozen=True, slots=True)
class Upcoming:
    """A run to come, and the rows that become due until then besides the ones before."""

    at: datetime
    rows: int


@dataclass(frozen=True, slots=True)
class Simulation:
    """The rows a run at `at` would remove; those it would not, and why; the next five runs."""

    at: datetime
    forecasts: tuple[RuleForecast, ...]
    groups: tuple[Group, ...]
    upcoming: tuple[Upcoming, ...]

    @property
    def rows(self) -> int:
        return sum(rule.rows for rule in self.forecasts)

    @property
    def size_bytes(self) -> int:
        return sum(rule.size_bytes for rule in self.forecasts)

    @property
    def protects_some(self) -> bool:
        return any(one.rows for rule in self.forecasts for one in rule.protected)


def cleanups() -> list[Cleanup]:
    """Every configured cleanup, by name."""
    return [_cleanup(row) for name in _tasks() for row in selectors.of_task(name)]


def simulate(instance_id: int) -> Simulation | None:
    """Count by the conditions of the run; None when this is no cleanup.

    Raises BadParametersError, SimulationTooLongError.
    """
    instance = CronInstance.objects.filter(pk=instance_id, task__in=_tasks()).first()
    if instance is None:
        return None
    task = _cleaning(instance.task)
    (row,) = [row for row in selectors.of_task(instance.task) if row.id == instance_id]
    at = database_time()
    moments = (at, *(moment for moment in row.next_moments if moment > at))
    values = parameters.read(task.parameters, instance.parameters)
    forecasts = simulation.forecast(task.rules, task.sql_values(values, at), moments)
    later = [
        Upcoming(moment, sum(rule.later[place] for rule in forecasts))
        for place, moment in enumerate(moments[1:])
    ]
    return Simulation(at, tuple(forecasts), tuple(_grouped(forecasts)), tuple(later))


def _tasks() -> list[str]:
    return [task.name for task in registry if hasattr(task.task, "rules")]


def _cleaning(name: str) -> type[Cleaning]:
    """One of `_tasks()`: what has rules gives their parameters, too."""
    return cast("type[Cleaning]", registry.named(name).task)


def _cleanup(row: InstanceRow) -> Cleanup:
    task = _cleaning(row.task)
    instance = CronInstance.objects.get(pk=row.id)
    runs = selectors.runs(row.id).runs[:RUNS]
    try:
        values = parameters.read(task.parameters, instance.parameters)
    except BadParametersError as problem:
        return Cleanup(row, 0, (), runs, str(problem))
    rules = tuple(RuleRow(rule, _keeps(rule, values)) for rule in task.rules)
    return Cleanup(row, values.chunk_rows, rules, runs)


def _keeps(rule: Rule, values: object) -> str:
    if not rule.days:
        return rule.keeps
    days = getattr(values, rule.days)
    return "forever" if days is None else so_many(days, "day")


def _grouped(forecasts: Sequence[RuleForecast]) -> Iterator[Group]:
    for forecast in forecasts:
        sums: dict[tuple[str, str], tuple[int, int]] = {}
        # Oldest first within a status.
        for old in sorted(forecast.old, key=lambda old: (old.status, -old.days)):
            key = (old.status, _age(old))
            rows, size = sums.get(key, (0, 0))
            sums[key] = (rows + old.rows, size + old.size_bytes)
        for (status, age), (rows, size) in sums.items():
            yield Group(forecast.rule, status, age, rows, size)


def _age(old: OldRows) -> str:
    return next(words for least, words in (*AGES, *YOUNGER) if old.days >= least or least == 0)
