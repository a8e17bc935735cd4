"""The check whether this database belongs to this installation, and may act."""

from integration.store import deployments
from integration.store.deployments import Standing
from integration.store.sessions import django_connection


def foreign_environment() -> str | None:
    """Return the database's owner if it is not us; None when it belongs to this installation."""
    with django_connection().cursor() as cursor:
        return deployments.foreign_environment(cursor)


def may_act() -> bool:
    """Return whether anything may be read, sent, delivered or accepted with this database."""
    with django_connection().cursor() as cursor:
        return deployments.may_act(cursor)


def standing() -> Standing:
    """Tell how this database stands to this process; change nothing."""
    with django_connection().cursor() as cursor:
        return deployments.standing(cursor)
