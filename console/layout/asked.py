"""Choices of forms, read strictly: an action never widens or guesses what cannot be read."""

from collections.abc import Callable
from typing import Final, TypeVar

from django.core.exceptions import BadRequest
from django.http import HttpRequest, QueryDict

Key = TypeVar("Key")
Seen = TypeVar("Seen")

# One action takes at most so many rows; a review of those chosen counts no further.
ACTION_ROWS: Final = 10_000
# The longest filter a list writes: an address beyond it is refused by browsers and servers.
QUERY_CHARACTERS: Final = 4_000
SHOWN_CHARACTERS: Final = 80


class BadFilterError(BadRequest):
    """The filter of a choice is spoilt, or is readable only in part: then it would reach more."""

    def __init__(self, why: str) -> None:
        super().__init__(
            f"The filter of this selection cannot be used: {why} Go back to the list, correct the "
            "filter there and choose again."
        )


class BadChoiceError(BadRequest):
    """The choice was not written by a list of this console."""

    def __init__(self, why: str) -> None:
        super().__init__(
            f"The selection cannot be read: {why} Go back to the list and choose again."
        )


def query_of(request: HttpRequest) -> QueryDict:
    """The list's filter that the form carries. Raises BadFilterError, answered with a 400."""
    text = request.POST.get("query", "")
    if not (text.isascii() and text.isprintable()):
        raise BadFilterError("it contains a character that no address can contain.")
    if len(text) > QUERY_CHARACTERS:
        raise BadFilterError(f"it is longer than {QUERY_CHARACTERS:,} characters.")
    query = QueryDict(text)
    if any("\x00" in part for name, values in query.lists() for part in (name, *values)):
        raise BadFilterError("it contains a NUL character, which the database cannot store.")
    return query


def chosen_of(
    request: HttpRequest, read: Callable[[str], tuple[Key, Seen] | None]
) -> dict[Key, Seen]:
    """Every mark of the form, `row:as seen`, one a field or parted by blanks.

    `read` answers None for what is no mark. Raises BadChoiceError, answered with a 400.
    """
    marks = " ".join(request.POST.getlist("chosen")).split()
    if len(marks) > ACTION_ROWS:
        raise BadChoiceError(f"one action takes at most {ACTION_ROWS:,} rows.")
    chosen: dict[Key, Seen] = {}
    for mark in marks:
        pair = read(mark)
        if pair is None:
            raise BadChoiceError(f"“{shortened(mark)}” does not name a row of a list.")
        chosen[pair[0]] = pair[1]
    return chosen


def number_of(text: str) -> int | None:
    """A whole number that fits into the database's bigint; None for any other text."""
    is_number = text.isascii() and text.isdecimal() and len(text) < 19
    return int(text) if is_number else None


def shortened(text: str) -> str:
    """A text from outside, short enough to be repeated in a sentence."""
    return text if len(text) <= SHOWN_CHARACTERS else f"{text[:SHOWN_CHARACTERS]}…"
