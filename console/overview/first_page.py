"""What the first page shows, put together: blocked queues, problems, figures, a short table."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Final
from urllib.parse import urlencode

from console.overview import ways
from console.queues.cards import Card, cards, is_blocked
from console.queues.figures import Figures, figures
from crontasks.health.live_processes import live_processes
from crontasks.problems import asking, finding
from integration.selectors import badges, totals
from integration.selectors.badges import Badge
from integration.selectors.failures import causes
from integration.selectors.failures.causes import Group
from integration.selectors.failures.failures import FailureFilter
from integration.selectors.queues import heads, queues, rates
from integration.selectors.queues.rates import Pace
from integration.selectors.queues.rows import QueueRow
from integration.selectors.queues.status import LiveProcesses, Status
from integration.selectors.scope import Scope
from integration.selectors.totals import COUNT_CAP, Totals

# The first page stays one page: what is beyond is on the page of all queues.
CARDS_SHOWN: Final = 6
QUEUES_SHOWN: Final = 12
PROBLEMS_SHOWN: Final = 8
STOPPED_SHOWN: Final = 6
CAUSES_SHOWN: Final = 5
CARDED: Final = frozenset({20, 21})


@dataclass(frozen=True, slots=True)
class Cause:
    """A group of failures and the filter that finds just these."""

    group: Group
    query: str


@dataclass(frozen=True, slots=True, kw_only=True)
class FirstPage:
    """Everything above; `problems` are those without a card. `causes` None = too many to count.

    `stopped` are queues that people paused or switched off. `all_flows`: each one that there is.
    """

    live_processes: LiveProcesses
    cards: tuple[Card, ...]
    more_cards: int
    problems: tuple[ways.Told, ...]
    more_problems: tuple[ways.Told, ...]
    totals: Totals
    pace: Pace | None
    queues: tuple[Figures, ...]
    count: int
    urgent: int
    operations: Badge
    causes: tuple[Cause, ...] | None
    stopped: tuple[QueueRow, ...]
    more_stopped: int
    all_flows: bool


def first_page(scope: Scope, *, reveal: bool) -> FirstPage:
    """In a number of statements that does not grow with what there is.

    `reveal`: keys and ids of messages may be named.
    """
    alive = live_processes()
    rows = queues.standing(alive, scope)
    stopped = [row for row in rows if is_blocked(row)]
    found_heads = heads.heads(stopped, reveal=reveal)
    facts = asking.ask(rows, alive, found_heads)
    others = [one for one in ways.told(finding.problems(facts)) if one.problem.rank not in CARDED]
    paces = rates.last_minute(scope)
    sums = totals.totals(rows, scope)
    resting = _stopped(rows)
    return FirstPage(
        live_processes=alive,
        cards=tuple(cards(stopped[:CARDS_SHOWN], found_heads, facts.now)),
        more_cards=max(0, len(stopped) - CARDS_SHOWN),
        problems=tuple(others[:PROBLEMS_SHOWN]),
        more_problems=tuple(others[PROBLEMS_SHOWN:]),
        totals=sums,
        pace=rates.together(list(paces.values())),
        queues=tuple(figures(queues.counted(_chosen(rows, paces)), facts.now)),
        count=len(rows),
        urgent=sum(row.status.needs_a_person for row in rows),
        operations=badges.counted([badges.OPERATIONS], scope)[0],
        causes=_causes(sums, scope),
        stopped=tuple(resting[:STOPPED_SHOWN]),
        more_stopped=max(0, len(resting) - STOPPED_SHOWN),
        all_flows=all(row.status is Status.RUNNING for row in rows),
    )


def top_causes(scope: Scope) -> tuple[Cause, ...]:
    """The largest groups of open failures."""
    found = causes.causes(FailureFilter(), scope, CAUSES_SHOWN).groups
    return tuple(Cause(group, urlencode(group.narrows)) for group in found)


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
    found = [row for row in rows if row.is_read and (row.paused or not row.enabled)]
    return sorted(found, key=lambda row: (not row.lag, not row.enabled, -(row.lag or 0), row.name))


def _causes(sums: Totals, scope: Scope) -> tuple[Cause, ...] | None:
    """Grouping very many failures takes a moment: then it is asked for by a part of the page."""
    if max(sums.held, sums.retrying) > COUNT_CAP:
        return None
    return top_causes(scope)
