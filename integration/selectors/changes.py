"""The audit: every change of the configuration, and who logged in, was refused or saw a payload."""

from collections.abc import Mapping
from dataclasses import dataclass
from datetime import datetime
from typing import Any, Final
from uuid import UUID

from django.contrib.auth import get_user_model
from django.db.models import Q, QuerySet

from integration.models import ConfigurationChange
from integration.selectors.scope import EVERYTHING, Scope

PAGE_ROWS: Final = 50
HISTORY_ROWS: Final = 20
# Choices of a filter beside single actions: all accesses, or these and the changes.
ACCESSES: Final = "access"
EVERY: Final = "every"
Values = Mapping[str, Any] | None
Place = tuple[datetime, int]


@dataclass(frozen=True, slots=True)
class Difference:
    """One field before and after; None where there was none, or is none any more."""

    field: str
    before: object
    after: object
    had: bool
    has: bool


@dataclass(frozen=True, slots=True)
class Change:
    """One row of audit, ready to be read."""

    row: ConfigurationChange
    differences: tuple[Difference, ...]


@dataclass(frozen=True, slots=True)
class ChangeFilter:
    """The filter of rows: of this action, kind, person, subject's name, time.

    Accesses are told to those alone for whom `accesses` is true, and only when asked for.
    """

    action: str = ""
    kind: str = ""
    actor: str = ""
    name: str = ""
    since: datetime | None = None
    until: datetime | None = None
    accesses: bool = False


@dataclass(frozen=True, slots=True)
class ChangePage:
    """A page, newest first; `older` is the place where the next one begins."""

    changes: tuple[Change, ...]
    older: Place | None


def page(filters: ChangeFilter, scope: Scope, below: Place | None = None) -> ChangePage:
    """The newest changes, or those older than the place a page before ended at."""
    changes = _asked_for(filters, scope).filter(_condition(filters))
    if below is not None:
        at, number = below
        changes = changes.filter(Q(at__lt=at) | Q(at=at, pk__lt=number))
    rows = list(changes[: PAGE_ROWS + 1])
    shown = rows[:PAGE_ROWS]
    older = (shown[-1].at, shown[-1].pk) if len(rows) > PAGE_ROWS else None
    return ChangePage(tuple(_change(row) for row in shown), older)


def change(number: int, scope: Scope, *, accesses: bool = False) -> Change | None:
    """One change; None when there is none, or none this scope may know of."""
    changes = _everything() if accesses else _known(scope)
    row = changes.filter(pk=number).first()
    return None if row is None else _change(row)


def history_of(kind: str, number: int | UUID, rows: int = HISTORY_ROWS) -> list[Change]:
    """The newest changes of one thing; the caller has made sure that it may be known."""
    changes = ConfigurationChange.objects.filter(kind=kind, subject=str(number))
    return [_change(row) for row in changes.order_by("-at", "-id")[:rows]]


def kinds(scope: Scope) -> list[str]:
    """Every kind of thing that was ever changed."""
    return sorted(_known(scope).order_by().values_list("kind", flat=True).distinct())


def actors(scope: Scope) -> list[str]:
    """Everybody who ever changed something."""
    return sorted(_known(scope).order_by().values_list("actor", flat=True).distinct())


def differences(before: Values, after: Values) -> tuple[Difference, ...]:
    """Compare before and after, field by field in their order."""
    old, new = before or {}, after or {}
    names = list(dict.fromkeys([*old, *new]))
    return tuple(Difference(n, old.get(n), new.get(n), n in old, n in new) for n in names)


def everybody() -> list[str]:
    """All who may ever have done something: the accounts, and who else changed something."""
    model = get_user_model()
    accounts = model._default_manager.values_list(model.USERNAME_FIELD, flat=True)
    return sorted({*accounts}.union(actors(EVERYTHING)))


def _asked_for(filters: ChangeFilter, scope: Scope) -> QuerySet[ConfigurationChange]:
    if not filters.accesses or not filters.action:
        return _known(scope)
    if filters.action == ACCESSES:
        return _everything().filter(is_access=True)
    return _everything()


def _everything() -> QuerySet[ConfigurationChange]:
    return ConfigurationChange.every.order_by("-at", "-id")


def _known(scope: Scope) -> QuerySet[ConfigurationChange]:
    return ConfigurationChange.objects.filter(scope.within("system")).order_by("-at", "-id")


def _change(row: ConfigurationChange) -> Change:
    # Earlier versions noted what a partner had answered to a test; it may repeat a payload.
    if row.kind == "endpointtest" and row.after is not None:
        row.after = {n: v for n, v in row.after.items() if n != "excerpt"}
    return Change(row, differences(row.before, row.after))


def _condition(filters: ChangeFilter) -> Q:
    conditions = {
        "action": "" if filters.action in {ACCESSES, EVERY} else filters.action,
        "kind": filters.kind,
        "actor": filters.actor,
        "name__icontains": filters.name,
        "at__gte": filters.since,
        "at__lt": filters.until,
    }
    return Q(**{name: value for name, value in conditions.items() if value})
