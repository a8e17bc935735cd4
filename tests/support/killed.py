"""The end of a child process that kills itself at a step, as the next owner meets it."""

import signal
import time

from django.db import connection

from tests.support.warm import WarmChild

NOTICED_SECONDS = 20
# Locks of a prepared transaction belong to no session.
_HELD_BY_OTHERS = (
    "SELECT count(*) FROM pg_locks WHERE locktype = 'advisory' AND pid <> pg_backend_pid() "
    "AND database = (SELECT oid FROM pg_database WHERE datname = current_database())"
)


def await_kill(child: WarmChild, step: object) -> None:
    """Wait until the child has been killed at its step, and PostgreSQL has let go of its locks.

    A session outlives its client for a moment: a run that came in that moment would find nothing
    free, and end.
    """
    said, _ = child.communicate(timeout=60)
    assert child.returncode == -signal.SIGKILL, f"{step} was never reached: {said!r}"
    until = time.monotonic() + NOTICED_SECONDS
    while _are_locks_held():
        assert time.monotonic() < until, "the locks of a dead process are still held"
        time.sleep(0.01)


def _are_locks_held() -> bool:
    with connection.cursor() as cursor:
        cursor.execute(_HELD_BY_OTHERS)
        return cursor.fetchone() != (0,)
