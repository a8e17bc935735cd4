"""Which queues can commit in two phases, and with which other database."""

from collections.abc import Mapping
from typing import Any, Final, Protocol

from django.conf import settings

_PLACE: Final = ("HOST", "PORT", "NAME")
POSTGRESQL: Final = "postgresql"


def other_databases() -> list[str]:
    """Return the aliases of PostgreSQL databases that are not the engine's."""
    known: Mapping[str, Mapping[str, Any]] = settings.DATABASES
    own = _place(known[settings.SLUICE_DATABASE])
    return sorted(
        alias
        for alias, where in known.items()
        if where["ENGINE"].endswith(POSTGRESQL) and _place(where) != own
    )


def _place(where: Mapping[str, Any]) -> list[Any]:
    return [where.get(name) for name in _PLACE]


class Committing(Protocol):
    """A queue, as far as it matters here."""

    is_error_queue: bool
    concurrency: int
    two_phase: bool
    second_database: str


def mistakes(queue: Committing, *, is_read: bool, is_jms: bool) -> dict[str, str]:
    """Say by field what is wrong with these settings of a queue."""
    second, alone = queue.second_database, queue.concurrency == 1
    can = is_read and alone and not (is_jms or queue.is_error_queue)
    if queue.two_phase and not can:
        text = "Only an inbound queue of Kafka with a concurrency of 1 can: leave it off."
        return {"two_phase": text}
    if second and not queue.two_phase:
        return {"second_database": "Only a two-phase commit takes another database along."}
    if second and second not in other_databases():
        text = f"SLUICE_OTHER_DATABASES names no other database {second!r} of PostgreSQL."
        return {"second_database": text}
    return {}
