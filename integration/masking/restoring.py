"""A text that a person has edited, with the true values where its placeholders were left alone."""

from dataclasses import dataclass
from typing import AnyStr, Final

from integration.envelope import Flaw, body_of
from integration.masking import documents
from integration.masking.mask import PLACEHOLDER, Hidden, Mask, spliced
from integration.masking.places import Place

MOVED: Final = "stands where no hidden value was, or where another one was."
UNREADABLE: Final = (
    "The text cannot be read any more, so the hidden values cannot be put back into it."
)


@dataclass(frozen=True, slots=True)
class Misplaced:
    """The reason why true values cannot be put back, as a sentence."""

    why: str


def restored(edited: str, original: str, mask: Mask, *, is_xml: bool) -> str | Misplaced:
    """Return `edited` with the true values of `original` in place of untouched placeholders.

    A placeholder counts only where its value stood: elsewhere its value might be seen.
    """
    if PLACEHOLDER.search(edited) is None:
        return edited
    body = body_of(edited)
    # Read as the other of the two, paths would find values that nothing of it hides.
    if isinstance(body, Flaw) or documents.is_xml(body) != is_xml:
        return Misplaced(UNREADABLE)
    before = mask.document(original, is_xml=is_xml)
    after = mask.document(edited, is_xml=is_xml)
    if before is None or after is None:
        return Misplaced(UNREADABLE)
    if is_xml:
        return _put_back(edited.encode(), original.encode(), before, after)
    return _put_back(edited, original, before, after)


def _put_back(edited: AnyStr, original: AnyStr, before: Hidden, after: Hidden) -> str | Misplaced:
    kept: list[Place] = []
    values: list[AnyStr] = []
    for place in after.places:
        stood = _stood(edited[place.start : place.end], place, before)
        if stood is not None:
            kept.append(place)
            values.append(original[stood.start : stood.end])
    rest = spliced(edited, kept, [edited[:0]] * len(kept))
    stray = PLACEHOLDER.search(_text(rest))
    if stray is not None:
        return Misplaced(f"“{stray[0]}” {MOVED}")
    return _text(spliced(edited, kept, values))


def _stood(written: str | bytes, place: Place, before: Hidden) -> Place | None:
    """Return the place in the original that this value is the untouched placeholder of."""
    said = PLACEHOLDER.fullmatch(_text(written).strip().strip("\"'"))
    number = int(said[1]) if said else 0
    if not 1 <= number <= len(before.places):
        return None
    stood = before.places[number - 1]
    return stood if stood.path == place.path else None


def _text(written: str | bytes) -> str:
    return written if isinstance(written, str) else written.decode()
