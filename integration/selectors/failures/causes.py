"""Open failures in groups: by cause, or by queue, system, service or code, largest group first."""

from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime
from enum import StrEnum
from typing import Any, Final, NamedTuple

from integration.models import Queue
from integration.policy.failure import cause_words
from integration.policy.states import OPEN_SQL, ErrorState
from integration.selectors.failures.cause_ids import cause_id, fingerprint_of
from integration.selectors.failures.failures import WITHOUT, FailureFilter
from integration.selectors.failures.plans import planned_anew
from integration.selectors.masking.covers import UNCOVERED, Cover, covers_of
from integration.selectors.scope import Scope
from integration.store.sessions import fetch_all

GROUPS_SHOWN: Final = 100
TREND_HOURS: Final = 24
# Beyond this many open failures the hours are left out: on 500,000 of them, counting alone takes
# about 0.1 s (an index-only scan), and the hours would take as long again.
TREND_ROWS: Final = 150_000
# Where the failure stands whose text is the example of a group.
SAMPLE_ID: Final = 11


class By(StrEnum):
    """The parts of a group. A cause is a code, the text without what varies, and a service."""

    CAUSE = "cause"
    QUEUE = "queue"
    SYSTEM = "system"
    SERVICE = "service"
    CODE = "code"


@dataclass(frozen=True, slots=True, kw_only=True)
class Group:
    """Failures that belong together. `narrows` holds the filter words that find just these.

    `text` is the sentence without ids, numbers and quoted values, `example` that of one failure
    as it is; both of groups by cause only.
    `trend` counts those that first failed in each of the last 24 hours, oldest hour first; it is
    empty where it was not counted.
    """

    name: str
    code: str
    interface: str
    text: str
    example: str
    count: int
    held: int
    retrying: int
    released: int
    parked: int
    causes: int
    first: datetime
    last: datetime
    queues: tuple[str, ...]
    systems: tuple[str, ...]
    trend: tuple[int, ...]
    narrows: Mapping[str, str]


@dataclass(frozen=True, slots=True, kw_only=True)
class Grouped:
    """The groups shown, of how many failures in all. `has_more`: smaller groups are left out."""

    groups: tuple[Group, ...]
    total: int
    has_more: bool
    has_trend: bool


# Grouped in the order of the index error_cause_open, so that nothing is sorted and no row read.
PARTS: Final = f"""
WITH parts AS MATERIALIZED (
  SELECT e.fingerprint, e.queue_id, e.interface, e.code, count(*) AS n,
    count(*) FILTER (WHERE e.state = '{ErrorState.HOLD}') AS held,
    count(*) FILTER (WHERE e.state = '{ErrorState.READY}') AS released,
    count(*) FILTER (WHERE e.state = '{ErrorState.PARKED}') AS parked,
    min(e.first_failed_at) AS first, max(e.last_failed_at) AS last
  FROM integration_messageerror e
  WHERE e.state IN {OPEN_SQL}{{conditions}}
  GROUP BY e.fingerprint, e.queue_id, e.interface, e.code
), grouped AS (
  SELECT ARRAY[{{key}}] AS key, sum(e.n)::bigint AS n, sum(e.held)::bigint AS held,
    sum(e.released)::bigint AS released, sum(e.parked)::bigint AS parked,
    min(e.first) AS first, max(e.last) AS last, array_agg(DISTINCT e.queue_id) AS queues,
    count(DISTINCT e.fingerprint) AS causes, sum(sum(e.n)) OVER ()::bigint AS total
  FROM parts e JOIN integration_queue q ON q.id = e.queue_id GROUP BY 1
  ORDER BY n DESC, key LIMIT %s
)
SELECT g.key, g.n, g.held, g.released, g.parked, g.first, g.last, g.queues, g.causes, g.total,
  {{text}} FROM grouped g {{sample}} ORDER BY g.n DESC, g.key
"""
# A group of parts is one cause: its first row by the index tells its sentence.
SAMPLE: Final = f"""
LEFT JOIN LATERAL (
  SELECT e.text, e.id FROM integration_messageerror e
  WHERE e.state IN {OPEN_SQL} AND e.fingerprint = g.key[1]
    AND e.queue_id = g.queues[1] AND e.interface = g.key[2] AND e.code = g.key[3] LIMIT 1
) sample ON true
"""
# The hours of the parts, one for each failure: in the order of the index, as above.
TREND: Final = f"""
SELECT ARRAY[{{key}}], e.hours FROM (
  SELECT e.fingerprint, e.queue_id, e.interface, e.code,
    array_agg(width_bucket(e.first_failed_at, h.hours)) AS hours
  FROM integration_messageerror e,
    (SELECT array_agg(at) AS hours
     FROM generate_series(now() - interval '24 hours', now(), interval '1 hour') at) h
  WHERE e.state IN {OPEN_SQL}
    AND e.first_failed_at >= now() - interval '24 hours'{{conditions}}
  GROUP BY e.fingerprint, e.queue_id, e.interface, e.code
) e JOIN integration_queue q ON q.id = e.queue_id
"""
# The key of a group: in SQL, and as the words of the filter that find just these.
KEYS: Final[Mapping[By, tuple[str, tuple[str, ...]]]] = {
    By.CAUSE: ("e.fingerprint, e.interface, e.code", ("fingerprint", "interface", "code")),
    By.QUEUE: ("e.queue_id::text", ("queue",)),
    By.SYSTEM: ("coalesce(q.system_id::text, '')", ("system",)),
    By.SERVICE: ("e.interface", ("interface",)),
    By.CODE: ("e.code", ("code",)),
}

Key = tuple[str, ...]
Hours = Mapping[Key, tuple[int, ...]]


class _Place(NamedTuple):
    """A queue as groups name it."""

    name: str
    system: str


@planned_anew()
def causes(
    filters: FailureFilter, scope: Scope, limit: int = GROUPS_SHOWN, *, by: By = By.CAUSE
) -> Grouped:
    """The largest groups of open failures within the filter, in three queries.

    Of the filter queue, system, service, code, fingerprint, run and one open state count.
    """
    places = _places(scope)
    conditions, values = _conditions(filters, scope, places)
    sample = SAMPLE if by is By.CAUSE else ""
    text = "sample.text, sample.id" if by is By.CAUSE else "'', NULL"
    key, _ = KEYS[by]
    sql = PARTS.format(conditions=conditions, key=key, sample=sample, text=text)
    rows = fetch_all(sql, [*values, limit + 1])
    total = rows[0][9] if rows else 0
    shown = rows[:limit]
    examples = [row[SAMPLE_ID] for row in shown if row[SAMPLE_ID] is not None]
    found = covers_of(examples) if examples else {}
    hours: Hours | None = None
    if shown and total <= TREND_ROWS:
        hours = _hours(TREND.format(key=key, conditions=conditions), values)
    return Grouped(
        groups=tuple(
            _group(by, row, places, hours, found.get(row[SAMPLE_ID], UNCOVERED)) for row in shown
        ),
        total=total,
        has_more=len(rows) > limit,
        has_trend=hours is not None,
    )


def _places(scope: Scope) -> dict[int, _Place]:
    queues = Queue.objects.filter(scope.within("system"))
    rows = queues.values_list("pk", "name", "system__name")
    return {pk: _Place(name, system or "") for pk, name, system in rows}


def _conditions(
    filters: FailureFilter, scope: Scope, places: Mapping[int, _Place]
) -> tuple[str, list[Any]]:
    """Return what narrows the scan, and its values. Only columns of indexes are named."""
    words: list[str] = []
    values: list[Any] = []
    if not scope.is_whole or filters.queue or filters.system or filters.run:
        words.append(" AND e.queue_id = ANY(%s)")
        values.append([pk for pk, place in places.items() if _fits(place, filters)])
    exact = {
        "e.interface": filters.interface,
        "e.code": filters.code,
        "e.fingerprint": fingerprint_of(filters.fingerprint),
        "e.state": "" if filters.state == "OPEN" else filters.state,
    }
    if filters.run:
        # No column of the index of causes, but of the one of positions: a run has few among all.
        words.append(" AND e.topic_uuid = %s")
        values.append(filters.run)
    for column, text in exact.items():
        if text:
            words.append(f" AND {column} = %s")
            values.append("" if text == WITHOUT else text)
    return "".join(words), values


def _fits(place: _Place, filters: FailureFilter) -> bool:
    system = "" if filters.system == WITHOUT else filters.system
    return filters.queue in {"", place.name} and (not filters.system or place.system == system)


def _group(
    by: By,
    row: Sequence[Any],
    places: Mapping[int, _Place],
    hours: Hours | None,
    cover: Cover,
) -> Group:
    key, count, held, released, parked, first, last, queues, causes, _, example, _ = row
    touched = [places[pk] for pk in queues if pk in places]
    names = _said(by, key, touched)
    text = cover.text(example or "", names.get("code", ""))
    return Group(
        name=names.get("queue") or names.get("system") or "",
        code=names.get("code", ""),
        interface=names.get("interface", ""),
        text=cause_words(text, count),
        example=text,
        count=count,
        held=held,
        # Waiting for a retry, or in one: what is open is in no other state.
        retrying=count - held - released - parked,
        released=released,
        parked=parked,
        causes=causes,
        first=first,
        last=last,
        queues=tuple(sorted(place.name for place in touched)),
        systems=tuple(sorted({place.system for place in touched if place.system})),
        trend=() if hours is None else hours.get(tuple(key), (0,) * TREND_HOURS),
        narrows={name: value or WITHOUT for name, value in names.items()},
    )


def _said(by: By, key: Sequence[str], touched: Sequence[_Place]) -> dict[str, str]:
    """The filter words of a group: names in place of numbers."""
    if by is By.QUEUE:
        return {"queue": touched[0].name if touched else ""}
    if by is By.SYSTEM:
        return {"system": touched[0].system if touched else ""}
    said = dict(zip(KEYS[by][1], key, strict=True))
    return {n: cause_id(text) if n == "fingerprint" else text for n, text in said.items()}


def _hours(sql: str, values: Sequence[Any]) -> Hours:
    counted: dict[Key, list[int]] = {}
    for key, of_part in fetch_all(sql, values):
        hours = counted.setdefault(tuple(key), [0] * TREND_HOURS)
        for hour, count in Counter(of_part).items():
            # A clock that is a little ahead of the database's belongs to the hour of now.
            hours[min(max(hour, 1), TREND_HOURS) - 1] += count
    return {key: tuple(hours) for key, hours in counted.items()}
