"""The figures of queues, failures, the relay and the database, as families of named samples.

Every query has a cost of its own that does not grow with what was ever processed: counts of open
failures stop at a cap for each queue and state, and what runs have counted is one row each.
"""

from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from typing import Any, Final

from integration.models import Tally
from integration.policy.histograms import CALL_SECONDS, LATENCY_SECONDS
from integration.policy.states import OPEN, OPEN_SQL, Ended, PartitionState
from integration.selectors.outbox.relaying import PENDING_CAP, Relaying, relays
from integration.store import tallies
from integration.store.sessions import fetch_all
from integration.store.stable_ends import IS_BEFORE_OPEN
from integration.store.starts import IS_READ, SENDS
from integration.version import sluice_version

# A queue stops itself at 10,000 open failures unless it was given another limit.
FAILURES_CAP: Final = 10_000
_ENDED: Final = ("queue", "ended")

_QUEUES: Final = f"""
    SELECT q.name, (q.enabled AND NOT q.paused)::int,
           sum(greatest(p.high_watermark - p.next_offset, 0))
               FILTER (WHERE p.high_watermark IS NOT NULL
                   AND (p.high_watermark > p.next_offset OR NOT p.more_waiting))::float,
           extract(epoch FROM clock_timestamp()
               - min(p.oldest_waiting_at) FILTER (WHERE p.high_watermark > p.next_offset))::float,
           extract(epoch FROM clock_timestamp()
               - min(p.state_since) FILTER (WHERE p.state = 'BLOCKED'))::float,
           extract(epoch FROM clock_timestamp()
               - min(p.state_since) FILTER (WHERE {IS_BEFORE_OPEN}))::float,
           sum(p.next_offset)::float, sum(p.epoch)::float,
           coalesce((SELECT sum(r.records) FROM integration_rescue r
               JOIN integration_queuepartition o ON o.id = r.partition_id
               WHERE o.queue_id = q.id AND r.topic_uuid = o.topic_uuid
               AND r.to_offset > o.next_offset), 0)::float,
           {", ".join(f"count(*) FILTER (WHERE p.state = '{s}')" for s in PartitionState)}
    FROM integration_queue q LEFT JOIN integration_queuepartition p ON p.queue_id = q.id
    WHERE {IS_READ} GROUP BY q.id ORDER BY q.name"""
_FAILURES: Final = f"""
    SELECT q.name, s.state, few.count
    FROM integration_queue q
    CROSS JOIN (VALUES {", ".join(f"('{state}')" for state in sorted(OPEN))}) s (state)
    CROSS JOIN LATERAL (SELECT count(*) FROM (
        SELECT 1 FROM integration_messageerror e
        WHERE e.queue_id = q.id AND e.state = s.state
          AND e.state IN {OPEN_SQL}
        LIMIT {FAILURES_CAP}) found) few
    WHERE {IS_READ} ORDER BY q.name, s.state"""
_NAMES: Final = f"SELECT q.id, q.name FROM integration_queue q WHERE {IS_READ} ORDER BY q.name"
_ENDPOINT_NAMES: Final = "SELECT id, name FROM integration_endpoint"
_ENDPOINTS: Final = """
    SELECT e.name, (e.enabled AND coalesce(e.paused_until <= clock_timestamp(), true))::int,
           CASE WHEN c.state <> 'CLOSED'
               THEN extract(epoch FROM clock_timestamp() - c.opened_at)::float END
    FROM integration_endpoint e
    LEFT JOIN integration_endpointcircuit c ON c.endpoint_id = e.id ORDER BY e.name"""
# By the partial index of calls whose end is not written: none of those that have ended.
_UNKNOWN: Final = f"""
    SELECT q.name, (SELECT count(*) FROM integration_delivery d
        WHERE d.queue_id = q.id AND d.state IN ('SENDING', 'UNKNOWN') AND d.state = 'UNKNOWN')
    FROM integration_queue q WHERE {SENDS} ORDER BY q.name"""
_CONNECTIONS: Final = """
    SELECT (SELECT count(*) FROM pg_stat_activity WHERE datname = current_database()),
           current_setting('max_connections')::int
               - current_setting('superuser_reserved_connections')::int"""

Spread = tuple[tuple[str, ...], Sequence[float], Sequence[int], float]


@dataclass(frozen=True, slots=True)
class Family:
    """One metric: its name without the prefix, what it counts, and its samples.

    A sample is (values of `labels`, number); a number that is not known has no sample. `kind` is
    "gauge", or "counter" for what only grows, or "histogram": of that each sample is in `spreads`,
    with its upper bounds, how many lie in each bucket, and their sum.
    """

    name: str
    help: str
    labels: tuple[str, ...] = ()
    kind: str = "gauge"
    samples: list[tuple[tuple[str, ...], float]] = field(default_factory=list)
    spreads: list[Spread] = field(default_factory=list)

    def add(self, number: float | None, *labels: str) -> None:
        if number is not None:
            self.samples.append((labels, number))

    def spread(
        self, bounds: Sequence[float], counts: Sequence[int], total: float, *labels: str
    ) -> None:
        self.spreads.append((labels, bounds, counts, total))


def families() -> Iterator[Family]:
    """Everything this room can count, in nine queries. Raises DatabaseError."""
    yield from _of_queues(fetch_all(_QUEUES))
    yield _family(
        "open_failures",
        f"Open failures, each queue and state counted up to {FAILURES_CAP:,}",
        ("queue", "state"),
        fetch_all(_FAILURES),
    )
    yield from _of_tallies(tallies.read())
    yield _family("build_info", "1, with the version", ("version",), [(sluice_version(), 1)])
    yield from _of_relays(relays())
    yield from _of_endpoints(fetch_all(_ENDPOINTS))
    yield _family(
        "deliveries_unknown",
        "Calls that may have arrived: a person must decide",
        ("queue",),
        fetch_all(_UNKNOWN),
    )
    [(in_use, most)] = fetch_all(_CONNECTIONS)
    used = "Sessions in this database, whoever opened them"
    yield _family("database_connections", used, (), [(in_use,)])
    limit = "Sessions the server allows to ordinary roles"
    yield _family("database_connections_limit", limit, (), [(most,)])


def _family(
    name: str, help_: str, labels: tuple[str, ...], rows: Iterable[Sequence[Any]]
) -> Family:
    """A gauge; each row is the labels of a sample and its number."""
    family = Family(name, help_, labels)
    for *values, number in rows:
        family.add(number, *values)
    return family


def _of_queues(rows: Sequence[tuple[Any, ...]]) -> Iterator[Family]:
    per_queue = (
        ("queue_wanted", "1 = switched on and not paused", "gauge"),
        ("queue_lag", "Messages between the database's position and the topic's end", "gauge"),
        ("queue_oldest_waiting_seconds", "Age of the oldest message that waits", "gauge"),
        ("queue_blocked_seconds", "For how long it is blocked; 0 = it is not", "gauge"),
        (
            "queue_held_back_seconds",
            "For how long an open transaction of another application has held it back; 0 = none",
            "gauge",
        ),
        ("queue_position", "Offsets passed, over all partitions: rate() is throughput", "counter"),
        ("queue_takes", "How often a run took a partition (epochs raised): churn", "counter"),
        ("queue_rescued", "Untried messages copied before they could expire", "gauge"),
    )
    of_queue = [Family(name, help_, ("queue",), kind) for name, help_, kind in per_queue]
    states = Family(
        "queue_partitions", "Partitions of the queue that are in this state", ("queue", "state")
    )
    for name, wanted, lag, oldest, blocked, held_back, position, takes, saved, *in_state in rows:
        nothing_waits = 0.0 if lag == 0 else None
        age = nothing_waits if oldest is None else max(oldest, 0.0)
        numbers = (wanted, lag, age, blocked or 0.0, held_back or 0.0, position, takes, saved)
        for family, number in zip(of_queue, numbers, strict=True):
            family.add(number, name)
        for state, count in zip(PartitionState, in_state, strict=True):
            states.add(count, name, state.value)
    yield from [*of_queue, states]


def _of_tallies(rows: Iterable[tuple[str, int, str, list[int], float]]) -> Iterator[Family]:
    """A queue where nothing ended has a 0 for APPLIED, so that its rate is 0 and not absent."""
    messages = Family("messages", "Tries that ended so, since the beginning", _ENDED, "counter")
    took = "From the time of a message in Kafka to the commit in which it was applied or delivered"
    latency = Family("message_latency_seconds", took, ("queue",), "histogram")
    took = "How long calls of an endpoint took"
    calls = Family("call_duration_seconds", took, ("endpoint",), "histogram")
    queues = dict(fetch_all(_NAMES))
    endpoints = dict(fetch_all(_ENDPOINT_NAMES))
    counted: set[str] = set()
    for kind, subject, ended, counts, total in sorted(rows):
        match kind:
            case Tally.Kind.ENDED if subject in queues:
                messages.add(counts[0], queues[subject], ended)
                counted.add(f"{queues[subject]}\n{ended}")
            case Tally.Kind.LATENCY if subject in queues:
                latency.spread(LATENCY_SECONDS, counts, total, queues[subject])
            case Tally.Kind.CALL if subject in endpoints:
                calls.spread(CALL_SECONDS, counts, total, endpoints[subject])
    for queue in queues.values():
        if f"{queue}\n{Ended.APPLIED}" not in counted:
            messages.add(0, queue, Ended.APPLIED.value)
    yield from [messages, latency, calls]


def _of_relays(rows: Sequence[Relaying]) -> Iterator[Family]:
    waiting = f"Outbox rows not sent yet, up to {PENDING_CAP:,}"
    age = "For how long the oldest due row waits"
    counted: tuple[tuple[str, str, str, Callable[[Relaying], float]], ...] = (
        ("relay_pending", waiting, "gauge", lambda row: row.pending + row.stamped),
        ("relay_age_seconds", age, "gauge", lambda row: max(row.oldest_due_seconds or 0.0, 0.0)),
        ("relay_dead", "Outbox rows that Kafka refused", "gauge", lambda row: row.dead),
        (
            "relay_in_doubt",
            "1 = a person must decide",
            "gauge",
            lambda row: row.in_doubt_seconds is not None,
        ),
        (
            "relay_in_doubt_seconds",
            "For how long a person has had to decide; 0 = nothing is in doubt",
            "gauge",
            lambda row: max(row.in_doubt_seconds or 0.0, 0.0),
        ),
        ("relay_held", "1 = a relay is at work", "gauge", lambda row: row.is_held),
        ("relay_takes", "How often a relay took the outbox", "counter", lambda row: row.takeovers),
    )
    for name, help_, kind, number in counted:
        family = Family(name, help_, ("provider",), kind)
        for row in rows:
            family.add(number(row), row.provider)
        yield family


def _of_endpoints(rows: Sequence[tuple[Any, ...]]) -> Iterator[Family]:
    settings = [(name, is_wanted) for name, is_wanted, _ in rows]
    down = [(name, max(seconds or 0.0, 0.0)) for name, _, seconds in rows]
    yield _family("endpoint_wanted", "1 = switched on and not paused", ("endpoint",), settings)
    why = "For how long it counts as down; 0 = it does not"
    yield _family("endpoint_down_seconds", why, ("endpoint",), down)
