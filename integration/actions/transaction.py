"""The transaction of a person's decision: short, and never waiting long for a row."""

from collections.abc import Iterator
from contextlib import contextmanager
from functools import partial
from typing import Final

from django.db import OperationalError, connection, transaction
from psycopg.errors import DeadlockDetected, LockNotAvailable

from integration.actions.errors import RowBusyError

# The engine may hold a row for as long as a handler runs; a person's request does not wait so long.
PATIENCE_MS: Final = 3_000


@contextmanager
def short_transaction() -> Iterator[None]:
    """Commit together what is written within. Raises RowBusyError instead of waiting long."""
    commits: list[bool] = []
    try:
        with transaction.atomic():
            # The first of the hooks: where another one fails, what is written within is stored.
            transaction.on_commit(partial(commits.append, True))
            with connection.cursor() as cursor:
                cursor.execute(f"SET LOCAL lock_timeout = {PATIENCE_MS}")
            yield
    except OperationalError as failure:
        if not commits and isinstance(failure.__cause__, LockNotAvailable | DeadlockDetected):
            raise RowBusyError from failure
        raise
