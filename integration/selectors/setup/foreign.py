"""What a person may not know of, where something that all people share refers to it by name."""

from collections.abc import Callable, Iterable, Mapping
from dataclasses import replace
from typing import Any, Final

from django.db.models import Model

from integration.models import EnterpriseService, ExternalSystem, Queue
from integration.selectors.changes import Change, Difference
from integration.selectors.scope import Scope
from integration.selectors.setup import takers

SYSTEM: Final = "a system hidden from you"
QUEUE: Final = "a queue hidden from you"
SERVICE: Final = "a service hidden from you"
# The fields of the audit that refer to such a row by its name.
_WORDS: Final = {"system": SYSTEM, "queue": QUEUE, "error_queue": QUEUE, "service": SERVICE}


def name_of(row: Any, scope: Scope) -> str:
    """The name of a row that is referred to; of one out of the scope no more than its kind."""
    match row:
        case ExternalSystem():
            return str(row) if scope.allows(row.pk) else SYSTEM
        case Queue():
            return str(row) if scope.allows(row.system_id) else QUEUE
        case EnterpriseService():
            is_known = scope.is_whole or takers.services(scope).filter(pk=row.pk).exists()
            return str(row) if is_known else SERVICE
        case _:
            return str(row)


def names_in(row: Model, scope: Scope) -> dict[str, str]:
    """What the fields that people set refer to, by field, as `name_of` has it."""
    found = {
        field.name: getattr(row, field.name)
        for field in row._meta.concrete_fields
        if field.is_relation and field.editable
    }
    return {name: name_of(one, scope) for name, one in found.items() if one is not None}


def without_names(changes: Iterable[Change], scope: Scope) -> list[Change]:
    """The same changes, without names of what is out of the scope.

    What is not there any more under its name is taken for that: nobody knows whose it was.
    """
    if scope.is_whole:
        return list(changes)
    shown = list(changes)
    asked = {one.field for change in shown for one in change.differences}
    known = {field: find(scope) for field, find in _FINDERS.items() if field in asked}
    return [
        replace(change, differences=tuple(_covered(one, known) for one in change.differences))
        for change in shown
    ]


def _covered(one: Difference, known: Mapping[str, frozenset[str]]) -> Difference:
    names = known.get(one.field)
    if names is None:
        return one
    before, after = (
        value if not value or value in names else _WORDS[one.field]
        for value in (one.before, one.after)
    )
    return replace(one, before=before, after=after)


def _systems(scope: Scope) -> frozenset[str]:
    rows = ExternalSystem.objects.filter(scope.within("pk"))
    return frozenset(rows.values_list("name", flat=True))


def _queues(scope: Scope) -> frozenset[str]:
    rows = Queue.objects.filter(scope.within("system"))
    return frozenset(rows.values_list("name", flat=True))


def _services(scope: Scope) -> frozenset[str]:
    return frozenset(takers.services(scope).values_list("interface", flat=True))


_FINDERS: Final[Mapping[str, Callable[[Scope], frozenset[str]]]] = {
    "system": _systems,
    "queue": _queues,
    "error_queue": _queues,
    "service": _services,
}
