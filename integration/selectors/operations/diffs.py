"""Sample diffs of a bulk edit: what the change does to a few of its messages."""

from collections.abc import Sequence
from dataclasses import dataclass
from uuid import UUID

from integration.documents.layout import Line, differences
from integration.models import Operation, OperationItem
from integration.recipe_rules import rules_now, subject_of
from integration.recipe_use import Changed, use
from integration.recipes import compile_recipe
from integration.store import operations as store

SHOWN_LINES = 60


@dataclass(frozen=True, slots=True)
class Diff:
    """What changes in one message."""

    error: UUID
    number: int
    lines: Sequence[Line]
    is_cut: bool


def diffs(operation: Operation, places: Sequence[int]) -> list[Diff]:
    """The diffs of these items, computed anew: no text of a payload is stored with an operation."""
    recipe, rules = compile_recipe(operation.recipe), rules_now()
    rows = OperationItem.objects.filter(operation=operation, place__in=places).order_by("place")
    items = {item.error_id: item.place for item in rows}
    found = store.contents(list(items))
    shown = []
    for id_, place in items.items():
        made = use(recipe, subject_of(found[id_]), rules) if id_ in found else None
        if isinstance(made, Changed):
            lines = list(differences(made.before, made.after))
            shown.append(Diff(id_, place + 1, lines[:SHOWN_LINES], len(lines) > SHOWN_LINES))
    return shown
