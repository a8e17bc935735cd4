"""Stops of partitions in SQL: read, kept by every commit, and the pause once all are reached.

A stop is `stop_at` on the partition's row. People set it with the row locked, and a commit updates
the same row: so either the commit is there first, and the person is told, or it keeps the stop.
"""

from collections.abc import Sequence
from typing import Any, Final

from django.db import transaction

from integration.delivery.owned import Owned
from integration.store.sessions import alias, execute, fetch_all

DRAIN: Final = "drain"
# Over the partition's row as it was; the parameter is the position that a commit would take it to.
KEEPS_STOP: Final = "(stop_at IS NULL OR %s <= greatest(stop_at, next_offset))"
# Over a partition `p`: it stands where a person wants it to stop, and nothing there is overdue.
IS_AT_STOP: Final = "coalesce(p.next_offset >= p.stop_at, false)"
READ: Final = """
SELECT p.id, p.stop_at FROM integration_queuepartition p
JOIN unnest(%s::bigint[], %s::bigint[], %s::bigint[]) v (id, epoch, at)
  ON p.id = v.id AND p.epoch = v.epoch AND p.next_offset = v.at
"""
# People change stops with the queue's row locked: what is read behind this is what they left.
_LOCK: Final = "SELECT 1 FROM integration_queue WHERE id = %s FOR NO KEY UPDATE"
_PLACES_TOLD: Final = 20
PAUSE: Final = f"""
WITH stops AS (
  SELECT p.partition, p.next_offset, p.stop_at, p.stop_request,
    row_number() OVER (ORDER BY p.partition) AS place
  FROM integration_queuepartition p WHERE p.queue_id = %(queue)s AND p.stop_at IS NOT NULL
), asked AS (
  SELECT c.actor, c.action, c.reason FROM integration_queuechange c
  WHERE c.id = (SELECT max(stop_request) FROM stops)
), words AS (
  SELECT coalesce((SELECT actor FROM asked), 'sluice') AS actor,
    coalesce((SELECT reason FROM asked), '') AS reason,
    CASE (SELECT action FROM asked) WHEN '{DRAIN}' THEN 'drained' ELSE 'stopped at its offset' END
      AS ending
), paused AS (
  UPDATE integration_queue q SET paused = true, paused_until = NULL,
    pause_reason = left(words.ending || ', as ' || words.actor || ' asked'
      || CASE words.reason WHEN '' THEN '' ELSE ': ' || words.reason END, 200)
  FROM words
  WHERE q.id = %(queue)s AND NOT q.paused AND EXISTS (SELECT 1 FROM stops)
    AND NOT EXISTS (SELECT 1 FROM stops WHERE next_offset < stop_at)
    AND EXISTS (SELECT 1 FROM integration_queuepartition p
      WHERE p.id = %(id)s AND p.epoch = %(epoch)s)
  RETURNING q.id, q.name
)
INSERT INTO integration_queuechange (queue_id, name, partition, at, actor, action, reason, effect)
SELECT paused.id, paused.name, NULL, clock_timestamp(), words.actor, 'pause', words.reason,
  'Every partition that was told to stop has come to its stop: '
  || (SELECT string_agg('partition ' || s.partition || ' at ' || s.next_offset, ', '
        ORDER BY s.partition) FROM stops s WHERE s.place <= {_PLACES_TOLD})
  || CASE WHEN (SELECT count(*) FROM stops) > {_PLACES_TOLD} THEN ', and the others.' ELSE '.' END
FROM paused, words
"""


def read(rows: Sequence[tuple[Any, ...]], held: Sequence[Owned]) -> frozenset[int]:
    """Note in `held` what READ found; the ids that are as they were left."""
    stops = dict(rows)
    for owned in held:
        if owned.id in stops:
            owned.stop_at = stops[owned.id]
    return frozenset(stops)


def parameters_of(held: Sequence[Owned]) -> list[list[int]]:
    """The parameters of READ."""
    columns = [(owned.id, owned.epoch, owned.next_offset) for owned in held]
    return [list(column) for column in zip(*columns, strict=True)]


def pause(queue_id: int, owned: Owned) -> bool:
    """Pause the queue if every stop is reached. Raises DatabaseError."""
    with transaction.atomic(using=alias()):
        fetch_all(_LOCK, [queue_id])
        values = {"queue": queue_id, "id": owned.id, "epoch": owned.epoch}
        return execute(PAUSE, values) == 1
