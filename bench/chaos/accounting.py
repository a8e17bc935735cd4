"""Accounts of the chaos run: what became of every message that Kafka has, once all is quiet."""

from collections import Counter
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass
from typing import Final

from bench.chaos.plan import KEYED, LINE
from bench.chaos.producing import Fate, Ledger
from bench.chaos.reading import Entry
from bench.rig import Rig

_REMEMBER: Final = """
INSERT INTO chaos_book SELECT * FROM unnest(
  %s::text[], %s::bigint[], %s::text[], %s::int[], %s::bigint[], %s::text[])
"""
# The fate of each message that is in Kafka. What waits is left over; it is not lost yet.
FATES: Final = """
SELECT b.queue, b.seq, b.key, b.partition, b."offset", count(DISTINCT f.id) AS effects,
  count(DISTINCT e.id) FILTER (WHERE e.state = 'DELETED') AS deleted,
  coalesce(bool_or(e.state NOT IN ('RESOLVED', 'DELETED') OR b."offset" >= p.next_offset), false)
    AS waits
FROM chaos_book b JOIN integration_queue q ON q.name = b.queue
LEFT JOIN integration_queuepartition p ON p.queue_id = q.id AND p.partition = b.partition
LEFT JOIN chaos_effect f ON f.queue = b.queue AND f.seq = b.seq
LEFT JOIN integration_messageerror e
  ON e.queue_id = q.id AND e.partition = b.partition AND e."offset" = b."offset"
GROUP BY b.queue, b.seq, b.key, b.partition, b."offset"
"""
LOST: Final = f"SELECT * FROM ({FATES}) fate WHERE deleted = 0 AND effects = 0 AND NOT waits"
DOUBLED: Final = f"SELECT * FROM ({FATES}) fate WHERE effects + deleted > 1"
# Aborted messages have no place in the book, and neither has anything that nobody sent.
STRANGERS: Final = """
SELECT f.* FROM chaos_effect f
WHERE NOT EXISTS (SELECT 1 FROM chaos_book b WHERE b.queue = f.queue AND b.seq = f.seq)
"""
# Within a key; on the line as a whole, too, but for what a person parked, and what followed it.
OUT_OF_ORDER: Final = f"""
SELECT * FROM (
  SELECT placed.*,
    max("offset") OVER (PARTITION BY queue, key ORDER BY id ROWS UNBOUNDED PRECEDING) AS of_key,
    max("offset") FILTER (WHERE NOT parked)
      OVER (PARTITION BY queue ORDER BY id ROWS UNBOUNDED PRECEDING) AS of_queue
  FROM (
    SELECT f.id, b.queue, b.seq, b.key, b."offset", EXISTS (
      SELECT 1 FROM integration_messageerror e JOIN integration_queue q ON q.id = e.queue_id
      WHERE q.name = b.queue AND e.partition = b.partition AND e."offset" = b."offset"
        AND e.parked_at IS NOT NULL) AS parked
    FROM chaos_effect f JOIN chaos_book b ON b.queue = f.queue AND b.seq = f.seq
    WHERE b.queue IN ('{LINE}', '{KEYED}')
  ) placed
) judged
WHERE "offset" < of_key OR (queue = '{LINE}' AND NOT parked AND "offset" < of_queue)
"""
# Once every process has ended, nothing of theirs is left.
LEFT: Final[Mapping[str, str]] = {
    "open failures": "SELECT count(*) FROM integration_messageerror "
    "WHERE state NOT IN ('RESOLVED', 'DELETED')",
    "outgoing rows": "SELECT count(*) FROM integration_outboxrow "
    "WHERE state NOT IN ('PUBLISHED', 'CANCELLED')",
    "messages not read": "SELECT count(*) FROM chaos_book b JOIN integration_queue q "
    "ON q.name = b.queue JOIN integration_queuepartition p "
    'ON p.queue_id = q.id AND p.partition = b.partition WHERE b."offset" >= p.next_offset',
    "leases": "SELECT count(*) FROM integration_partitionlease WHERE released_at IS NULL",
    "relays in doubt": "SELECT count(*) FROM integration_relaylease "
    "WHERE in_doubt_since IS NOT NULL OR batch IS NOT NULL",
    "calls in doubt": "SELECT count(*) FROM integration_delivery "
    "WHERE state IN ('SENDING', 'UNKNOWN')",
    "locks": "SELECT count(*) FROM pg_locks WHERE locktype = 'advisory' "
    "AND database = (SELECT oid FROM pg_database WHERE datname = current_database())",
    "sessions": "SELECT count(*) FROM pg_stat_activity "
    "WHERE datname = current_database() AND application_name LIKE 'sluice%%'",
}
# The others of these need no book.
WITHOUT_BOOK: Final = tuple(name for name in LEFT if name != "messages not read")
_ACTIONS: Final = "SELECT action, count(*) FROM integration_errorchange GROUP BY action"
_HELD: Final = "SELECT count(DISTINCT error_id) FROM integration_errorattempt WHERE ended = 'HOLD'"
_CODES: Final = """
SELECT code, count(*) FROM (
  SELECT code FROM integration_errorattempt UNION ALL
  SELECT code FROM integration_messageerror) told
WHERE code <> '' GROUP BY code
"""


@dataclass(frozen=True, slots=True)
class Account:
    """The sums of what came in."""

    sent: int
    lost: int
    doubled: int
    strangers: int
    out_of_order: int


def remember(rig: Rig, book: Sequence[Entry]) -> None:
    """Store what Kafka has."""
    fields = ("queue", "seq", "key", "partition", "offset", "publishes")
    rig.write(_REMEMBER, [[getattr(entry, name) for entry in book] for name in fields])
    rig.write('CREATE INDEX ON integration_messageerror (queue_id, partition, "offset")')


@dataclass(frozen=True, slots=True)
class Untrue:
    """A message that Kafka has `count` times, and what its sender was told, if anything.

    `found` is what lies at the place that it was told, committed or not.
    """

    queue: str
    seq: int
    fate: Fate | None
    count: int
    told: str
    found: str = ""


def untrue(ledger: Ledger, book: Sequence[Entry]) -> list[Untrue]:
    """What Kafka has otherwise than the senders were told: then it is not ours to judge."""
    fates, there = ledger.fates, Counter((entry.queue, entry.seq) for entry in book)
    right = {Fate.COMMITTED: {1}, Fate.ABORTED: {0}, Fate.UNSURE: {0, 1}, None: set[int]()}
    return [
        Untrue(*each, fate, there[each], ledger.told.get(each, ""))
        for each in sorted(fates.keys() | there.keys())
        if there[each] not in right[fate := fates.get(each)]
    ]


def account(rig: Rig) -> Account:
    return Account(
        sent=int(rig.value("SELECT count(*) FROM chaos_book")),
        lost=_count(rig, LOST),
        doubled=_count(rig, DOUBLED),
        strangers=_count(rig, STRANGERS),
        out_of_order=_count(rig, OUT_OF_ORDER),
    )


def _count(rig: Rig, sql: str) -> int:
    return int(rig.value(f"SELECT count(*) FROM ({sql}) rows"))


def left(
    rig: Rig, names: Collection[str] = tuple(LEFT), forced: Collection[str] = ()
) -> dict[str, int]:
    """What should be there no more, by what it is; `forced` are processes that did not end."""
    found = {name: int(rig.value(LEFT[name])) for name in names}
    found |= {f"{name} killed at its end": 1 for name in forced}
    return {name: count for name, count in found.items() if count}


def total(*names: str) -> str:
    """The SQL that counts all of these, of LEFT."""
    return "SELECT " + " + ".join(f"({LEFT[name]})" for name in names)


def actions(rig: Rig) -> dict[str, int]:
    """How often the person on duty did what, and how many messages were on hold."""
    return {**dict(rig.rows(_ACTIONS)), "held": int(rig.value(_HELD))}


def codes(rig: Rig) -> dict[str, int]:
    """How often which failure was noted."""
    return dict(rig.rows(_CODES))
