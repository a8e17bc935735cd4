"""What people set up, over HTTP: each thing with its values. The configuration file changes it."""

from collections.abc import Mapping
from typing import Any, Final

from django.http import Http404, HttpRequest
from ninja import Query, Router, Schema
from pydantic import Field

from console.api.errors import BadInputError
from console.api.paging import PAGE_ROWS, RowNumber, in_range, page_of, refuse_unknown
from console.api.routes import reading
from console.layout.access import scope_of
from console.setup.noun import Noun
from console.setup.pages import known_row
from console.setup.urls import NOUNS
from integration.actions.configuration import facts
from integration.selectors.scope import Scope
from integration.selectors.setup import foreign

router: Final = Router(tags=["set-up"])
KINDS: Final[Mapping[str, Noun]] = {noun.many: noun for noun in NOUNS}
KIND_NAMES: Final = ", ".join(sorted(KINDS))
NO_KIND: Final = f"Nothing of that kind is set up. The kinds are {KIND_NAMES}."
LISTS: Final = f"All of a kind, 100 a page. The kinds are {KIND_NAMES}."


class SetUpFilters(Schema):
    """The search of the console's list, and the place in the list."""

    words: str | None = Field(None, description="Part of the name or the description.")
    after: RowNumber | None = Field(None, description="`next` of an earlier answer.")


class SetUpLine(Schema):
    """One thing with its values by field; of secrets only whether they are set."""

    number: int
    name: str
    values: dict[str, Any]

    @classmethod
    def of(cls, row: Any, scope: Scope) -> "SetUpLine":
        """What it refers to out of the scope is not named."""
        values = facts(row) | foreign.names_in(row, scope)
        return cls(number=row.pk, name=str(row), values=values)


class SetUpPage(Schema):
    """A page, the oldest first; `next` is a value for `after`."""

    rows: list[SetUpLine]
    next: int | None


class Use(Schema):
    """Something that depends on it, and how."""

    kind: str
    number: int
    name: str
    how: str


class SetUp(SetUpLine):
    """One thing with what depends on it."""

    uses: list[Use]


@reading(router, "/set-up/{slug:kind}", answer=SetUpPage, description=LISTS)
def list_rows(request: HttpRequest, kind: str, filters: Query[SetUpFilters]) -> SetUpPage:
    """All of a kind, a page at a time, the oldest first."""
    noun = _noun(kind)
    refuse_unknown(request, SetUpFilters)
    scope = scope_of(request.user)
    wanted = noun.filters({"words": filters.words or ""}, queryset=noun.rows(scope))
    if not wanted.form.is_valid():
        raise BadInputError("“words” is too long.")
    rest = wanted.qs.filter(pk__gt=filters.after or 0).order_by("pk")
    shown, last = page_of(list(rest[: PAGE_ROWS + 1]))
    lines = [SetUpLine.of(row, scope) for row in shown]
    return SetUpPage(rows=lines, next=None if last is None else last.pk)


@reading(router, "/set-up/{slug:kind}/{int:number}", answer=SetUp)
def read_row(request: HttpRequest, kind: str, number: int) -> SetUp:
    """One of them, with its values and what depends on it."""
    noun = _noun(kind)
    row = known_row(request, noun, in_range(number, f"There is no such {noun.word}."))
    scope = scope_of(request.user)
    uses = noun.uses(row, scope)
    return SetUp(
        **SetUpLine.of(row, scope).model_dump(),
        uses=[Use.model_validate(use, from_attributes=True) for use in uses],
    )


def _noun(kind: str) -> Noun:
    """Raises Http404."""
    noun = KINDS.get(kind)
    if noun is None:
        raise Http404(NO_KIND)
    return noun
