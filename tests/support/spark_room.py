"""The folder for what Spark puts into a temporary one: blocks, artifacts, native libraries.

A JVM that is killed leaves them there, and tests kill many. The folder goes with its tester, after
the JVM that lives as long; that of a tester that was killed goes with the next run's sweep.
"""

import atexit
import functools
import os
import shutil
import sys
import tempfile
from pathlib import Path

from devstack.supervise import Process
from tests.support.servers import PREFIX


@functools.cache
def room() -> Path:
    """This process's own."""
    folder = Path(tempfile.mkdtemp(prefix=PREFIX))
    Process("owner", folder).remember(os.getpid())
    atexit.register(_leave, folder, os.getpid())
    return folder


def _leave(folder: Path, owner: int) -> None:
    if os.getpid() != owner:
        return
    if "pyspark" in sys.modules:
        from spark_jobs.session import close_session  # noqa: PLC0415 - where there is none

        close_session()
    shutil.rmtree(folder, ignore_errors=True)
