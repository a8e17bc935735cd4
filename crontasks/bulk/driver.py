"""The Spark driver: a Celery worker for one run at a time, with a session that outlives them."""

import logging
import os
import time
from typing import Any, Final
from uuid import UUID

from celery import signals

from crontasks.bulk.driving import drive, session_settings, stops
from crontasks.celery_app import app
from crontasks.health.consumer import signs
from crontasks.health.live_processes import SPARK
from crontasks.hearts import worker_node
from crontasks.running import shutdown
from integration.selectors.deployment import may_act
from spark_jobs.errors import JobError
from spark_jobs.running import loaded
from spark_jobs.session import close_session, keep_workers, open_session, warm

KEEP_SECONDS: Final = 5.0
# Spark ends workers of Python after a minute without a task.
KEPT_SECONDS: Final = 40.0
ALONE: Final = ("-P", "solo", "-c", "1")
logger = logging.getLogger(__name__)


def serve(run: UUID, hostname: str) -> None:
    """Drive a run that was sent here, unless somebody has it or it has ended. Raises DatabaseError.

    When this worker is told to end, the run is given back.
    """
    if not may_act():
        return
    ended = drive(run, owner=worker_node(hostname), heed=_heed, gives_back=True)
    if ended is not None:
        logger.info("bulk run driven", extra={"run": str(run), "state": ended.state})


def _heed() -> None:
    if shutdown.is_announced():
        raise stops()


class Keeper:
    """Keeps a session open between runs: one that died is replaced before it is needed.

    Where none can be had the driver lives on, and each run hears why.
    """

    def __init__(self) -> None:
        self._known = ""
        self._logged = ""
        self._kept_at = 0.0

    def keep(self) -> None:
        """Open a session and warm it unless there is one; what is in the way is logged once."""
        try:
            self._open()
        except JobError as e:
            if e.code != self._logged:
                logger.warning("no spark: %s", e.text, extra={"code": e.code})
            self._logged = e.code
        except Exception:
            # Of a JVM that dies meanwhile; the next look finds it dead.
            logger.exception("spark could not be kept warm")
        else:
            self._logged = ""

    def _open(self) -> None:
        session = open_session(session_settings())
        name = session.sparkContext.applicationId
        if name != self._known:
            warm(session, loaded)
            self._known = name
            logger.info("spark is warm", extra={"application": name})
        elif time.monotonic() - self._kept_at >= KEPT_SECONDS:
            keep_workers(session, loaded)
        else:
            return
        self._kept_at = time.monotonic()


def _keep(keeper: Keeper) -> None:
    """A session that died takes its time to be replaced, and nothing is consumed meanwhile."""
    signs.begin_work()
    try:
        keeper.keep()
    finally:
        signs.end_work()


def live(name: str, log_level: str) -> None:
    """Be the driver until the process is told to end."""
    # Before anything is consumed: the first run finds a session, or hears why there is none.
    keeper = Keeper()
    keeper.keep()

    def begin(sender: Any, **_: Any) -> None:
        # In the thread that also drives: a session is never replaced under a run.
        sender.timer.call_repeatedly(KEEP_SECONDS, _keep, (keeper,))

    signals.worker_ready.connect(begin, weak=False)
    try:
        app.worker_main(["worker", "-Q", SPARK, *ALONE, "-n", name, "-l", log_level])
    finally:
        logger.info("the spark driver ends", extra={"pid": os.getpid()})
        close_session()
