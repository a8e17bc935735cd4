"""Whether this database belongs to this installation, and whether it answers."""

from django.db import DatabaseError, connection

from integration.store import deployments
from integration.store.sessions import django_connection


def foreign_environment() -> str | None:
    """The environment this database belongs to if that is not ours; None when it may act."""
    with django_connection().cursor() as cursor:
        return deployments.foreign_environment(cursor)


def database_answers() -> bool:
    """Whether a trivial statement gets an answer."""
    try:
        with connection.cursor() as cursor:
            cursor.execute("SELECT 1")
            return bool(cursor.fetchone() == (1,))
    except DatabaseError:
        return False
