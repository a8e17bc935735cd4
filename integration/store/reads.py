"""Which database is read: the engine's own, or a standby of it for pages that may be a bit behind.

Only inside of `reading_standby` and only there. Whatever writes, and whatever decides, goes to the
engine's own.
"""

from collections.abc import Iterator
from contextlib import contextmanager
from contextvars import ContextVar
from typing import Any, Final

from django.conf import settings

_READS_STANDBY: Final = ContextVar("reads a standby", default=False)


def standby() -> str | None:
    """The Django alias of the standby, where it is to be read now; else None."""
    return str(settings.SLUICE_REPLICA) if _READS_STANDBY.get() else None


@contextmanager
def reading_standby() -> Iterator[None]:
    """Read the standby within the block. It takes no writes."""
    before = _READS_STANDBY.set(True)
    try:
        yield
    finally:
        _READS_STANDBY.reset(before)


class Router:
    """Django's database router for it, where an installation names a standby.

    A row that was read from there is written to the engine's own, as if it had been read there.
    """

    def db_for_read(self, model: Any, **hints: Any) -> str | None:  # noqa: ARG002 - the signature
        return standby() or self._own(hints)

    def db_for_write(self, model: Any, **hints: Any) -> str | None:  # noqa: ARG002 - as above
        return self._own(hints)

    def allow_relation(self, one: Any, other: Any, **_: Any) -> bool | None:
        ours = {settings.SLUICE_DATABASE, settings.SLUICE_REPLICA}
        return True if {one._state.db, other._state.db} <= ours else None  # noqa: SLF001

    def allow_migrate(self, db: str, *_: Any, **__: Any) -> bool | None:
        return False if db == settings.SLUICE_REPLICA else None

    @staticmethod
    def _own(hints: Any) -> str | None:
        state = getattr(hints.get("instance"), "_state", None)
        from_standby = state is not None and state.db == settings.SLUICE_REPLICA
        return str(settings.SLUICE_DATABASE) if from_standby else None
