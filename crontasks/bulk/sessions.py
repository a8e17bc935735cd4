"""The Spark session of this process, as the settings describe it, and how a driver keeps it."""

import logging
import time
from typing import Final

from django.conf import settings

from spark_jobs.problems import JobError
from spark_jobs.running import loaded
from spark_jobs.session import SessionSettings, keep_workers, open_session, warm

UI: Final = "spark.ui.enabled"
# Spark ends workers of Python after a minute without a task.
KEPT_SECONDS: Final = 40.0
logger = logging.getLogger(__name__)


def session_settings() -> SessionSettings:
    """What the installation's settings say of Spark."""
    shown = {UI: "true"} if settings.SLUICE_SPARK_UI else {}
    return SessionSettings(
        master=settings.SLUICE_SPARK_MASTER,
        memory_mb=settings.SLUICE_SPARK_MEMORY_MB,
        jars=settings.SLUICE_SPARK_JARS,
        extra={**shown, **settings.SLUICE_SPARK_CONF},
    )


class Keeper:
    """Keeps a session open between runs: one that died is replaced before it is needed.

    Where none can be had the driver lives on, and each run is told why.
    """

    def __init__(self) -> None:
        self._known = ""
        self._told = ""
        self._looked = 0.0

    def keep(self) -> None:
        """Open a session and warm it unless there is one; what is in the way is logged once."""
        try:
            self._open()
        except JobError as e:
            if e.code != self._told:
                logger.warning("no spark: %s", e.text, extra={"code": e.code})
            self._told = e.code
        except Exception:
            # Of a JVM that dies meanwhile; the next look finds it dead.
            logger.exception("spark could not be kept warm")
        else:
            self._told = ""

    def _open(self) -> None:
        session = open_session(session_settings())
        name = session.sparkContext.applicationId
        if name != self._known:
            warm(session, loaded)
            self._known = name
            logger.info("spark is warm", extra={"application": name})
        elif time.monotonic() - self._looked >= KEPT_SECONDS:
            keep_workers(session, loaded)
        else:
            return
        self._looked = time.monotonic()
