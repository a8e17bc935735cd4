"""What became of a posted message, as its sender may know it: never a payload."""

from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import Final

from integration.http_api.accepting import message_ids
from integration.http_api.problems import NoSuchMessageError
from integration.http_api.receipts import Stored, of_message
from integration.models import MessageError, OutboxRow
from integration.policy.states import Ended, ErrorState, OutboxState
from integration.selectors.tracking.rows import of_messages

# Of a post with more messages only the counts are told.
MOST_LISTED: Final = 100
# How each state of a failure is told; a resolved one is told by what it ended in.
_FAILED: Final = {
    ErrorState.RETRY: "waiting_for_retry",
    ErrorState.HOLD: "held",
    ErrorState.READY: "released",
    ErrorState.PROCESSING: "released",
    ErrorState.DELETED: "deleted",
}
_QUEUED: Final = {
    OutboxState.PENDING: "accepted",
    OutboxState.STAMPED: "accepted",
    OutboxState.PUBLISHED: "in_kafka",
    OutboxState.DEAD: "held",
    OutboxState.CANCELLED: "deleted",
}
STATES: Final = (
    "accepted",
    "in_kafka",
    "applied",
    "superseded",
    "duplicate",
    "waiting_for_retry",
    "held",
    "released",
    "deleted",
    "expired",
)
_ENDS: Final = {
    Ended.APPLIED: "applied",
    Ended.SUPERSEDED: "superseded",
    Ended.DUPLICATE: "duplicate",
    Ended.DELETED: "deleted",
    Ended.EXPIRED: "expired",
}


@dataclass(frozen=True, slots=True)
class Fate:
    """Where one message is: `at` since when, `code` and `text` why it is not through."""

    message_id: str
    state: str
    at: datetime | None
    code: str = ""
    text: str = ""
    attempts: int = 0

    def facts(self) -> dict[str, object]:
        """As the sender is told; what is empty is left out."""
        found: dict[str, object] = {"message_id": self.message_id, "state": self.state}
        if self.at is not None:
            found["since"] = self.at.isoformat()
        if self.code:
            found |= {"code": self.code, "detail": self.text}
        if self.attempts:
            found["attempts"] = self.attempts
        return found


def fate_of(system_id: int, id_: str) -> Mapping[str, object]:
    """What became of a post or one of its messages, by its message id or the sender's own.

    Raises NoSuchMessageError, also for messages of other systems.
    """
    receipt, ids = _found(system_id, id_)
    fates = _fates(receipt, ids)
    told: dict[str, object] = {
        "message_id": receipt.message_id,
        "service": receipt.interface,
        "received_at": receipt.received_at.isoformat(),
    }
    if receipt.sender_id is not None:
        told["sender_id"] = receipt.sender_id
    if len(ids) == 1:
        return {**told, **fates[0].facts()}
    told["count"] = len(ids)
    told["states"] = dict(Counter(fate.state for fate in fates))
    if len(ids) <= MOST_LISTED:
        told["messages"] = [fate.facts() for fate in fates]
    return told


def _found(system_id: int, id_: str) -> tuple[Stored, Sequence[str]]:
    receipt = of_message(system_id, id_)
    if receipt is not None:
        return receipt, message_ids(receipt.message_id, receipt.count)
    post, point, _place = id_.rpartition(".")
    receipt = of_message(system_id, post) if point else None
    if receipt is not None and id_ in message_ids(receipt.message_id, receipt.count):
        return receipt, [id_]
    raise NoSuchMessageError


def _fates(receipt: Stored, ids: Sequence[str]) -> list[Fate]:
    """From the latest to the earliest that is known: failure, track, outgoing row."""
    if receipt.queue_id is None:
        said = str(receipt.answer.get("state"))
        ended = said if said in STATES else "applied"
        return [Fate(id_, ended, receipt.received_at) for id_ in ids]
    found = _failures(receipt, ids)
    found |= _tracks(receipt, [id_ for id_ in ids if id_ not in found])
    found |= _rows(receipt, [id_ for id_ in ids if id_ not in found])
    # Its row is cleaned up only once it is in Kafka.
    return [found.get(id_) or Fate(id_, "in_kafka", None) for id_ in ids]


def _failures(receipt: Stored, ids: Sequence[str]) -> dict[str, Fate]:
    rows = MessageError.objects.filter(queue_id=receipt.queue_id or 0, message_id__in=list(ids))
    return {row.message_id: _failed(row) for row in rows.order_by("first_failed_at")}


def _failed(row: MessageError) -> Fate:
    state = ErrorState(row.state)
    if state is ErrorState.RESOLVED:
        ended = _ENDS.get(Ended(row.ended), "applied") if row.ended else "applied"
        return Fate(row.message_id, ended, row.closed_at, attempts=row.attempts)
    if state is ErrorState.DELETED:
        return Fate(row.message_id, "deleted", row.closed_at, attempts=row.attempts)
    told = (row.code, row.text) if state in {ErrorState.RETRY, ErrorState.HOLD} else ("", "")
    return Fate(row.message_id, _FAILED[state], row.last_failed_at, *told, row.attempts)


def _tracks(receipt: Stored, ids: Sequence[str]) -> dict[str, Fate]:
    known = {ended.value: told for ended, told in _ENDS.items()}
    found = of_messages(ids, receipt.queue_id or 0, receipt.received_at, known) if ids else []
    return {row.message_id: Fate(row.message_id, known[row.ended], row.at) for row in found}


def _rows(receipt: Stored, ids: Sequence[str]) -> dict[str, Fate]:
    rows = OutboxRow.objects.filter(
        id__range=(receipt.first_row, receipt.last_row), message_id__in=list(ids)
    )
    return {row.message_id: _outgoing(row) for row in rows} if ids else {}


def _outgoing(row: OutboxRow) -> Fate:
    state = OutboxState(row.state)
    at = row.published_at or row.created_at
    if state is OutboxState.DEAD:
        return Fate(row.message_id, "held", at, row.dead_code, row.dead_text)
    return Fate(row.message_id, _QUEUED[state], at)
