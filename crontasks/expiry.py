"""The time after which a Celery task is worthless, by the database's clock.

Celery would tell it by the clock of the host that sends and judge it by the worker's: one whose
clock is ahead would throw away whatever it takes.
"""

import logging
from datetime import datetime, timedelta
from typing import Any, Final

from celery import current_task

from integration.store.sessions import database_time

HEADER: Final = "worthless_after"
logger = logging.getLogger(__name__)


def expires_in(seconds: float) -> dict[str, str]:
    """Return the headers of a task that no worker is to begin after so many seconds.

    Raises what the database raises.
    """
    return {HEADER: (database_time() + timedelta(seconds=seconds)).isoformat()}


def has_expired() -> bool:
    """Return whether the task that runs here waited too long for its worker.

    One that was sent without a limit never did. Raises what the database raises.
    """
    request: Any = getattr(current_task, "request", None)
    until = (getattr(request, "headers", None) or {}).get(HEADER)
    if until is None or database_time() <= datetime.fromisoformat(until):
        return False
    logger.info("a task waited too long for a worker", extra={"task": current_task.name})
    return True
