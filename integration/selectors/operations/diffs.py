"""Sample diffs of a bulk edit: what the change does to a few of its messages."""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from difflib import unified_diff
from typing import NamedTuple
from uuid import UUID

from integration.models import Operation, OperationItem
from integration.recipe_use import Changed, Rules, subject_of, use
from integration.recipes import compile_recipe
from integration.selectors.failures.payloads import laid_out
from integration.store import operations as store

CONTEXT_LINES = 2
SHOWN_LINES = 60


class Line(NamedTuple):
    """One line of a diff; `sign` is "+", "-" or a blank."""

    sign: str
    text: str


@dataclass(frozen=True, slots=True)
class Diff:
    """What changes in one message."""

    error: UUID
    number: int
    lines: Sequence[Line]
    is_cut: bool


def diffs(operation: Operation, places: Sequence[int]) -> list[Diff]:
    """The diffs of these items, computed anew: no text of a payload is stored with an operation."""
    recipe, rules = compile_recipe(operation.recipe), Rules.now()
    rows = OperationItem.objects.filter(operation=operation, place__in=places).order_by("place")
    items = {item.error_id: item.place for item in rows}
    found = store.contents(list(items))
    shown = []
    for id_, place in items.items():
        made = use(recipe, subject_of(found[id_]), rules) if id_ in found else None
        if isinstance(made, Changed):
            lines = list(_lines(made))
            shown.append(Diff(id_, place + 1, lines[:SHOWN_LINES], len(lines) > SHOWN_LINES))
    return shown


def _lines(made: Changed) -> Iterator[Line]:
    before, after = laid_out(made.before).splitlines(), laid_out(made.after).splitlines()
    for line in unified_diff(before, after, n=CONTEXT_LINES, lineterm=""):
        if not line.startswith(("---", "+++", "@@")):
            yield Line(line[:1], line[1:])
