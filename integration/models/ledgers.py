"""Ledgers of message ids: what one endpoint has delivered must not be a repeat for another."""

from collections import defaultdict
from collections.abc import Iterable
from typing import Any, ClassVar, Final

from integration.endpoints import properties
from integration.endpoints.declared import Ledger
from integration.errors import IntegrationError

ELSEWHERE: Final = "one of another external system"


class LedgerSharedError(IntegrationError):
    """Two endpoints keep the ids of what they have delivered in one ledger, for two places."""

    code: ClassVar[str] = "LEDGER_SHARED"

    def __init__(self, others: Iterable[str]) -> None:
        named = ", ".join(others)
        super().__init__(
            f"Another endpoint ({named}) keeps its message ids in the same table and writes to "
            "another target: a message with an id that it has delivered would be taken for a "
            "repeat here, and not be written.",
            next_step="Name another table of message ids, and make it there first.",
        )


def check_ledger(endpoint: Any) -> None:
    """Raises LedgerSharedError where this endpoint would begin to share a ledger.

    One that shares it already can be changed otherwise: a secret may have to be.
    """
    kept = _ledger(endpoint)
    if kept is None:
        return
    rows = type(endpoint)._default_manager
    stored = rows.filter(pk=endpoint.pk).first()
    if stored is not None and _ledger(stored) == kept:
        return
    others = rows.filter(endpoint_type=endpoint.endpoint_type).exclude(pk=endpoint.pk)
    if shared := sharing([endpoint], others):
        raise LedgerSharedError(shared[endpoint.pk])


def sharing(endpoints: Iterable[Any], others: Iterable[Any]) -> dict[Any, tuple[str, ...]]:
    """Return by primary key which others keep ids in the same ledger for another place.

    Endpoints of another external system are not named: who reads it may not know of them.
    """
    known: defaultdict[Any, list[Any]] = defaultdict(list)
    for other in others:
        if (ledger := _ledger(other)) is not None:
            known[ledger.kept_in].append((ledger.place, other))
    found: dict[Any, tuple[str, ...]] = {}
    for one in endpoints:
        if (ledger := _ledger(one)) is None:
            continue
        beside = known.get(ledger.kept_in, ())
        if names := {_named(other, one) for place, other in beside if place != ledger.place}:
            found[one.pk] = tuple(sorted(names))
    return found


def has_ledger(endpoint: Any) -> bool:
    """Return whether it keeps ids where another endpoint could, too."""
    return _ledger(endpoint) is not None


def _ledger(endpoint: Any) -> Ledger | None:
    return properties.ledger_of(endpoint.endpoint_type, endpoint.properties)


def _named(other: Any, endpoint: Any) -> str:
    return str(other) if other.system_id == endpoint.system_id else ELSEWHERE
