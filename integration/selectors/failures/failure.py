"""One failure: what happened, what to do now, its payload, every attempt and every decision."""

from collections.abc import Iterable, Iterator
from dataclasses import dataclass, replace
from functools import partial
from typing import Final
from uuid import UUID

from django.db.models import F, Q

from integration.codec import decode_headers
from integration.delivery.foreign import DEAD_LETTER
from integration.envelope import FoundingId, parse_founding_id, topic_in_id
from integration.envelope.dead_letters import (
    CAUSE_HEADERS,
    PLACE_HEADERS,
    TOPIC_HEADERS,
    DeadLetter,
    dead_letter_of,
)
from integration.masking.mask import NOTHING, Mask
from integration.models import ErrorAttempt, ErrorChange, MessageError, QueuePartition
from integration.policy.states import OPEN, ErrorState
from integration.registries.reading import reading_of
from integration.selectors.failures.account import (
    Account,
    account_of,
    waiting_behind,
    waiting_for_position,
    waiting_hidden,
)
from integration.selectors.failures.cause_ids import cause_id
from integration.selectors.failures.decisions import in_own_words
from integration.selectors.failures.diffs import Diff, difference
from integration.selectors.failures.edits import Part, text_of
from integration.selectors.failures.lateness import why_late
from integration.selectors.failures.payloads import Contents, contents_of, sender_of, show
from integration.selectors.failures.rows import FailureRow, rows_of
from integration.selectors.masking.covers import Cover, cover_of, mask_of_error
from integration.selectors.masking.documents import hides_some
from integration.selectors.masking.errors import MaskedError
from integration.selectors.masking.rules import any_rules
from integration.selectors.scope import Scope
from integration.store import key_order, strict_order

NEIGHBOURS: Final = 5
PARKED_CAP: Final = 1_000
UNKNOWN: Final = "This failure is not in the error table; cleanup removes closed ones."


@dataclass(frozen=True, slots=True, kw_only=True)
class Behind:
    """The messages that wait behind this one: records of the partition and other open failures.

    `same_key` are open failures of the same queue with the key that keeps its order, before and
    behind: the record's, or the one at the queue's path.
    `parked` counts those that wait for this one because their key is the same, up to PARKED_CAP.
    """

    blocks: bool
    waiting: int | None
    failures: list[FailureRow]
    same_key: list[FailureRow]
    parked: int


@dataclass(frozen=True, slots=True, kw_only=True)
class FailureDetail:
    """Everything the page of one failure shows. `late` is why a release needs a confirmation.

    `ahead` is the failure that is to be closed before this one is tried: that of a strict error
    queue, or the first one of its key. `is_ahead_hidden`: there is one that is out of scope.
    `error_queue` is the name of the error queue, empty where there is none to be known of.
    """

    error: MessageError
    error_queue: str
    account: Account
    late: str | None
    ahead: FailureRow | None
    is_ahead_hidden: bool
    behind: Behind
    tries: tuple[ErrorAttempt, ...]
    changes: tuple[ErrorChange, ...]
    cover: Cover

    @property
    def state(self) -> ErrorState:
        return ErrorState(self.error.state)

    @property
    def is_open(self) -> bool:
        return self.state in OPEN

    @property
    def sender(self) -> tuple[str, bool]:
        """The sender, and whether a header alone names it."""
        return sender_of(self.error, self.cover)

    @property
    def is_behind(self) -> bool:
        """Return True when it is not tried before another failure is closed."""
        return self.ahead is not None or self.is_ahead_hidden

    @property
    def is_delivered(self) -> bool:
        """Return True for a message to a partner: somebody may have seen it there."""
        queue = self.error.queue
        return queue.direction == queue.Direction.OUTBOUND and not queue.forwards

    @property
    def cause(self) -> str:
        """The id of its cause."""
        return cause_id(self.error.fingerprint)

    @property
    def is_edited(self) -> bool:
        return self.error.edited_payload is not None

    @property
    def dead_letter(self) -> DeadLetter | None:
        """What another framework's headers tell of its failure."""
        if self.error.code != DEAD_LETTER and not self.error.origin_topic:
            return None
        return dead_letter_of(self.cover.mask.shown(decode_headers(self.error.headers)))

    @property
    def cause_class(self) -> str:
        return self.cover.told(self.error.cause_class, CAUSE_HEADERS)

    @property
    def origin_topic(self) -> str:
        """The topic it came from, as it is shown; that of the failure says where it goes back."""
        return self.cover.told(self.error.origin_topic, TOPIC_HEADERS)

    @property
    def origin_place(self) -> tuple[int | None, int | None]:
        """The partition and the offset it had there, as far as they are known and not hidden."""
        if self.cover.mask.hides_any(PLACE_HEADERS):
            return None, None
        return self.error.origin_partition, self.error.origin_offset

    @property
    def record_named_by_id(self) -> str:
        """The record that an id `<provider>~<topic>~<partition>~<offset>` names; else empty.

        Where it names the failure's own position the sender gave no id: the reader made this one.
        """
        place = parse_founding_id(self.error.message_id)
        if place is None:
            return ""
        if place in self._positions:
            is_jms = self.error.queue.provider.is_jms
            known_by = "address and number" if is_jms else "topic, partition and offset"
            return f"The message has no id of its own; it is known by its {known_by}."
        return (
            f"The sender's id names a record: provider {place.provider}, topic {place.topic}, "
            f"partition {place.partition}, offset {place.offset:,}."
        )

    @property
    def _positions(self) -> Iterator[FoundingId]:
        """Where the message stood, as readers write it into the id of one without any.

        In which generation of its partition it was read is nowhere but in its id.
        """
        error, queue = self.error, self.error.queue
        topic = queue.name if queue.provider.is_jms else queue.topic
        place = queue.partitions.filter(partition=error.partition)
        last = place.values_list("generation", flat=True).first() or 0
        for generation in range(last + 1):
            named = topic_in_id(topic, generation)
            yield FoundingId(queue.provider.name, named, error.partition, error.offset)


def is_known(error_id: UUID, scope: Scope) -> bool:
    """Return whether there is such a failure for someone of this scope."""
    return MessageError.objects.filter(scope.within("queue__system"), pk=error_id).exists()


def detail(error_id: UUID, scope: Scope, *, is_revealed: bool = False) -> FailureDetail | None:
    """One failure in six queries, or None when there is none (any more) within the scope.

    Two more tell what it waits for on a strict error queue. Unless it `is_revealed`, all its texts
    are without the values that masking rules hide, which takes one query more where there are any,
    and another two where it was edited.
    """
    failures = MessageError.objects.select_related(
        "queue__system", "queue__error_queue", "queue__provider", "queue__endpoint"
    ).annotate(has_rules=any_rules())
    error = failures.filter(scope.within("queue__system"), pk=error_id).first()
    if error is None:
        return None
    is_covered = error.has_rules and not is_revealed
    mask = mask_of_error(error) if is_covered else NOTHING
    cover = cover_of(error, mask)
    tries = tuple(error.tries.all())
    _cover(error, tries, cover)
    place = QueuePartition.objects.filter(queue=error.queue_id, partition=error.partition).first()
    late, first = why_late(error, error.queue, place), _first_of(error)
    ahead, error_queue = _ahead(first, scope), _error_queue(error, scope)
    is_hidden = first is not None and ahead is None and not scope.is_whole
    behind = waiting_hidden if is_hidden else partial(waiting_behind, ahead=ahead)
    waits = behind(error, error_queue=error_queue) or waiting_for_position(error, place)
    return FailureDetail(
        error=error,
        error_queue=error_queue,
        account=account_of(error, late, waits),
        late=late,
        ahead=ahead,
        is_ahead_hidden=is_hidden,
        behind=_behind(error, place),
        tries=tries,
        changes=tuple(in_own_words(error.changes.defer("payload_before"))),
        cover=cover,
    )


def _cover(error: MessageError, tries: Iterable[ErrorAttempt], cover: Cover) -> None:
    """Hide what is masked in the texts of rows that are only shown, and never saved."""
    error.text = cover.text(error.text, error.code)
    error.waits_key = cover.text(error.waits_key)
    for attempt in tries:
        attempt.text = cover.text(attempt.text, attempt.code)
        attempt.detail = cover.text(attempt.detail)


def contents(error: MessageError, cover: Cover) -> Contents:
    """Payload, key and headers of a failure, laid out for reading."""
    reading, mask = reading_of(error.queue), cover.mask
    shown = contents_of(error.current_payload, error.key, error.headers, reading, mask=mask)
    # Other frameworks write into headers what their exceptions said.
    headers = tuple((name, cover.words.hide(value)) for name, value in shown.headers)
    shown = replace(shown, headers=headers, key=cover.words.hide(shown.key))
    if error.edited_payload is None:
        return shown
    original = show(error.payload, decode_headers(error.headers), reading, mask=mask)
    return replace(shown, original=original)


def edited_difference(error: MessageError, mask: Mask) -> Diff | None:
    """Tell what an edit changed in the document, or in the record; None where they are not text."""
    headers = decode_headers(error.headers)
    record, original = error.current_payload, error.payload
    if record is None or original is None:
        return None
    reading = reading_of(error.queue)
    texts = [
        text_of(value, headers, Part.DOCUMENT, reading, mask=mask)
        for value in (bytes(original), record)
    ]
    return None if None in texts else difference(texts[0] or "", texts[1] or "")


def current_record(error_id: UUID, scope: Scope, *, is_revealed: bool = False) -> bytes | None:
    """The bytes the next attempt would read, for a download; None when there are none.

    Raises MaskedError where any of them is hidden, unless it `is_revealed`.
    """
    failures = MessageError.objects.select_related("queue__provider")
    error = failures.filter(scope.within("queue__system"), pk=error_id).first()
    record = None if error is None else error.current_payload
    if error is None or record is None or is_revealed:
        return record
    headers, reading = decode_headers(error.headers), reading_of(error.queue)
    if hides_some(record, headers, reading, mask_of_error(error)):
        raise MaskedError
    return record


def _error_queue(error: MessageError, scope: Scope) -> str:
    queue = error.queue.error_queue
    return queue.name if queue is not None and scope.allows(queue.system_id) else ""


def _first_of(error: MessageError) -> UUID | None:
    """The failure that is to be closed before this one is tried, whoever may see it."""
    if error.state not in OPEN:
        return None
    return key_order.ahead_of(error) or strict_order.ahead_of(error)


def _ahead(first: UUID | None, scope: Scope) -> FailureRow | None:
    failures = MessageError.objects.filter(scope.within("queue__system"))
    rows = rows_of(failures.filter(pk=first)) if first else []
    return rows[0] if rows else None


def _behind(error: MessageError, place: QueuePartition | None) -> Behind:
    # One that was parked stops nothing any more, also until the next run has noticed that.
    blocks = place is not None and place.state_error == error.pk and error.parked_at is None
    waiting = None
    if place is not None and place.high_watermark is not None and blocks and not place.more_waiting:
        waiting = max(0, place.high_watermark - error.offset - 1)
    after = MessageError.objects.filter(
        queue=error.queue_id,
        topic_uuid=error.topic_uuid,
        partition=error.partition,
        offset__gt=error.offset,
        state__in=OPEN,
    )
    # Nothing waits for what is closed, nor where others pass.
    waits = error.state in OPEN and error.queue.is_sequential
    # The sum keeps the planner from walking along all positions of the queue, closed ones too:
    # open failures have an index of their own and are few.
    behind = after.order_by(F("offset") + 0)
    return Behind(
        blocks=blocks,
        waiting=waiting,
        failures=rows_of(behind, NEIGHBOURS) if waits else [],
        same_key=_same_key(error),
        parked=key_order.parked_behind(error, PARKED_CAP) if error.state in OPEN else 0,
    )


def _same_key(error: MessageError) -> list[FailureRow]:
    """Open failures of the queue with its key; what has none at the queue's path has none."""
    name = "order_key" if error.queue.order_path else "key"
    key = getattr(error, name)
    if key is None:
        return []
    same = Q(**{name: bytes(key)})
    others = MessageError.objects.filter(same, queue=error.queue_id, state__in=OPEN)
    others = others.exclude(pk=error.pk)
    return rows_of(others.order_by(F("offset") + 0), NEIGHBOURS)
