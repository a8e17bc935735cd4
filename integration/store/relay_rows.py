"""The SQL of the relay's Outbox port: every statement carries the epoch of its owner."""
# ruff: noqa: S608 - statements are put together from constants here; values are parameters

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, Final
from uuid import UUID

import psycopg

from integration.codec import decode_headers
from integration.delivery.relay import policy
from integration.delivery.relay.ports import OutgoingRow, RelayLostError
from integration.store import deployments

Session = psycopg.Connection[tuple[Any, ...]]

# Locking the lease row makes a change of owner wait for this statement: afterwards nothing of
# an earlier owner can appear that the new one has not seen.
OWN: Final = (
    "own AS (SELECT 1 FROM integration_relaylease WHERE id = %(lease)s AND epoch = %(epoch)s "
    "FOR SHARE)"
)
MINE: Final = "provider_id = %(provider)s AND shard = %(shard)s"
# A dead row of a strict queue holds back what follows it.
NOT_BLOCKED: Final = (
    "(strict_queue IS NULL OR strict_queue NOT IN (SELECT strict_queue FROM integration_outboxrow "
    "WHERE state = 'DEAD' AND strict_queue IS NOT NULL))"
)
PENDING_AT_ONCE: Final = f"{MINE} AND state = 'PENDING' AND not_before IS NULL AND {NOT_BLOCKED}"
# The time as a subquery, so that an index on it can be used. Only tickets have one; strict
# queues never do, so that skipping a locked row changes no order.
PENDING_LATER: Final = f"{MINE} AND state = 'PENDING' AND not_before <= (SELECT clock_timestamp())"
# The order of the index `outbox_due`, which is id order where there is no time. Ordered by id
# alone, a planner with old statistics would walk through everything that was ever published.
INDEX_ORDER: Final = "provider_id, shard, not_before, id"
HAS_DUE: Final = f"""
SELECT (SELECT id FROM integration_outboxrow
    WHERE {PENDING_AT_ONCE} ORDER BY {INDEX_ORDER} LIMIT 1) IS NOT NULL
  OR coalesce((SELECT min(not_before) FROM integration_outboxrow
    WHERE {MINE} AND state = 'PENDING' AND not_before IS NOT NULL) <= clock_timestamp(), false)
"""
SIZE: Final = "coalesce(octet_length(value), 0) + coalesce(octet_length(key), 0) + 100"
STAMP: Final = f"""
WITH {OWN},
at_once AS (
  SELECT id, {SIZE} AS size FROM integration_outboxrow
  WHERE {PENDING_AT_ONCE} ORDER BY {INDEX_ORDER} LIMIT %(rows)s),
later AS (
  SELECT id, {SIZE} AS size FROM integration_outboxrow
  WHERE {PENDING_LATER} ORDER BY {INDEX_ORDER} LIMIT %(rows)s FOR UPDATE SKIP LOCKED),
due AS (
  SELECT id, size FROM at_once UNION ALL SELECT id, size FROM later ORDER BY id LIMIT %(rows)s),
chosen AS (SELECT id, sum(size) OVER (ORDER BY id) - size AS before FROM due)
UPDATE integration_outboxrow o SET state = 'STAMPED', batch = %(batch)s
FROM chosen WHERE o.id = chosen.id AND chosen.before < %(bytes)s AND o.state = 'PENDING'
  AND EXISTS (SELECT 1 FROM own)
RETURNING o.id, o.topic, o.partition, o.key, o.value, o.headers
"""
STAMPED: Final = f"SELECT batch FROM integration_outboxrow WHERE {MINE} AND state = 'STAMPED'"
OF_BATCH: Final = f"{MINE} AND state = 'STAMPED' AND batch = %(batch)s"
# The lease remembers the batch as Kafka does: one that it does not know came from another state
# of this database.
MARK: Final = f"""
WITH own AS (
  UPDATE integration_relaylease SET watermark = %(batch)s::uuid::text
  WHERE id = %(lease)s AND epoch = %(epoch)s RETURNING 1)
UPDATE integration_outboxrow
SET state = 'PUBLISHED', published_at = clock_timestamp()
WHERE {OF_BATCH} AND EXISTS (SELECT 1 FROM own)
"""
UNSTAMP: Final = f"""
WITH {OWN} UPDATE integration_outboxrow SET state = 'PENDING', batch = NULL
WHERE {OF_BATCH} AND EXISTS (SELECT 1 FROM own)
"""
# A ticket that cannot be sent: the row of its failure carries the retry from now on.
BURY: Final = f"""
WITH {OWN}, dead AS (
  UPDATE integration_outboxrow SET state = 'DEAD', dead_code = %(code)s, dead_text = %(text)s
  WHERE {OF_BATCH} AND EXISTS (SELECT 1 FROM own) RETURNING id, kind, error, retry_no),
carried AS (
  UPDATE integration_messageerror m SET carrier = 'row' FROM dead
  WHERE dead.kind = 'TICKET' AND m.id = dead.error AND m.retry_no = dead.retry_no)
SELECT id FROM dead
"""
IN_DOUBT: Final = (
    f"SELECT in_doubt_since IS NOT NULL OR {deployments.holds_relay('l.provider_id', 'l.shard')} "
    "FROM integration_relaylease l WHERE id = %(lease)s AND epoch = %(epoch)s"
)
WATERMARK: Final = (
    "SELECT watermark FROM integration_relaylease WHERE id = %(lease)s AND epoch = %(epoch)s"
)
NOTE_WATERMARK: Final = (
    "UPDATE integration_relaylease SET watermark = %(text)s "
    "WHERE id = %(lease)s AND epoch = %(epoch)s"
)
WENT_BACK: Final = "watermark"
DOUBT: Final = """
UPDATE integration_relaylease SET in_doubt_text = %(text)s,
  in_doubt_since = coalesce(in_doubt_since, clock_timestamp())
WHERE id = %(lease)s AND epoch = %(epoch)s
"""


# Each statement here has an index of its own; a table read as a whole is never the better way.
BY_INDEX: Final = "SET enable_seqscan = off"


@dataclass(frozen=True, slots=True)
class Ownership:
    """What every write of the relay carries."""

    lease_id: int
    epoch: int
    provider_id: int
    shard: int


class RelayOutbox:
    """Implements integration.delivery.relay.ports.Outbox over a session of the relay's own."""

    def __init__(self, session: Session, ownership: Ownership) -> None:
        """Raises psycopg.Error."""
        self._session = session
        session.execute(BY_INDEX)
        self._mine = {
            "lease": ownership.lease_id,
            "epoch": ownership.epoch,
            "provider": ownership.provider_id,
            "shard": ownership.shard,
        }

    def has_due(self) -> bool:
        row = self._run(HAS_DUE).fetchone()
        return row is not None and bool(row[0])

    def stamp(self, batch: UUID, *, rows: int, size_bytes: int) -> list[OutgoingRow]:
        found = self._run(STAMP, batch=batch, rows=rows, bytes=size_bytes).fetchall()
        found.sort(key=_by_id)
        return [
            OutgoingRow(
                id_, topic, partition, key, value, decode_headers(headers) if headers else ()
            )
            for id_, topic, partition, key, value, headers in found
        ]

    def stamped(self) -> tuple[UUID, int] | None:
        found = self._run(STAMPED).fetchall()
        return (found[0][0], len(found)) if found else None

    def mark_published(self, batch: UUID, count: int) -> None:
        self._expect(self._run(MARK, batch=batch), count)

    def unstamp(self, batch: UUID, count: int) -> None:
        self._expect(self._run(UNSTAMP, batch=batch), count)

    def bury(self, batch: UUID, *, code: str, text: str) -> None:
        self._expect(self._run(BURY, batch=batch, code=code[:60], text=text), 1)

    def is_in_doubt(self) -> bool:
        row = self._run(IN_DOUBT).fetchone()
        if row is None:
            raise RelayLostError
        return bool(row[0])

    def watermark(self) -> str | None:
        row = self._run(WATERMARK).fetchone()
        if row is None:
            raise RelayLostError
        return None if row[0] is None else str(row[0])

    def note_watermark(self, text: str) -> None:
        self._expect(self._run(NOTE_WATERMARK, text=text), 1)

    def went_back(self) -> None:
        try:
            with self._session.cursor() as cursor:
                deployments.notice(cursor, WENT_BACK, policy.AHEAD_TEXT)
        except psycopg.Error as e:
            raise RelayLostError(str(e)) from e

    def doubt(self, text: str) -> None:
        self._expect(self._run(DOUBT, text=text), 1)

    def _run(self, sql: str, **values: object) -> psycopg.Cursor[tuple[Any, ...]]:
        try:
            return self._session.execute(sql, {**self._mine, **values})
        except psycopg.Error as e:
            raise RelayLostError(str(e)) from e

    @staticmethod
    def _expect(done: psycopg.Cursor[tuple[Any, ...]], count: int) -> None:
        if done.rowcount != count:
            raise RelayLostError


def _by_id(row: Sequence[Any]) -> int:
    number: int = row[0]
    return number
