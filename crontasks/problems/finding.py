"""Every problem there is, the most urgent first: facts in, problems out. Pure."""

from collections.abc import Callable, Iterator
from typing import Final

from crontasks.problems import around, queues
from crontasks.problems.facts import Facts, Problem

FINDERS: Final[tuple[Callable[[Facts], Iterator[Problem]], ...]] = (
    around.broker,
    around.live_processes,
    around.spark,
    around.providers,
    around.services,
    around.systems,
    around.schedules,
    around.cron_runs,
    around.retention,
    around.slots,
    queues.hanging,
    around.endpoints,
    around.shared_ledgers,
    queues.unknown,
    around.commits_in_doubt,
    around.held_by_others,
    around.branches,
    around.late_relays,
    queues.blocked,
    queues.expiring,
    queues.stopped_rescues,
    queues.standstill,
)


def problems(facts: Facts) -> list[Problem]:
    """Every problem there is, the most urgent first. Empty where there is no queue yet."""
    if not facts.rows:
        return []
    unordered = [problem for find in FINDERS for problem in find(facts)]
    return sorted(unordered, key=lambda problem: (problem.rank, problem.subject))
