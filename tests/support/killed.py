"""The end of an owner, as the next one meets it: its locks are free a moment after it."""

import signal

from django.db import connection

from tests.support.celery_world import eventually
from tests.support.warm import WarmChild

# Locks of a prepared transaction belong to no session.
_HELD_BY_OTHERS = (
    "SELECT count(*) FROM pg_locks WHERE locktype = 'advisory' AND pid <> pg_backend_pid() "
    "AND database = (SELECT oid FROM pg_database WHERE datname = current_database())"
)


def await_kill(child: WarmChild, step: object) -> None:
    """Wait until the child has been killed at its step, and its locks are free."""
    said, _ = child.communicate(timeout=60)
    assert child.returncode == -signal.SIGKILL, f"{step} was never reached: {said!r}"
    await_free_locks()


def await_free_locks() -> None:
    """Wait until no session but this one holds an advisory lock in this database.

    A session outlives its client for a moment: who came in that moment would find nothing free.
    """
    eventually(_are_locks_free)


def _are_locks_free() -> bool:
    with connection.cursor() as cursor:
        cursor.execute(_HELD_BY_OTHERS)
        return cursor.fetchone() == (0,)
