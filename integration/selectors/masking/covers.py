"""The cover of a message: what is hidden of it, and so of the texts that speak of it.

An error or a traceback may quote any value. The values are looked up when a text is shown: a rule
that is made today covers the failures of yesterday.
"""

from collections import defaultdict
from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Final, NamedTuple
from uuid import UUID

from django.db.models import Case, F, OuterRef, Subquery, Sum, When
from django.db.models.functions import Coalesce, Length

from integration.codec import decode_headers
from integration.envelope import Document, Flaw, FlawCode
from integration.masking.mask import HIDDEN, NOTHING, Mask
from integration.masking.words import Words
from integration.models import ErrorChange, MessageError
from integration.policy.failure import Failure
from integration.registries.reading import Reading, reading_of
from integration.selectors.masking.documents import hidden_in
from integration.selectors.masking.rules import Masks, masks

Content = Document | Flaw | Failure
# A list reads so much of payloads; of what is beyond, no text is shown: it does not wait.
MOST_BYTES: Final = 2 * 2**20
# A page about one message reads so much of what its edits replaced, and looks for values in it.
MOST_FORMER_BYTES: Final = 16 * 2**20
# Sentences of these codes name places, never values.
SAFE_CODES: Final = frozenset(code.value for code in FlawCode) - {FlawCode.SCHEMA_VIOLATION.value}


@dataclass(frozen=True, slots=True)
class Cover:
    """The mask of one message, and the words that replace its hidden values in texts.

    `flaws` are the codes of what makes its records unreadable. A handler may name its codes so,
    too, and say any value under them: nobody else's sentence is trusted.
    """

    mask: Mask
    words: Words
    flaws: frozenset[str] = frozenset()

    def key(self, key: str) -> str:
        """The record key: hidden by a rule of its own, or because a hidden value is in it."""
        return self.words.hide(self.mask.key_text(key))

    def told(self, text: str, headers: Iterable[str]) -> str:
        """What one of these headers told: hidden whole where a rule hides any of them."""
        return HIDDEN if text and self.mask.hides_any(headers) else self.words.hide(text)

    def text(self, text: str, code: str = "") -> str:
        """A text about the message. Sentences of the engine on bytes it cannot read are kept."""
        return text if code in self.flaws else self.words.hide(text)


# The first edit replaces the message as it came, which its failure has.
_REPLACED: Final = (
    ErrorChange.objects.filter(payload_before__isnull=False)
    .exclude(payload_before=F("error__payload"))
    .order_by()
)
UNCOVERED: Final = Cover(NOTHING, Words((), HIDDEN))


class Limits(NamedTuple):
    """A message by what rules are limited to."""

    id: UUID
    queue: int
    system: int | None
    interface: str


def mask_of_error(error: MessageError, rules: Masks | None = None) -> Mask:
    """The mask of a failure, whose queue is loaded."""
    known = masks() if rules is None else rules
    return known.of_queue(error.queue, error.interface)


def cover_of(error: MessageError, mask: Mask, former: Collection[bytes] | None = None) -> Cover:
    """The cover of a failure with its payloads loaded: the values of every version it ever had.

    `former` are those between the original and the last edit; without them they are asked for.
    If they hold more than MOST_FORMER_BYTES, no text that may quote one of them is shown.
    """
    if mask.is_empty:
        return UNCOVERED
    if former is None:
        if _is_long(error, mask):
            return unknown_cover(mask)
        former = _former([(error, mask)]).get(error.pk, ())
    records = [bytes(one) for one in (error.payload, error.edited_payload) if one is not None]
    records += former
    headers = decode_headers(error.headers)
    key = None if error.key is None else bytes(error.key)
    reading = reading_of(error.queue) if mask.hides_payload else None
    contents = [reading(one, list(headers)) for one in records] if reading is not None else []
    codes = {content.code for content in contents if isinstance(content, Flaw)}
    return Cover(mask, _words(contents, headers, key, mask), SAFE_CODES.intersection(codes))


def words_for(
    records: Sequence[bytes],
    headers: Sequence[tuple[str, bytes | None]],
    key: bytes | None,
    *,
    mask: Mask,
    reading: Reading,
) -> Words:
    """The hidden values of these versions of a message, ready to be replaced."""
    contents = [reading(one, list(headers)) for one in records] if mask.hides_payload else []
    return _words(contents, headers, key, mask)


def _words(
    contents: Sequence[Content],
    headers: Sequence[tuple[str, bytes | None]],
    key: bytes | None,
    mask: Mask,
) -> Words:
    values: set[str] = set()
    if mask.key is not None and key:
        values.add(key.decode(errors="replace"))
    for name, value in headers:
        if value and mask.header_style(name) is not None:
            values.add(value.decode(errors="replace"))
    for content in contents:
        hidden = hidden_in(content, mask) if isinstance(content, Document) else None
        if hidden is None:
            return Words((), HIDDEN, is_known=False)
        values |= hidden.values
    return Words(values, HIDDEN)


def unknown_cover(mask: Mask) -> Cover:
    """The cover of a message that is not stored here: no text that may quote it is shown."""
    return UNCOVERED if mask.is_empty else Cover(mask, Words((), HIDDEN, is_known=False))


def covers(messages: Iterable[Limits], rules: Masks | None = None) -> dict[UUID, Cover]:
    """The covers of those of these failures of which anything is hidden.

    In one query for the rules, and two for the messages that they are for; one more if any of those
    was edited.
    """
    known = masks() if rules is None else rules
    if not known.rules:
        return {}
    asked = {one.id: known.of(one.queue, one.system, (one.interface,)) for one in messages}
    wanted = {id_: mask for id_, mask in asked.items() if not mask.is_empty}
    found = {id_: unknown_cover(mask) for id_, mask in wanted.items()}
    failures = MessageError.objects.filter(pk__in=_within_bounds(wanted))
    read = list(failures.select_related("queue__provider"))
    former = _former((error, wanted[error.pk]) for error in read)
    for error in read:
        found[error.pk] = cover_of(error, wanted[error.pk], former.get(error.pk, ()))
    return found


def covers_of(ids: Iterable[UUID], rules: Masks | None = None) -> dict[UUID, Cover]:
    """The same of failures of which no more than the ids are known."""
    known = masks() if rules is None else rules
    if not known.rules:
        return {}
    rows = MessageError.objects.filter(pk__in=list(ids))
    columns = ("pk", "queue", "queue__system", "interface")
    return covers((Limits(*row) for row in rows.values_list(*columns)), known)


def _former(errors: Iterable[tuple[MessageError, Mask]]) -> Mapping[UUID, set[bytes]]:
    """What edits wrote that other edits replaced: errors quote it still. One query, or none."""
    edited = [e.pk for e, mask in errors if e.edited_at is not None and mask.hides_payload]
    found: dict[UUID, set[bytes]] = defaultdict(set)
    rows = _REPLACED.filter(error__in=edited).values_list("error", "payload_before")
    for error, payload in rows if edited else ():
        found[error].add(bytes(payload or b""))
    return found


def _is_long(error: MessageError, mask: Mask) -> bool:
    """Return whether the edits of a failure replaced more than is read. One query, or none."""
    if error.edited_at is None or not mask.hides_payload:
        return False
    held = _REPLACED.filter(error=error.pk).aggregate(size=Sum(Length("payload_before")))["size"]
    return (held or 0) > MOST_FORMER_BYTES


def _within_bounds(ids: Iterable[UUID]) -> list[UUID]:
    """Those of these failures that a list reads: the smallest, up to MOST_BYTES of all of them."""
    former = _REPLACED.filter(error=OuterRef("pk")).values("error")
    held = former.annotate(size=Sum(Length("payload_before"))).values("size")
    was_edited = When(edited_at__isnull=False, then=Coalesce(Subquery(held), 0))
    size = Coalesce(Length("payload"), 0) + Coalesce(Length("edited_payload"), 0)
    size += Case(was_edited, default=0)
    rows = MessageError.objects.filter(pk__in=list(ids)).annotate(size=size).order_by("size", "pk")
    chosen, read = [], 0
    for pk, length in rows.values_list("pk", "size"):
        read += length
        if read > MOST_BYTES:
            break
        chosen.append(pk)
    return chosen
