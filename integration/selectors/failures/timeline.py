"""One story of a failed message: what the engine did and what people did, in the order of time."""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from datetime import datetime, timedelta
from typing import Final
from uuid import UUID

from integration.models import (
    ErrorAttempt,
    ErrorChange,
    MessageError,
    Operation,
    OperationItem,
    Queue,
)
from integration.policy.states import ErrorState
from integration.selectors.failures.payloads import row_of, sender_of
from integration.selectors.masking.covers import Cover
from integration.selectors.scope import Scope, visible_operations

ENGINE: Final = "the engine"
OF_OTHERS: Final = "Left alone by an operation that also has messages hidden from you"
SHOWN: Final = 200
# A batch commits within this time; it writes the tries after what they led to.
SAME_COMMIT: Final = timedelta(seconds=1)
ENDS: Final[Mapping[str, str]] = {
    ErrorState.RETRY: "it will be tried again",
    ErrorState.HOLD: "it was put on hold",
    ErrorState.PARKED: "it waits behind an earlier message of its key",
    ErrorState.RESOLVED: "it is done",
    "APPLIED": "it was applied",
    "SUPERSEDED": "its key already had newer data, nothing was written",
}
DONE: Final[Mapping[str, str]] = {
    "release": "Released",
    "hold": "Put on hold",
    "delete": "Deleted",
    "restore": "Restored",
    "edit": "Edited",
    "park": "Parked: the queue went on past it",
    "send back": "Sent back to the topic it came from",
    "give up": "Left to people: not sent back any more",
    "arrived": "Said to have arrived: not sent again",
    "replay": "Given back by a replay",
}


@dataclass(frozen=True, slots=True, kw_only=True)
class Event:
    """One thing that happened. `waited` is the time since the one before; None for the first.

    `detail` is material for those who may see payloads, and what a partner said where `is_answer`
    says so; `operation` is the bulk operation it was part of.
    """

    at: datetime
    title: str
    who: str
    code: str = ""
    text: str = ""
    detail: str = ""
    is_answer: bool = False
    tone: str = "secondary"
    sign: str = "·"
    operation: UUID | None = None
    waited: timedelta | None = None


def timeline(
    error: MessageError,
    tries: Sequence[ErrorAttempt],
    changes: Sequence[ErrorChange],
    cover: Cover,
    scope: Scope,
) -> list[Event]:
    """Everything known of one failure, oldest first, in one query more than its rows.

    In another one for people whom a scope limits. `cover` hides what headers and operations tell;
    `tries` are without hidden values already. A very long story keeps its newest events.
    """
    return in_order(events_of(error, tries, changes, cover, scope))


def events_of(
    error: MessageError,
    tries: Sequence[ErrorAttempt],
    changes: Sequence[ErrorChange],
    cover: Cover,
    scope: Scope,
) -> list[Event]:
    """List what is known of one failure, in no order."""
    is_sent = error.queue.direction == Queue.Direction.OUTBOUND
    return [
        *_received(error, cover),
        *(_tried(attempt, is_sent=is_sent) for attempt in tries),
        *map(decision, changes),
        *_operated(error, cover, scope),
        *_fate(error, tries, changes),
    ]


def in_order(events: Iterable[Event]) -> list[Event]:
    """The newest of these events, oldest first, each with the time since the one before."""
    by_time = sorted(events, key=lambda event: event.at)
    before: datetime | None = None
    story = []
    for event in by_time[-SHOWN:]:
        story.append(event if before is None else replace(event, waited=event.at - before))
        before = event.at
    return story


def _received(error: MessageError, cover: Cover) -> Iterable[Event]:
    row = row_of(error)
    if row is not None:
        title = f"Read from line {row.line} of {row.file}, and rejected"
        at = error.first_failed_at
        yield Event(at=at, title=title, who="a bulk run", tone="red", sign="✕")
    if error.kafka_timestamp is not None:
        sender, in_header = sender_of(error, cover)
        who = f"{sender} (according to its header)" if in_header else sender or "the sender"
        title = "Sent to the JMS broker" if error.queue.provider.is_jms else "Written to Kafka"
        yield Event(at=error.kafka_timestamp, title=title, who=who, sign="↓")


def _tried(attempt: ErrorAttempt, *, is_sent: bool) -> Event:
    failed = bool(attempt.code)
    ends = ENDS.get(attempt.ended, attempt.ended.capitalize())
    return Event(
        at=attempt.at,
        title=_title(attempt.number, ends, failed=failed),
        who=f"{ENGINE}{f' on {attempt.worker}' if attempt.worker else ''}",
        code=attempt.code,
        text=attempt.text,
        detail=attempt.detail,
        is_answer=is_sent,
        tone="red" if failed else "green",
        sign="✕" if failed else "✓",
    )


def _title(number: int, ends: str, *, failed: bool) -> str:
    """Nought is the number of a message that no handler was given."""
    if number == 0:
        return f"Could not be tried: {ends}" if failed else ends.capitalize()
    return f"Try {number}: {'failed, ' if failed else ''}{ends}"


def decision(change: ErrorChange) -> Event:
    """Tell what a person decided, whether its failure is still there or not."""
    title = DONE.get(change.action, change.action.capitalize())
    return Event(
        at=change.at,
        title=title,
        who=change.actor,
        text=change.reason,
        tone="azure",
        sign="●",
    )


def _operated(error: MessageError, cover: Cover, scope: Scope) -> Iterable[Event]:
    """Tell what an operation left alone: what it did is among the decisions already.

    Of one that also has messages of others no more is told than that.
    """
    items = OperationItem.objects.filter(error=error.pk, at__isnull=False, version_after=None)
    left = list(items.select_related("operation").order_by("-at")[:SHOWN])
    known = {item.operation_id for item in left}
    if known and not scope.is_whole:
        visible = Operation.objects.filter(visible_operations(scope), pk__in=known)
        known = set(visible.values_list("pk", flat=True))
    for item in left:
        if item.at is None:
            continue
        if item.operation_id not in known:
            yield Event(at=item.at, title=OF_OTHERS, who="somebody", text=cover.text(item.text))
            continue
        yield Event(
            at=item.at,
            title=f"Left alone by the operation “{item.operation.title}”",
            who=item.operation.actor,
            text=cover.text(item.text),
            operation=item.operation_id,
        )


def _fate(
    error: MessageError, tries: Sequence[ErrorAttempt], changes: Sequence[ErrorChange]
) -> Iterable[Event]:
    if error.copied_at is not None:
        at = _after(tries, error.copied_at)
        yield Event(at=at, title="Copied to the error queue", who=ENGINE, sign="→")
    if error.expired_at is not None:
        yield Event(at=error.expired_at, title="No longer in Kafka", who="Kafka", tone="orange")
    # What a person ended is there as their decision.
    closed = error.closed_at
    by_hand = closed is not None and any(
        change.to_state == ErrorState.RESOLVED and abs(change.at - closed) < SAME_COMMIT
        for change in changes
    )
    if error.state == ErrorState.RESOLVED and closed is not None and not by_hand:
        ended = error.ended.lower() or "resolved"
        at = _after(tries, closed)
        yield Event(at=at, title=f"Ended: {ended}", who=ENGINE, tone="green", sign="✓")


def _after(tries: Sequence[ErrorAttempt], at: datetime) -> datetime:
    """No earlier than the try of the same commit, whose tables are written in any order."""
    return max([at, *(attempt.at for attempt in tries if abs(attempt.at - at) < SAME_COMMIT)])
