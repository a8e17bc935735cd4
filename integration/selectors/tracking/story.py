"""One message from beginning to end: every track, failure, call and decision that names it."""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from datetime import timedelta
from typing import Final
from uuid import UUID

from django.db.models import Q

from integration.models import (
    ConfigurationChange,
    Delivery,
    ErrorAttempt,
    ErrorChange,
    ExternalSystem,
    MessageError,
    Queue,
    Receipt,
)
from integration.models.configuration_change import TEST_MESSAGE
from integration.policy.states import DeliveryState, Ended, ErrorState
from integration.selectors.failures.decisions import in_own_words
from integration.selectors.failures.timeline import (
    ENDS,
    ENGINE,
    Event,
    decision,
    events_of,
    in_order,
)
from integration.selectors.masking.calls import cover_calls
from integration.selectors.masking.covers import UNCOVERED, Cover, covers_of
from integration.selectors.masking.rules import Masks, masks
from integration.selectors.scope import Scope
from integration.selectors.traces import trace_of
from integration.selectors.tracking.outgoing import Outgoing, outgoing
from integration.selectors.tracking.rows import (
    Queues,
    TrackRow,
    by_index,
    latest,
    queues_of,
)

# Of a message that went round and round the newest are shown.
MOST: Final = 100
RELATED: Final = 20
# A try and its track are one commit, of whose tables each may have its own moment.
SAME: Final = timedelta(seconds=1)
ENDED_AS: Final = {
    **ENDS,
    Ended.DELIVERED: "its endpoint took it",
    Ended.DUPLICATE: "it was dropped: the same id with the same content was there before",
    Ended.PARKED: "it was parked behind an earlier message of its key",
    Ended.STALE: "it was a retry marker whose retry was no longer due",
    Ended.PASSED: "it passed: there was nothing to apply",
    Ended.DELETED: "it was passed over, because a person had deleted it",
    Ended.RETURNED: "it was sent back to the topic it came from",
    Ended.EXPIRED: "it was no longer in Kafka",
}
GOOD: Final = frozenset(
    {Ended.APPLIED, Ended.DELIVERED, Ended.SUPERSEDED, Ended.DUPLICATE, Ended.RETURNED}
)


@dataclass(frozen=True, slots=True, kw_only=True)
class Story:
    """Everything known of one message. `tracks` are newest first; `failures` too.

    `readable` are all queues that this person may know of.
    """

    message_id: str
    events: tuple[Event, ...]
    tracks: tuple[TrackRow, ...]
    failures: tuple[MessageError, ...]
    outgoing: tuple[Outgoing, ...]
    calls: tuple[Delivery, ...]
    readable: Queues

    @property
    def last(self) -> TrackRow | None:
        return self.tracks[0] if self.tracks else None

    @property
    def failure(self) -> MessageError | None:
        """The failure to look at: the newest."""
        return self.failures[0] if self.failures else None

    @property
    def caused_by(self) -> str:
        named = (track.caused_by for track in self.tracks)
        return next(filter(None, [*named, *(row.caused_by for row in self.outgoing)]), "")

    @property
    def trace_id(self) -> str:
        """The trace that it belongs to, as its newest try knows it; else its failure."""
        named = (track.trace_id for track in self.tracks)
        return next(filter(None, [*named, *map(trace_of, self.failures)]), "")

    @property
    def interface(self) -> str:
        named = [*(track.interface for track in self.tracks), *(e.interface for e in self.failures)]
        sent = [*(row.interface for row in self.outgoing), *(c.interface for c in self.calls)]
        return next(filter(None, [*named, *sent]), "")

    @property
    def stands(self) -> str:
        """The sentence on where it is, as long as no try of it has ended; else nothing."""
        if self.tracks or self.failures:
            return ""
        if any(call.state == DeliveryState.SENDING for call in self.calls):
            return "It is being sent to its endpoint."
        return self.outgoing[-1].stands if self.outgoing and not self.calls else ""

    @property
    def queues(self) -> tuple[str, ...]:
        """The queues of the topic that it was published to."""
        return self.outgoing[-1].queues if self.outgoing else ()


def story(message_id: str, scope: Scope) -> Story | None:
    """Tell what became of it; None when nothing is known that this person may know."""
    queues = queues_of(scope)
    tracks = _tracks(message_id, queues)
    failures = _failures(message_id, scope)
    receipts = _receipts(message_id, scope)
    tests = _tests(message_id, scope)
    sent = outgoing(message_id, queues, receipts, tests)
    calls = _calls(message_id, queues)
    decided = _decided(message_id, failures, scope)
    if not (tracks or failures or receipts or tests or sent or calls or decided):
        return None
    tried = list(ErrorAttempt.objects.filter(error__in=failures).order_by("at")[:MOST])
    covers = _cover(failures, tried, calls)
    events = [
        *map(_posted, receipts),
        *map(_tested, tests),
        *_sent(sent, is_posted=bool(receipts or tests)),
        *_written(tracks, failures),
        *(
            event
            for error in failures
            for event in _failed(error, tried, decided, covers.get(error.pk, UNCOVERED), scope)
        ),
        *(decision(change) for change in decided if change.error_id is None),
        *(_ended(track) for track in tracks if not _is_listed(track, failures, [*tried, *decided])),
        *map(_called, calls),
    ]
    return Story(
        message_id=message_id,
        events=tuple(in_order(events)),
        tracks=tuple(tracks),
        failures=tuple(failures),
        outgoing=tuple(sent),
        calls=tuple(calls),
        readable=queues,
    )


def posted_as(sender_id: str, scope: Scope) -> Story | None:
    """The story of the newest post that its sender gave this id; None where there is none."""
    # The index of receipts begins with their system.
    systems = ExternalSystem.objects.filter(scope.within("pk")).values_list("pk", flat=True)
    receipts = Receipt.objects.filter(system__in=list(systems), sender_id=sender_id)
    newest = receipts.order_by("-received_at").values_list("message_id", flat=True).first()
    return None if newest is None else story(newest, scope)


def _tracks(message_id: str, queues: Queues) -> list[TrackRow]:
    """Read tracks of all days: a message may wait for weeks until a person mends it."""
    condition = "t.message_id = %(id)s AND t.at < %(until)s"
    tracks = by_index([condition], {"id": message_id, "until": latest()}, queues)
    return tracks[::-1][:MOST]


def _failures(message_id: str, scope: Scope) -> list[MessageError]:
    known = MessageError.objects.filter(scope.within("queue__system"), message_id=message_id)
    # Its events tell of its headers.
    rows = known.select_related("queue__provider").defer("payload", "edited_payload")
    return list(rows.order_by("-last_failed_at")[:RELATED])


def _cover(
    failures: Sequence[MessageError], tried: Sequence[ErrorAttempt], calls: Sequence[Delivery]
) -> Mapping[UUID, Cover]:
    """Hide what is masked in the texts of rows that are only shown; covers are asked for once.

    Returns those of the failures of which anything is hidden.
    """
    rules = masks() if failures or calls else Masks()
    if not rules.rules:
        return {}
    found = covers_of([error.pk for error in failures], rules)
    for error in failures:
        error.text = found.get(error.pk, UNCOVERED).text(error.text, error.code)
    for attempt in tried:
        cover = found.get(attempt.error_id, UNCOVERED)
        attempt.text = cover.text(attempt.text, attempt.code)
        attempt.detail = cover.text(attempt.detail)
    cover_calls(calls, rules)
    return found


def _decided(message_id: str, failures: Sequence[MessageError], scope: Scope) -> list[ErrorChange]:
    """Read decisions, also about failures that the cleanup has removed since."""
    apart = Q(error=None, message_id=message_id)
    if not scope.is_whole:
        queues = Queue.objects.filter(scope.within("system"))
        apart &= Q(queue_name__in=queues.values("name"))
    changes = ErrorChange.objects.filter(Q(error__in=failures) | apart)
    return in_own_words(changes.order_by("at")[:MOST])


def _receipts(message_id: str, scope: Scope) -> list[Receipt]:
    post, point, place = message_id.rpartition(".")
    ids = [message_id, *([post] if point and place.isdecimal() else [])]
    receipts = Receipt.objects.filter(scope.within("system"), message_id__in=ids)
    return list(receipts.select_related("system"))


def _tests(message_id: str, scope: Scope) -> list[ConfigurationChange]:
    tests = ConfigurationChange.objects.filter(
        scope.within("system"), kind=TEST_MESSAGE, subject=message_id
    )
    return list(tests[:1])


def _calls(message_id: str, queues: Queues) -> list[Delivery]:
    calls = Delivery.objects.filter(message_id=message_id, queue__in=queues)
    return list(calls.select_related("endpoint").order_by("-pk")[:MOST])


def _posted(receipt: Receipt) -> Event:
    return Event(
        at=receipt.received_at,
        title="Posted by HTTP",
        who=receipt.system.name,
        text=f"Its sender's own id: {receipt.sender_id}" if receipt.sender_id else "",
        sign="↓",
    )


def _tested(test: ConfigurationChange) -> Event:
    return Event(at=test.at, title="Sent as a test message", who=test.actor, sign="↓")


def _sent(rows: Sequence[Outgoing], *, is_posted: bool) -> Iterable[Event]:
    for row in rows:
        if not is_posted:
            yield _published(row)
        if row.published_at is not None:
            yield Event(at=row.published_at, title="Sent to Kafka", who="the relay", sign="→")


def _published(row: Outgoing) -> Event:
    """Tell when it was committed, with the message whose transaction that was."""
    way = f" for {', '.join(row.queues)}" if row.queues else ""
    cause = "a handler" if row.caused_by else "a program"
    why = f"Committed together with what message {row.caused_by} did." if row.caused_by else ""
    return Event(at=row.created_at, title=f"Published{way}", who=cause, text=why, sign="↓")


def _written(tracks: Sequence[TrackRow], failures: Sequence[MessageError]) -> Iterable[Event]:
    """Kafka's own time of each record; a failure tells it as well."""
    places = {(error.queue_id, error.partition, error.offset) for error in failures}
    for track in tracks:
        place = (track.queue_id, track.partition, track.offset)
        if track.written_at is not None and place not in places:
            places.add(place)
            yield Event(
                at=track.written_at,
                title="Written to Kafka",
                who="its sender",
                text=f"Offset {track.offset:,} of partition {track.partition}, for {track.queue}.",
                sign="↓",
            )


def _failed(
    error: MessageError,
    tried: Sequence[ErrorAttempt],
    decided: Sequence[ErrorChange],
    cover: Cover,
    scope: Scope,
) -> Iterable[Event]:
    tries = [one for one in tried if one.error_id == error.pk]
    changes = [change for change in decided if change.error_id == error.pk]
    return events_of(error, tries, changes, cover, scope)


def _is_listed(
    track: TrackRow,
    failures: Sequence[MessageError],
    tried: Sequence[ErrorAttempt | ErrorChange],
) -> bool:
    """Return whether a failure's own story has this ending: a try, or a person's decision."""
    ids = {
        error.pk
        for error in failures
        if (error.queue_id, error.partition, error.offset)
        == (track.queue_id, track.partition, track.offset)
    }
    near = [row for row in tried if row.error_id in ids and abs(row.at - track.at) < SAME]
    return any(isinstance(row, ErrorAttempt) or row.to_state == ErrorState.RESOLVED for row in near)


def _ended(track: TrackRow) -> Event:
    ending = ENDED_AS.get(track.ended, track.ended.lower())
    is_good = track.ended in GOOD
    is_bad = track.ended in {Ended.RETRY, Ended.HOLD}
    return Event(
        at=track.at,
        title=f"Read by {track.queue}: {ending}",
        who=ENGINE,
        tone="green" if is_good else "red" if is_bad else "secondary",
        sign="✓" if is_good else "✕" if is_bad else "·",
    )


CALLED: Final = {
    DeliveryState.SENDING: ("is being made", "azure", "→"),
    DeliveryState.DELIVERED: ("the endpoint took it", "green", "✓"),
    DeliveryState.FAILED: ("the endpoint did not take it", "red", "✕"),
    DeliveryState.UNKNOWN: ("it may have arrived, nobody knows", "orange", "?"),
}


def _called(call: Delivery) -> Event:
    words, tone, sign = CALLED[DeliveryState(call.state)]
    status = f" Answer {call.status}." if call.status is not None else ""
    took = f" It took {call.took_ms:,} ms." if call.took_ms is not None else ""
    return Event(
        at=call.ended_at or call.started_at,
        title=f"Call {call.attempt} of {call.endpoint.name}: {words}",
        who=ENGINE,
        code=call.code,
        text=f"{call.text}{status}{took}".strip(),
        detail=call.excerpt,
        tone=tone,
        sign=sign,
    )
