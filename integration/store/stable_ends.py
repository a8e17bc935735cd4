"""The transaction that holds back the readers of a partition: somebody else has not ended it.

Consumers read to the last stable offset, where the first open transaction begins. That this end
lies before the log's is nothing unusual; that it does not move is. So it is noted on a partition
that runs as a code beside its state, which no state the engine writes leaves standing.
"""

from typing import Any, Final

from integration.store.partition_state import not_held

TRANSACTION_OPEN: Final = "TRANSACTION_OPEN"
TRANSACTION_HANGS: Final = "TRANSACTION_HANGS"
CODES: Final = frozenset({TRANSACTION_OPEN, TRANSACTION_HANGS})
# The position stands at the stable end: what was noted before it moved on counts no more.
_STANDS_THERE: Final = "p.state = 'RUNNING' AND p.next_offset = p.high_watermark"
IS_HELD_BACK: Final = f"({_STANDS_THERE} AND p.state_code = '{TRANSACTION_HANGS}')"
# The same of one that may still be ended in time.
IS_BEFORE_OPEN: Final = (
    f"({_STANDS_THERE} AND p.state_code IN ('{TRANSACTION_OPEN}', '{TRANSACTION_HANGS}'))"
)
# The end that is stored is still that of the look before.
_STANDS: Final = "(state_code <> '' AND high_watermark = %(stable)s)"
# From when on it counts: nobody saw it before.
_SINCE: Final = f"CASE WHEN {_STANDS} THEN state_since ELSE clock_timestamp() END"
_MINUTE: Final = "'FMDD FMMonth HH24:MI \"UTC\"'"
# Brokers look for transactions that are over every ten seconds, and no seconds are told.
_LAST: Final = f"({_SINCE} + make_interval(secs => %(longest)s::float8 + 60))"
_TOLD: Final = f"""
    %(text)s
    || to_char({_SINCE} AT TIME ZONE 'UTC', '"; open since "' || {_MINUTE} || '" or longer"')
    || CASE WHEN %(longest)s::float8 IS NULL THEN ''
       WHEN {_LAST} < clock_timestamp() THEN
           '. The brokers let no transaction last so long: this one does not end by itself'
       ELSE to_char({_LAST} AT TIME ZONE 'UTC',
           '". The brokers end it by "' || {_MINUTE} || '" at the latest"') END"""


def _free(more: str) -> str:
    """SQL: the partition's id, unless it has another state or a transaction holds its row."""
    return not_held(
        "queue_id = %(queue)s AND partition = %(partition)s AND topic_uuid = %(topic_uuid)s "
        f"AND state = 'RUNNING' AND state_code IN ({more}'{TRANSACTION_OPEN}', "
        f"'{TRANSACTION_HANGS}')"
    )


_NOTE: Final = f"""
    UPDATE integration_queuepartition SET
        state_since = {_SINCE},
        state_code = CASE
            WHEN {_STANDS}
             AND state_since <= clock_timestamp() - make_interval(secs => %(limit)s)
            THEN '{TRANSACTION_HANGS}' ELSE '{TRANSACTION_OPEN}' END,
        state_text = {_TOLD}
    WHERE id IN ({_free("'', ")})
    RETURNING state_code"""
_FORGET: Final = f"""
    UPDATE integration_queuepartition
    SET state_code = '', state_text = '', state_since = clock_timestamp()
    WHERE id IN ({_free("")})"""


def note(
    cursor: Any,
    place: tuple[int, int, str],
    ends: tuple[int, int],
    limit_seconds: float,
    longest_seconds: float | None = None,
) -> bool:
    """Note how far the stable end lies before the log's; before the new ends are stored.

    `place` is the queue's key, the partition and the topic's UUID; `ends` are the stable one and
    the log's; `longest_seconds` is how long
    the brokers let a transaction last, None = not known. True when it hangs by now.
    """
    (queue, partition, topic_uuid), (stable, end) = place, ends
    values = {
        "queue": queue,
        "partition": partition,
        "topic_uuid": topic_uuid,
        "stable": stable,
        "limit": limit_seconds,
        "longest": longest_seconds,
        "text": text(partition, stable, end),
    }
    if end <= stable:
        cursor.execute(_FORGET, values)
        return False
    cursor.execute(_NOTE, values)
    row = cursor.fetchone()
    return row is not None and row[0] == TRANSACTION_HANGS


def text(partition: int, stable: int, end: int) -> str:
    """Say where it begins and what it keeps; the markers of transactions have offsets, too."""
    count = end - stable
    subject = "One record lies" if count == 1 else f"Up to {count:,} records lie"
    return f"{subject} at or behind offset {stable} of partition {partition}"
