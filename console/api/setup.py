"""What people set up, over HTTP: each thing with its values. The configuration file changes it."""

from collections.abc import Mapping
from typing import Annotated, Any, Final

from django.http import Http404, HttpRequest
from ninja import Query, Router, Schema
from pydantic import Field

from console.api.errors import BadInputError
from console.api.routes import reading
from console.layout.access import scope_of
from console.setup.noun import Noun
from console.setup.pages import known_row
from console.setup.urls import NOUNS
from integration.actions.configuration import facts

router: Final = Router(tags=["set-up"])
KINDS: Final[Mapping[str, Noun]] = {noun.many: noun for noun in NOUNS}
LARGEST: Final = 2**63 - 1
PAGE_ROWS: Final = 100
NO_KIND: Final = f"Nothing of that kind is set up. The kinds are {', '.join(sorted(KINDS))}."


class SetUpFilters(Schema):
    """The search of the console's list, and the place in the list."""

    words: str | None = Field(None, description="Part of the name or the description.")
    after: Annotated[int, Field(ge=0, le=LARGEST)] | None = Field(
        None, description="`next` of an earlier answer."
    )


class SetUpLine(Schema):
    """One thing with its values by field; of secrets only whether they are set."""

    number: int
    name: str
    values: dict[str, Any]

    @classmethod
    def of(cls, row: Any) -> "SetUpLine":
        return cls(number=row.pk, name=str(row), values=facts(row))


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


@reading(router, "/set-up/{slug:kind}", answer=SetUpPage)
def list_rows(request: HttpRequest, kind: str, filters: Query[SetUpFilters]) -> SetUpPage:
    """All of a kind, 100 a page: systems, services, channels, structures, endpoints, and others.

    Also: providers, connections, targets, notice-rules, notice-recipients, masking-rules.
    """
    noun = _noun(kind)
    if unknown := set(request.GET) - set(SetUpFilters.model_fields):
        raise BadInputError(f"There is no filter “{min(unknown)[:100]}”.")
    wanted = noun.filters(
        {"words": filters.words or ""}, queryset=noun.rows(scope_of(request.user))
    )
    if not wanted.form.is_valid():
        raise BadInputError("“words” is too long.")
    rest = wanted.qs.filter(pk__gt=filters.after or 0).order_by("pk")
    rows = list(rest[: PAGE_ROWS + 1])
    shown = rows[:PAGE_ROWS]
    behind = shown[-1].pk if len(rows) > PAGE_ROWS else None
    return SetUpPage(rows=[SetUpLine.of(row) for row in shown], next=behind)


@reading(router, "/set-up/{slug:kind}/{int:number}", answer=SetUp)
def read_row(request: HttpRequest, kind: str, number: int) -> SetUp:
    """One of them, with its values and what depends on it."""
    noun = _noun(kind)
    if number > LARGEST:
        raise Http404(f"There is no such {noun.word}.")
    row = known_row(request, noun, number)
    uses = noun.uses(row, scope_of(request.user))
    return SetUp(
        **SetUpLine.of(row).model_dump(),
        uses=[Use.model_validate(use, from_attributes=True) for use in uses],
    )


def _noun(kind: str) -> Noun:
    """Raises Http404."""
    noun = KINDS.get(kind)
    if noun is None:
        raise Http404(NO_KIND)
    return noun
