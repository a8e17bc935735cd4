"""A test message on its way: sent, in Kafka, read, and what became of it, each with its time."""

from dataclasses import dataclass
from datetime import datetime, timedelta
from enum import StrEnum
from typing import Final
from uuid import UUID

from django.db.models import ExpressionWrapper, F
from django.db.models.fields import DurationField

from integration.durations import rough
from integration.models import ConfigurationChange, MessageError, OutboxRow, Queue
from integration.models.configuration_change import TEST_MESSAGE
from integration.policy.states import Ended, ErrorState, OutboxState
from integration.selectors.scope import Scope
from integration.selectors.tracking.rows import TrackRow, of_messages
from integration.store import key_order
from integration.store.sessions import database_now

# What is written in one moment may carry the time of the statement before.
ROUNDING: Final = timedelta(seconds=1)
LATE: Final = timedelta(seconds=10)
BEHIND: Final = "It arrived, and waits behind an earlier failure of its key."
PARKED: Final = (
    "It is tried by itself once the earlier failure is resolved or deleted. Load this page again "
    "then."
)


class Standing(StrEnum):
    """The standing of a step."""

    DONE = "done"
    NOW = "now"
    BEFORE = "before"
    FAILED = "failed"


@dataclass(frozen=True, slots=True)
class Step:
    """One step of the way; `after` is the time since sending, in words."""

    title: str
    standing: Standing
    text: str = ""
    at: datetime | None = None
    after: str = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class Journey:
    """The journey of the message that `sent` is the audit of.

    `verdict` is the sentence at its end, empty while it goes on. `ahead` is the failure that it
    waits behind.
    """

    sent: ConfigurationChange
    queue: Queue
    steps: tuple[Step, ...]
    verdict: str = ""
    works: bool = False
    failure: UUID | None = None
    ahead: UUID | None = None
    is_sent: bool = False
    is_late: bool = False

    @property
    def is_over(self) -> bool:
        return bool(self.verdict)


@dataclass(frozen=True, slots=True)
class _End:
    """The end: the last step, and the sentence if there is nothing more to come."""

    step: Step
    verdict: str = ""
    works: bool = False
    failure: UUID | None = None
    ahead: UUID | None = None


def journey(message_id: str, scope: Scope) -> Journey | None:
    """Look where it is, in bounded queries; None for what is no test message or not known."""
    age = ExpressionWrapper(database_now() - F("at"), output_field=DurationField())
    sent = (
        ConfigurationChange.objects.filter(
            scope.within("system"), kind=TEST_MESSAGE, subject=message_id
        )
        .annotate(age=age)
        .first()
    )
    if sent is None:
        return None
    facts = sent.after or {}
    queue = (
        Queue.objects.select_related("provider", "system", "default_service")
        .filter(pk=int(facts.get("queue_id", 0)))
        .first()
    )
    if queue is None:
        return None
    row = OutboxRow.objects.filter(pk=facts["outgoing_row"], message_id=message_id).first()
    first = Step("Written to the outbox", Standing.DONE, at=sent.at)
    end = _end(queue, sent, row)
    in_kafka = _in_kafka(row, sent.at, is_read=end is not None)
    steps = [first, in_kafka]
    if queue.direction == Queue.Direction.INBOUND:
        steps += _read(end, is_sent=in_kafka.standing is Standing.DONE)
    verdict, works = _verdict(queue, in_kafka, end)
    return Journey(
        sent=sent,
        queue=queue,
        steps=tuple(steps),
        verdict=verdict,
        works=works,
        failure=None if end is None else end.failure,
        ahead=None if end is None else end.ahead,
        is_sent=in_kafka.standing is Standing.DONE,
        is_late=not verdict and sent.age > LATE,
    )


def _in_kafka(row: OutboxRow | None, sent_at: datetime, *, is_read: bool) -> Step:
    title = "In Kafka"
    if row is None:
        return Step(title, Standing.DONE, "The outbox has been cleaned up since.")
    state = OutboxState(row.state)
    if state is OutboxState.PUBLISHED:
        at = row.published_at
        return Step(title, Standing.DONE, at=at, after=_after(at, sent_at))
    if is_read:
        return Step(title, Standing.DONE, "The relay has not noted it yet.")
    standing, text = {
        OutboxState.DEAD: (Standing.FAILED, f"Kafka refused it: {row.dead_text}"),
        OutboxState.CANCELLED: (Standing.FAILED, "A person gave it up in the outbox."),
        OutboxState.STAMPED: (Standing.NOW, "The relay is sending it."),
    }.get(state, (Standing.NOW, "It waits in the outbox for the relay."))
    return Step(title, standing, text)


def _read(end: _End | None, *, is_sent: bool) -> list[Step]:
    if end is not None:
        at, after = end.step.at, end.step.after
        return [Step("Read by the queue", Standing.DONE, at=at, after=after), end.step]
    if is_sent:
        waits = Step("Read by the queue", Standing.NOW, "It waits in the topic for its turn.")
        return [waits, Step("Outcome", Standing.BEFORE)]
    return [Step("Read by the queue", Standing.BEFORE), Step("Outcome", Standing.BEFORE)]


def _verdict(queue: Queue, in_kafka: Step, end: _End | None) -> tuple[str, bool]:
    if end is not None:
        return end.verdict, end.works
    if in_kafka.standing is Standing.FAILED:
        return f"It did not reach Kafka. {in_kafka.text}", False
    if queue.direction == Queue.Direction.OUTBOUND and in_kafka.standing is Standing.DONE:
        when = f" {in_kafka.after} after sending" if in_kafka.after else ""
        return f"It works: in Kafka{when}. What the partner does with it is not seen here.", True
    return "", False


def _end(queue: Queue, sent: ConfigurationChange, row: OutboxRow | None) -> _End | None:
    """The failure's row where there is one, else the tracking of its end."""
    if queue.direction == Queue.Direction.OUTBOUND:
        return None
    failed = MessageError.objects.filter(message_id=sent.subject, queue=queue)
    error = failed.order_by("-last_failed_at").first()
    if error is not None:
        return _of_failure(error, sent.at)
    if row is not None and row.state not in {OutboxState.PUBLISHED, OutboxState.STAMPED}:
        return None
    # Tracking lies by the day: what was tracked before the message was sent is not looked at.
    tracks = of_messages([sent.subject], queue.pk, sent.at - ROUNDING)
    return _of_track(tracks[0], sent.at) if tracks else None


def _of_track(track: TrackRow, sent_at: datetime) -> _End:
    after = _after(track.at, sent_at)
    ended, text = track.ended, ""
    works = ended == Ended.APPLIED
    word = WORDS.get(ended, ended.lower())
    if ended == Ended.SUPERSEDED:
        text = "Its key already has newer data, so nothing was written."
    step = Step(word.capitalize(), Standing.DONE, text, track.at, after)
    lead = "It works: " if works else "It arrived: "
    return _End(step, f"{lead}{word} {after} after sending. {text}".strip(), works or bool(text))


def _of_failure(error: MessageError, sent_at: datetime) -> _End:
    state = ErrorState(error.state)
    at = error.closed_at or error.last_failed_at
    after = _after(at, sent_at)
    why = f"{error.code}: {error.text}"
    match state:
        case ErrorState.RESOLVED:
            word = WORDS.get(error.ended, "resolved")
            step = Step(word.capitalize(), Standing.DONE, f"At first: {why}", at, after)
            return _End(step, f"It works: {word} {after} after sending.", True, error.pk)
        case ErrorState.HOLD:
            step = Step("Held", Standing.FAILED, why, at, after)
            return _End(step, f"It arrived, and is held {after} after sending.", False, error.pk)
        case ErrorState.DELETED:
            step = Step("Deleted", Standing.FAILED, "A person deleted it.", at, after)
            return _End(step, "It arrived, failed, and a person deleted it.", False, error.pk)
        case ErrorState.PARKED if ahead := key_order.ahead_of(error):
            step = Step("Parked", Standing.NOW, PARKED, at, after)
            return _End(step, BEHIND, failure=error.pk, ahead=ahead)
        case _:
            text = f"{why} It is tried again by itself."
            return _End(Step("Failed, goes on", Standing.NOW, text, at, after), failure=error.pk)


WORDS: Final = {
    Ended.APPLIED.value: "applied",
    Ended.SUPERSEDED.value: "superseded",
    Ended.DUPLICATE.value: "dropped as a repeat",
    Ended.PASSED.value: "passed: nothing to apply",
    Ended.HOLD.value: "held",
    Ended.RETRY.value: "failed, and tried again",
    Ended.PARKED.value: "parked behind an earlier message of its key",
}


def _after(at: datetime | None, sent_at: datetime) -> str:
    if at is None:
        return ""
    seconds = (at - sent_at).total_seconds()
    return rough(seconds) if seconds >= 0.1 else "less than 0.1 s"
