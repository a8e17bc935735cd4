"""The contents of the first page: blocked queues, problems, figures, a short table."""

from collections.abc import Mapping, Sequence
from typing import Any, Final
from urllib.parse import urlencode

from console.overview import ways
from console.queues.cards import cards, is_blocked
from console.queues.figures import figures
from crontasks.health.live_processes import live_processes
from crontasks.problems import asking, finding
from integration.selectors import badges, totals
from integration.selectors.failures import causes
from integration.selectors.failures.causes import Group
from integration.selectors.failures.failures import FailureFilter
from integration.selectors.outbox import shards
from integration.selectors.queues import heads, queues, rates
from integration.selectors.queues.rates import Pace
from integration.selectors.queues.rows import QueueRow
from integration.selectors.queues.status import Status
from integration.selectors.scope import Scope
from integration.selectors.totals import COUNT_CAP, Totals

# The first page stays one page: what is beyond is on the page of all queues.
CARDS_SHOWN: Final = 6
QUEUES_SHOWN: Final = 12
PROBLEMS_SHOWN: Final = 8
STOPPED_SHOWN: Final = 6
CAUSES_SHOWN: Final = 5
CARDED: Final = frozenset({20, 21})


Cause = tuple[Group, str]
"""A group of failures, and the filter that finds just these."""


def first_page(scope: Scope, *, reveal: bool) -> dict[str, Any]:
    """Gather its context in a number of statements that does not grow with the data.

    `reveal`: keys and ids of messages may be named. `problems` are those without a card;
    `causes` None = too many to count; `stopped` are queues that people paused or switched off.
    """
    alive = live_processes()
    rows = queues.standing(alive, scope)
    stopped = [row for row in rows if is_blocked(row)]
    by_id = heads.heads(stopped, reveal=reveal)
    facts = asking.ask(rows, alive, by_id, is_whole=scope.is_whole)
    others = [
        (problem, ways.link(problem))
        for problem in finding.problems(facts)
        if problem.rank not in CARDED
    ]
    paces = rates.last_minute(scope)
    sums = totals.totals(rows, scope)
    resting = _stopped(rows)
    return {
        "live_processes": alive,
        "cards": cards(stopped[:CARDS_SHOWN], by_id, facts.now),
        "more_cards": max(0, len(stopped) - CARDS_SHOWN),
        "problems": others[:PROBLEMS_SHOWN],
        "more_problems": others[PROBLEMS_SHOWN:],
        "totals": sums,
        "shards": shards.of_all() if scope.is_whole else [],
        "pace": rates.together(list(paces.values())),
        "queues": figures(queues.counted(_chosen(rows, paces)), facts.now),
        "count": len(rows),
        "operations": badges.counted([badges.OPERATIONS], scope)[0],
        "causes": _causes(sums, scope),
        "stopped": resting[:STOPPED_SHOWN],
        "more_stopped": max(0, len(resting) - STOPPED_SHOWN),
        "all_flows": all(row.status is Status.RUNNING for row in rows),
    }


def top_causes(scope: Scope) -> list[Cause]:
    """The largest groups of open failures."""
    groups = causes.causes(FailureFilter(), scope, CAUSES_SHOWN).groups
    return [(group, urlencode(group.narrows)) for group in groups]


def _chosen(rows: Sequence[QueueRow], paces: Mapping[int, Pace]) -> list[QueueRow]:
    """Those in need first, then the busiest."""
    needy = [row for row in rows if row.status.rank < Status.RUNNING.rank]
    busy = sorted(
        (row for row in rows if row.status is Status.RUNNING),
        key=lambda row: (-rates.traffic(paces.get(row.id)), -(row.lag or 0), row.name),
    )
    off = [row for row in rows if row.status is Status.OFF]
    return [*needy, *busy, *off][:QUEUES_SHOWN]


def _stopped(rows: Sequence[QueueRow]) -> list[QueueRow]:
    """Those with messages waiting first, paused ones before those that are off."""
    stopped = [row for row in rows if row.is_read and (row.paused or not row.enabled)]
    return sorted(
        stopped, key=lambda row: (not row.lag, not row.enabled, -(row.lag or 0), row.name)
    )


def _causes(sums: Totals, scope: Scope) -> list[Cause] | None:
    """Grouping very many failures takes a moment: then it is asked for by a part of the page."""
    if max(sums.held, sums.retrying) > COUNT_CAP:
        return None
    return top_causes(scope)
