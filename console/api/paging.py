"""Places in lists: numbers that rows have, the names that a list is asked by, and its pages."""

from collections.abc import Sequence
from typing import Annotated, Final, Protocol, TypeVar

from django.http import Http404, HttpRequest, QueryDict
from ninja import Schema
from pydantic import Field

from console.api.errors import BadInputError

# What a bigint of the database holds.
LARGEST: Final = 2**63 - 1
RowNumber = Annotated[int, Field(ge=0, le=LARGEST)]
PAGE_ROWS: Final = 100


class Named(Protocol):
    """A row of a list that goes by name."""

    @property
    def name(self) -> str: ...


Row = TypeVar("Row")
NamedRow = TypeVar("NamedRow", bound=Named)


def in_range(number: int, gone: str) -> int:
    """Return a number that the database can compare with; no row has a larger one.

    Raises Http404 with the sentence `gone`.
    """
    if number > LARGEST:
        raise Http404(gone)
    return number


def refuse_unknown(request: HttpRequest, known: type[Schema]) -> None:
    """Let every name in the address be one of these filters. Raises BadInputError."""
    if unknown := set(request.GET) - set(known.model_fields):
        raise BadInputError(f"There is no filter “{min(unknown)[:100]}”.")


def filter_in(query: QueryDict, *besides: str) -> QueryDict:
    """The filter of a list alone, without these names, which say how it is answered."""
    rest = query.copy()
    for name in besides:
        rest.pop(name, None)
    return rest


def no_place(name: str, source: str = "“next”") -> BadInputError:
    """The refusal of a value that no answer has named as a place in the list."""
    return BadInputError(f"“{name}” is no place in this list: take it from {source} of an answer.")


def page_of(rows: Sequence[Row]) -> tuple[Sequence[Row], Row | None]:
    """The rows of a page, and the last one of them if more follow.

    `rows` are those from its first one on: one more than a page has, or all.
    """
    shown = rows[:PAGE_ROWS]
    return shown, shown[-1] if len(rows) > PAGE_ROWS else None


def page_by_name(
    rows: Sequence[NamedRow], after: str | None
) -> tuple[Sequence[NamedRow], str | None]:
    """The rows of the page behind a name, by name, and the name behind which more follow."""
    ordered = sorted(rows, key=lambda row: row.name)
    shown, last = page_of([row for row in ordered if row.name > (after or "")])
    return shown, None if last is None else last.name
