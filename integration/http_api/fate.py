"""The fate of a posted message, as its sender may know it: never a payload."""

from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from datetime import datetime
from typing import Final

from integration.http_api.accepting import message_ids
from integration.http_api.errors import NoSuchMessageError
from integration.http_api.receipts import of_message
from integration.models import MessageError, OutboxRow, Receipt
from integration.policy.states import Ended, ErrorState, OutboxState
from integration.selectors.tracking.rows import of_messages
from integration.store.track_days import first_day

# Of a post with more messages only the counts are shown.
MOST_LISTED: Final = 100
# The word that a sender reads for each state of a failure; for a resolved one, its ending.
_FAILED: Final = {
    ErrorState.RETRY: "waiting_for_retry",
    ErrorState.HOLD: "held",
    ErrorState.READY: "released",
    ErrorState.PARKED: "parked",
    ErrorState.PROCESSING: "released",
    ErrorState.DELETED: "deleted",
}
_EXPLAINED: Final = {ErrorState.RETRY, ErrorState.HOLD, ErrorState.PARKED}
_QUEUED: Final = {
    OutboxState.PENDING: "accepted",
    OutboxState.STAMPED: "accepted",
    OutboxState.PUBLISHED: "in_kafka",
    OutboxState.DEAD: "held",
    OutboxState.CANCELLED: "deleted",
}
# Of what a post has published, the message that is least far tells.
_LEAST_FAR: Final = ("held", "accepted", "in_kafka", "deleted")
STATES: Final = (
    "accepted",
    "in_kafka",
    "applied",
    "superseded",
    "duplicate",
    "waiting_for_retry",
    "held",
    "released",
    "parked",
    "deleted",
    "expired",
    "no_longer_tracked",
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
    """The state of one message: `at` since when, `code` and `text` why it is not through."""

    message_id: str
    state: str
    at: datetime | None
    code: str = ""
    text: str = ""
    attempts: int = 0

    def facts(self) -> dict[str, object]:
        """Return it as the sender gets it; what is empty is left out."""
        facts: dict[str, object] = {"message_id": self.message_id, "state": self.state}
        if self.at is not None:
            facts["since"] = self.at.isoformat()
        if self.code:
            facts |= {"code": self.code, "detail": self.text}
        if self.attempts:
            facts["attempts"] = self.attempts
        return facts


def fate_of(system_id: int, id_: str, services: frozenset[str]) -> Mapping[str, object]:
    """Tell what became of a post or one of its messages, by its message id or the sender's own.

    `services` are those that the asker is limited to; none: all. Raises NoSuchMessageError, also
    for messages of other systems and services.
    """
    receipt, ids = _receipt(system_id, id_)
    if services and receipt.interface not in services:
        raise NoSuchMessageError
    fates = _fates(receipt, ids)
    facts: dict[str, object] = {
        "message_id": receipt.message_id,
        "service": receipt.interface,
        "received_at": receipt.received_at.isoformat(),
    }
    if receipt.sender_id is not None:
        facts["sender_id"] = receipt.sender_id
    if len(ids) == 1:
        return {**facts, **fates[0].facts()}
    facts |= {"count": len(ids), "states": dict(Counter(fate.state for fate in fates))}
    if len(ids) <= MOST_LISTED:
        facts["messages"] = [fate.facts() for fate in fates]
    return facts


def _receipt(system_id: int, id_: str) -> tuple[Receipt, Sequence[str]]:
    receipt = of_message(system_id, id_)
    if receipt is not None:
        return receipt, message_ids(receipt.message_id, receipt.count)
    post, point, _place = id_.rpartition(".")
    receipt = of_message(system_id, post) if point else None
    if receipt is not None and id_ in message_ids(receipt.message_id, receipt.count):
        return receipt, [id_]
    raise NoSuchMessageError


def _fates(receipt: Receipt, ids: Sequence[str]) -> list[Fate]:
    """Look from the latest to the earliest that is known: failure, track, outgoing row."""
    if receipt.queue_id is None and receipt.first_row is not None:
        return [_published(receipt)]
    if receipt.queue_id is None:
        state = str(receipt.answer.get("state"))
        ended = state if state in STATES else "applied"
        return [Fate(id_, ended, receipt.received_at) for id_ in ids]
    fates: dict[str, Fate] = {}
    for look in (_failures, _tracks, _rows):
        if rest := [id_ for id_ in ids if id_ not in fates]:
            fates |= look(receipt, rest)
    if all(id_ in fates for id_ in ids):
        return [fates[id_] for id_ in ids]
    # Its row is cleaned up only once it is in Kafka.
    unknown = "no_longer_tracked" if _is_forgotten(receipt) else "in_kafka"
    return [fates.get(id_) or Fate(id_, unknown, None) for id_ in ids]


def _is_forgotten(receipt: Receipt) -> bool:
    """Return whether the day of its acceptance is not tracked any more: its key may live longer."""
    first = first_day()
    return first is not None and receipt.received_at < first


def _failures(receipt: Receipt, ids: Sequence[str]) -> dict[str, Fate]:
    rows = MessageError.objects.filter(queue_id=receipt.queue_id or 0, message_id__in=ids)
    return {row.message_id: _failed(row) for row in rows.order_by("first_failed_at")}


def _failed(row: MessageError) -> Fate:
    state = ErrorState(row.state)
    if state is ErrorState.RESOLVED:
        ended = _ENDS.get(Ended(row.ended), "applied") if row.ended else "applied"
        return Fate(row.message_id, ended, row.closed_at, attempts=row.attempts)
    if state is ErrorState.DELETED:
        return Fate(row.message_id, "deleted", row.closed_at, attempts=row.attempts)
    why = (row.code, row.text) if state in _EXPLAINED else ("", "")
    return Fate(row.message_id, _FAILED[state], row.last_failed_at, *why, row.attempts)


def _tracks(receipt: Receipt, ids: Sequence[str]) -> dict[str, Fate]:
    rows = of_messages(ids, receipt.queue_id or 0, receipt.received_at, _ENDS)
    return {row.message_id: Fate(row.message_id, _ENDS[Ended(row.ended)], row.at) for row in rows}


def _published(receipt: Receipt) -> Fate:
    """The fate of a post to a channel; what its targets do with it is not told to its sender."""
    ids = list(receipt.answer["messages"].values())
    known = _rows(receipt, ids)
    # Rows are cleaned up only once they are in Kafka, unless people gave the message up: those stay
    # as long as its key.
    fates = [known.get(id_) or Fate("", "in_kafka", None) for id_ in ids]
    furthest_behind = min(fates, key=lambda fate: _LEAST_FAR.index(fate.state))
    return replace(furthest_behind, message_id=receipt.message_id)


def _rows(receipt: Receipt, ids: Sequence[str]) -> dict[str, Fate]:
    rows = OutboxRow.objects.filter(
        id__range=(receipt.first_row, receipt.last_row), message_id__in=ids
    )
    return {row.message_id: _outgoing(row) for row in rows}


def _outgoing(row: OutboxRow) -> Fate:
    state = OutboxState(row.state)
    at = row.published_at or row.created_at
    if state is OutboxState.DEAD:
        return Fate(row.message_id, "held", at, row.dead_code, row.dead_text)
    return Fate(row.message_id, _QUEUED[state], at)
