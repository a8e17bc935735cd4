"""Masking rules as jobs take them, and records without what they hide."""

from collections.abc import Iterable
from dataclasses import dataclass

from integration.envelope import Flaw, read_unwrapped
from integration.masking.documents import hidden_in, hides_beside
from integration.masking.mask import HIDDEN, Mask, Part, Rule, mask_of
from integration.masking.matcher import Style
from integration.wrapping import with_text


@dataclass(frozen=True, slots=True, kw_only=True)
class Masking:
    """A masking rule: the part of a message, the path in it, and what is left of a value."""

    part: str
    path: str
    style: str


def mask_by(rules: Iterable[Masking]) -> Mask:
    """The mask that these rules make."""
    return mask_of(frozenset(Rule(Part(r.part), r.path, Style(r.style)) for r in rules))


def masked_record(mask: Mask, record: bytes) -> bytes:
    """A record with placeholders. What cannot be read is hidden whole, as on pages.

    Of which queue it is nobody knows here: what is in a retry wrapper, and the wrapper as a
    document of its own, are both masked.
    """
    document = read_unwrapped(record)
    hidden = None if isinstance(document, Flaw) else hidden_in(document, mask)
    if hidden is None or isinstance(document, Flaw):
        return HIDDEN.encode()
    if hides_beside(record, document, mask):
        return hidden.text.encode()
    if not hidden.places:
        return record
    return with_text(record, document, hidden.text) if document.wrapped else hidden.text.encode()
