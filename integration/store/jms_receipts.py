"""Receipts of messages from a JMS broker: what is applied here and maybe not yet accepted there."""

from collections.abc import Callable, Sequence
from typing import Any, Final

from integration.delivery.batch_result import BatchResult
from integration.store.sessions import execute, fetch_all, guarded

Run = Callable[[str, Any], Any]
# By offset; None for a message without an id, which cannot be known when it comes again.
ReceiptOf = Callable[[int], bytes | None]

_WRITE: Final = """
INSERT INTO integration_jmsreceipt (queue_id, message, received_at)
SELECT %s, unnest(%s::bytea[]), clock_timestamp()
ON CONFLICT (queue_id, message) DO NOTHING"""
# Whoever reads the same JMS queue by another selector: what is known there was once theirs, and may
# be sent to us since somebody has changed the selectors. A subscription has messages of its own.
_SIBLINGS: Final = """
SELECT q.id FROM integration_queue q JOIN integration_queue mine ON mine.id = %s
WHERE q.id = mine.id OR (mine.subscription = '' AND q.subscription = ''
    AND q.provider_id = mine.provider_id AND q.topic = mine.topic)"""
_KNOWN: Final = f"SELECT message FROM integration_jmsreceipt WHERE queue_id IN ({_SIBLINGS})"
_FORGET_OLD: Final = """
DELETE FROM integration_jmsreceipt
WHERE queue_id = %s AND received_at < clock_timestamp() - make_interval(hours => %s)
RETURNING message"""
# Longer than a broker keeps back what it is to send again.
OLD_HOURS: Final = 24
_FORGET: Final = f"""
DELETE FROM integration_jmsreceipt WHERE queue_id IN ({_SIBLINGS}) AND message = ANY(%s)"""

_IS_HELD: Final = """
SELECT 1 FROM integration_messageerror
WHERE queue_id = %s AND topic_uuid = %s AND partition = 0 AND "offset" = %s"""


def write(run: Run, queue_id: int, receipt_of: ReceiptOf, batch_result: BatchResult) -> None:
    """Write those of all messages that are known here with this commit, however they ended."""
    offsets = [track[0] for track in batch_result.tracks]
    offsets += [new.unit.record.offset for new in batch_result.new_errors]
    receipts = {receipt for at in offsets if (receipt := receipt_of(at)) is not None}
    if receipts:
        run(_WRITE, [queue_id, sorted(receipts)])


class DatabaseReceipts:
    """The receipts of one queue; see integration.amqp.source.Receipts. Raises LostError."""

    def __init__(self, queue_id: int) -> None:
        self._queue_id = queue_id

    def known(self) -> set[bytes]:
        with guarded():
            return {bytes(message) for (message,) in fetch_all(_KNOWN, [self._queue_id])}

    def is_held(self, topic_uuid: str, offset: int) -> bool:
        with guarded():
            return bool(fetch_all(_IS_HELD, [self._queue_id, topic_uuid, offset]))

    def forget_old(self) -> set[bytes]:
        with guarded():
            return {bytes(m) for (m,) in fetch_all(_FORGET_OLD, [self._queue_id, OLD_HOURS])}

    def forget(self, receipts: Sequence[bytes]) -> None:
        with guarded():
            execute(_FORGET, [self._queue_id, list(receipts)])
