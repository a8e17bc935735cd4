"""How far an operation of more messages is than a look may go through one by one.

What failed again and what waits is found by the indexes of failures; the operation counts by
itself what it has done. All else that was released is taken for resolved.
"""

from collections.abc import Sequence
from typing import Any, Final

from integration.models import Operation
from integration.store.sessions import fetch_all

# As many as the console lets one operation have; repairs make larger ones.
MOST_COUNTED: Final = 100_000
_OF_IT: Final = """
FROM integration_messageerror e JOIN integration_operationitem i ON i.error_id = e.id
WHERE e.queue_id = ANY(%s) AND i.operation_id = %s AND i.outcome = 'DONE'
"""
_FAILED: Final = (
    f"{_OF_IT} AND e.state IN ('HOLD', 'RETRY') AND e.last_failed_at > %s "
    "AND e.last_failed_at > i.at"
)
_WAITING: Final = f"SELECT count(*) {_OF_IT} AND e.state IN ('READY', 'PROCESSING')"
_CAUSES: Final = (
    f"SELECT e.code, e.fingerprint, min(e.text), count(*) {_FAILED} "
    "GROUP BY 1, 2 ORDER BY 4 DESC LIMIT %s"
)
# Its first seconds tell no pace: a chunk more or less would double it.
_PACE: Final = """
SELECT done / extract(epoch FROM clock_timestamp() - started_at)::float8
FROM integration_operation WHERE id = %s AND started_at < clock_timestamp() - interval '5 s'
"""


def is_large(operation: Operation) -> bool:
    return operation.total > MOST_COUNTED


def failed(operation: Operation) -> int:
    """How many that were done have failed again since."""
    [(count,)] = fetch_all(f"SELECT count(*) {_FAILED}", _asked(operation))
    return int(count)


def waiting(operation: Operation) -> int:
    """How many that were done have not been tried yet."""
    [(count,)] = fetch_all(_WAITING, [operation.queues, operation.pk])
    return int(count)


def failed_causes(operation: Operation, most: int) -> Sequence[tuple[Any, ...]]:
    """What those that failed again failed for: (code, fingerprint, a text, how many)."""
    return fetch_all(_CAUSES, [*_asked(operation), most])


def pace(operation: Operation) -> float | None:
    """Messages a second since it was started; None in its first seconds."""
    return next((float(rate) for (rate,) in fetch_all(_PACE, [operation.pk])), None)


def _asked(operation: Operation) -> list[object]:
    return [operation.queues, operation.pk, operation.started_at]
