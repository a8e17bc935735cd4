"""Queues that were paused until a time go on by themselves, with their line of history."""

from typing import Final

from crontasks.cursor import Cursor

ACTOR: Final = "sluice"
_RESUME: Final = """
WITH over AS (
    UPDATE integration_queue SET paused = false, pause_reason = '', paused_until = NULL
    WHERE paused AND paused_until <= clock_timestamp() RETURNING id, name
)
INSERT INTO integration_queuechange (queue_id, name, partition, at, actor, action, reason, effect)
SELECT id, name, NULL, clock_timestamp(), %s, 'resume', '', 'The time of the pause was over.'
FROM over
"""


def end_those_over(cursor: Cursor) -> int:
    """Resume every queue whose pause is over by the database's clock; returns how many."""
    cursor.execute(_RESUME, (ACTOR,))
    return int(cursor.rowcount)
