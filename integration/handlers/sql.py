"""A bare cursor for handlers that write plain SQL by the thousand."""

from typing import Any

from django.conf import settings
from django.db import connections


class _Kept:
    """The cursor of the session it belongs to; another session gets another cursor."""

    session: Any = None
    cursor: Any = None


_kept = _Kept()


def cursor() -> Any:  # noqa: ANN401 - psycopg.Cursor, untyped through Django's wrapper
    """The psycopg cursor of the engine's own session: same transaction, a third of the cost.

    Django's wrapper costs about 20 µs a statement, a prepared upsert about 57 µs. Use it for one
    statement after the other, do not close it, and do not keep it between messages. Errors are
    psycopg's own; the engine classifies them like Django's.
    """
    connection = connections[settings.SLUICE_DATABASE]
    connection.ensure_connection()
    if _kept.session is not connection.connection:
        _kept.session = connection.connection
        _kept.cursor = connection.connection.cursor()
    return _kept.cursor
