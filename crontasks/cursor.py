"""The part of a cursor that SQL of this room needs, so that it runs on Django's and a raw one."""

from collections.abc import Sequence
from contextlib import AbstractContextManager
from typing import Any, Protocol


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
