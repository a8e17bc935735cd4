"""Whether this database belongs to this installation."""

from integration.store import deployments
from integration.store.sessions import django_connection


def foreign_environment() -> str | None:
    """The environment this database belongs to if that is not ours; None when it may act."""
    with django_connection().cursor() as cursor:
        return deployments.foreign_environment(cursor)
