"""Nothing is accepted by a database that may not act: the sender keeps what it has."""

import time
from typing import ClassVar, Final

from integration.errors import IntegrationError
from integration.restore.examining import NotOursError
from integration.store import deployments
from integration.store.sessions import django_connection

# Every request asks; the answer changes once in years.
KNOWN_SECONDS: Final = 1.0


class RestoredDatabaseError(IntegrationError):
    """The database went back, and what that means was not looked at yet."""

    code: ClassVar[str] = "RESTORED_DATABASE"

    def __init__(self) -> None:
        super().__init__(
            "The database of this installation was restored, so nothing is accepted for the "
            "moment; nothing was stored.",
            next_step="Send it again later, with the same Idempotency-Key.",
        )


class _Known:
    """That this process's database was found fit to act, and when. A refusal is never kept."""

    fit_at: float = float("-inf")


def refuse_if_held() -> None:
    """Raises NotOursError or RestoredDatabaseError where nothing may be accepted."""
    now = time.monotonic()
    if now - _Known.fit_at < KNOWN_SECONDS:
        return
    with django_connection().cursor() as cursor:
        if not deployments.may_act(cursor):
            owner = deployments.standing(cursor).owner
            raise RestoredDatabaseError if owner is None else NotOursError(owner)
    _Known.fit_at = now
