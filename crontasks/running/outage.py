"""What kept the database from serving, and the end of a Celery task under which it goes away."""

import logging
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Final

from django.db import Error as AnyDatabaseError
from django.db import InterfaceError

from integration.actions.errors import RowBusyError
from integration.handlers.failures import classify
from integration.policy.failure import FailureClass

logger = logging.getLogger(__name__)
# Errors of the server that pass: it has no memory, disk or connection left, is stopped, cannot read
# its files, or has ended a session that was idle for too long.
PASSING: Final = ("53", "57P", "58", "25P03", "25P04")


def is_of_database(error: BaseException) -> bool:
    """Return whether the database is down, full or cut off; not a lock, deadlock or wrong value.

    A mistake that was made while such an error was handled has it behind it, and stays a mistake.
    """
    # Django's own, without a cause: a connection that broke in a transaction is not opened anew.
    if isinstance(error, InterfaceError):
        return True
    failure = classify(error, by_cause=True)
    return failure.kind is FailureClass.OUTAGE and failure.code.startswith("DATABASE_")


def is_outage(error: BaseException) -> bool:
    """Return whether the database is away, or says that it cannot serve anybody for now."""
    sqlstate: str | None = getattr(error.__cause__, "sqlstate", None)
    return is_of_database(error) or (sqlstate or "").startswith(PASSING)


def is_of_others(error: BaseException) -> bool:
    """Return whether others at work in the database were in the way; what was begun is undone."""
    if not isinstance(error, AnyDatabaseError | RowBusyError):
        return False
    failure = classify(error, by_cause=True)
    return failure.kind is FailureClass.CONFLICT or failure.code == "LOCK_NOT_AVAILABLE"


@contextmanager
def in_one_line(
    what: str,
    *,
    then: str = "it is tried again",
    send_again: Callable[[], object] | None = None,
) -> Iterator[None]:
    """End the block when the database goes away; everything else is raised as it is.

    Nothing is lost by it: what the task was to do stands in the database, and the dispatcher asks
    again; where it does not, `send_again` is called. The line says `then` what becomes of it. A
    traceback for each pool process would bury what matters.
    """
    try:
        yield
    except Exception as e:
        if not is_of_database(e):
            raise
        why = str(e).strip().split("\n")[0]
        logger.warning("%s ended because the database went away; %s. %s", what, then, why)
        if send_again is not None:
            send_again()
