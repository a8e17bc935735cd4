"""The part of a cursor that SQL of this room needs, so that it runs on Django's and a raw one."""

from collections.abc import Iterator, Sequence
from contextlib import AbstractContextManager, contextmanager
from typing import Any, Protocol

from django.conf import settings
from django.db import connections


class Cursor(Protocol):
    """A psycopg cursor or Django's wrapper of one."""

    def execute(self, sql: Any, params: Any = None, /) -> object: ...

    @property
    def rowcount(self) -> int: ...

    def fetchone(self) -> Any: ...

    def fetchall(self) -> Sequence[Any]: ...


class Session(Protocol):
    """Gives cursors: Django's connection or a raw one."""

    def cursor(self) -> AbstractContextManager[Any]: ...


@contextmanager
def django_cursor() -> Iterator[Cursor]:
    """A cursor on Django's own connection to the engine's database."""
    with connections[settings.SLUICE_DATABASE].cursor() as cursor:
        yield cursor
