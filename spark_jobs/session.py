"""The only place where a SparkSession is made."""

import logging
import os
import signal
import subprocess
import sys
import tempfile
import threading
import warnings
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Final

from spark_jobs.errors import JobError

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

LOOPBACK: Final = "127.0.0.1"
# Spark takes about this much beside its heap (measured: 2.4 GB resident at a heap of 2 GB).
BESIDE_THE_HEAP_MB: Final = 500
# All processors, and four tries of each task: in one process Spark would take one only.
LOCAL: Final = "local[*,4]"
# After that it is killed, and leaves its temporary folders.
JVM_ENDS_SECONDS: Final = 10.0
REDACTED: Final = (
    r"(?i)secret|password|passwd|token|access[.]?key|jaas|keystore|truststore|credential"
)
CONNECTORS: Final = "spark-sql-kafka-0-10_*.jar"
FIXED: Final = {
    "spark.sql.session.timeZone": "UTC",
    "spark.sql.adaptive.enabled": "true",
    # A task that two workers run would stage its rows twice.
    "spark.speculation": "false",
    "spark.ui.showConsoleProgress": "false",
    # Spark's own pages know no login; who wants them says so, and finds them on loopback.
    "spark.ui.enabled": "false",
    # What Spark leaves out of its pages and its log: its own words, and what only Kafka's client
    # calls its secrets.
    "spark.redaction.regex": REDACTED,
    "spark.sql.redaction.options.regex": REDACTED,
}


@dataclass(frozen=True, slots=True, kw_only=True)
class SessionSettings:
    """The settings of a session. `jars` is the folder of the pinned connectors.

    Without a master it is that of spark-submit, else this machine's processors. `extra` are
    settings of Spark's own and win over ours.
    """

    master: str = ""
    memory_mb: int = 1_024
    jars: Path | None = None
    extra: Mapping[str, str] = field(default_factory=dict)


def open_session(settings: SessionSettings) -> "SparkSession":
    """Make the session, or give the one that this process has; one whose JVM died is replaced.

    Raises JobError SPARK_MISSING without PySpark, SPARK_MEMORY when the machine has too little left
    for it, and SPARK_JARS_MISSING when the connectors were not fetched,
    SPARK_FAILED when it does not start.
    """
    try:
        # Half a second that only a driver pays.
        from pyspark.sql import SparkSession  # noqa: PLC0415
    except ImportError as e:
        raise JobError(
            "SPARK_MISSING",
            "PySpark is not installed where this runs.",
            "Run bulk jobs where all of requirements.txt is installed; the image leaves Spark out.",
        ) from e
    if is_alive():
        return SparkSession.builder.getOrCreate()
    close_session()
    submitted = os.environ.get("SPARK_ENV_LOADED") is not None
    is_local = settings.master.startswith("local") or not (settings.master or submitted)
    if is_local:
        _has_memory(settings.memory_mb)
    # It tells of every connection that it closes.
    logging.getLogger("py4j").setLevel(logging.WARNING)
    # Else workers would run whatever python3 is first on their path.
    os.environ.setdefault("PYSPARK_PYTHON", sys.executable)
    # Spark's own pages bind to this address, and know no login.
    os.environ.setdefault("SPARK_LOCAL_IP", LOOPBACK)
    _find_ourselves()
    builder = SparkSession.builder.appName("sluice")
    if settings.master or is_local:
        builder = builder.master(settings.master or LOCAL)
    for name, value in _configuration(settings, is_local=is_local).items():
        builder = builder.config(name, value)
    try:
        with _signals_kept():
            return builder.getOrCreate()
    except Exception as e:
        raise JobError(
            "SPARK_FAILED",
            f"Spark does not start: {str(e)[:300] or type(e).__name__}.",
            "Look whether Java 17 is installed and, for a cluster, whether its master answers.",
        ) from e


def is_alive() -> bool:
    """Return whether this process has a session that runs jobs; asks the JVM."""
    from py4j.protocol import Py4JError  # noqa: PLC0415 - as above
    from pyspark import SparkContext  # noqa: PLC0415

    context = SparkContext._active_spark_context  # noqa: SLF001 - nothing else tells without one
    if context is None:
        return False
    try:
        return not context._jsc.sc().isStopped()  # noqa: SLF001 - as above
    except (Py4JError, OSError):
        return False


def warm(session: "SparkSession", first: Callable[[int], None]) -> None:
    """Let each processor of this machine do a first task: workers are started, jobs are loaded.

    A cluster is left alone: whether it has anything to give is seen when there is work.
    """
    context = session.sparkContext
    if (context.master or "").startswith("local"):
        places = range(context.defaultParallelism)
        context.parallelize(places, len(places)).foreach(first)


def keep_workers(session: "SparkSession", task: Callable[[int], None]) -> None:
    """Give one worker of this machine a task: as long as one has some, none is ended for idleness.

    A driver that waits does that every minute, else its next job would begin with new ones.
    """
    context = session.sparkContext
    if (context.master or "").startswith("local"):
        context.parallelize([0], 1).foreach(task)


def close_session() -> None:
    """End this process's session, if there is one, whatever is left of it, with its JVM.

    PySpark keeps its gateway to the JVM while the process lives, and would talk on to a dead one.
    """
    from pyspark import SparkContext  # noqa: PLC0415 - as above
    from pyspark.sql import SparkSession  # noqa: PLC0415

    context, gateway = SparkContext._active_spark_context, SparkContext._gateway  # noqa: SLF001
    with warnings.catch_warnings(), suppress(Exception):
        # It warns of a JVM that does not answer.
        warnings.simplefilter("ignore")
        if context is not None:
            context.stop()
    if gateway is not None:
        with suppress(Exception):
            gateway.shutdown()
        if gateway.proc is not None:
            _ended(gateway.proc)
    SparkContext._active_spark_context = None  # noqa: SLF001
    SparkContext._gateway = SparkContext._jvm = None  # noqa: SLF001
    SparkSession._instantiatedSession = SparkSession._activeSession = None  # noqa: SLF001


def _ended(jvm: "subprocess.Popen[bytes]") -> None:
    """It ends by itself, and tidies up, when nothing can be read from us any more."""
    if jvm.stdin is not None:
        with suppress(OSError):
            jvm.stdin.close()
    try:
        jvm.wait(JVM_ENDS_SECONDS)
    except subprocess.TimeoutExpired:
        jvm.kill()
        jvm.wait()


@contextmanager
def _signals_kept() -> Iterator[None]:
    """PySpark takes Ctrl-C for itself; it stays with whoever opens the session."""
    if threading.current_thread() is not threading.main_thread():
        yield
        return
    heard = signal.getsignal(signal.SIGINT)
    try:
        yield
    finally:
        signal.signal(signal.SIGINT, heard or signal.default_int_handler)


def _find_ourselves() -> None:
    """Workers on this machine import what we import, wherever this process was started."""
    root = str(Path(__file__).parents[1])
    path = os.environ.get("PYTHONPATH", "")
    if root not in path.split(os.pathsep):
        os.environ["PYTHONPATH"] = os.pathsep.join(filter(None, [root, path]))


def _configuration(settings: SessionSettings, *, is_local: bool) -> dict[str, str]:
    options = {**FIXED, "spark.driver.memory": f"{settings.memory_mb}m"}
    if is_local:
        options |= {"spark.driver.host": LOOPBACK, "spark.driver.bindAddress": LOOPBACK}
        # The JVM knows nothing of TMPDIR, and has Spark's blocks and native libraries there.
        java = f'"-Djava.io.tmpdir={tempfile.gettempdir()}"'
        options["spark.driver.extraJavaOptions"] = java
    if settings.jars is not None:
        options["spark.jars"] = ",".join(map(str, _jars(settings.jars)))
    return options | dict(settings.extra)


def _jars(folder: Path) -> list[Path]:
    if not any(folder.glob(CONNECTORS)):
        raise JobError(
            "SPARK_JARS_MISSING",
            f"The folder {folder} has no connector of Spark for Kafka.",
            "Fetch the pinned jars with `python -m devstack setup --spark`, or name their folder.",
        )
    return sorted(folder.glob("*.jar"))


def _has_memory(heap_mb: int) -> None:
    """Linux says what it could still give; where it says nothing, nothing is refused."""
    try:
        lines = Path("/proc/meminfo").read_text().splitlines()
    except OSError:
        return
    sizes = {line.split(":")[0]: int(line.split()[1]) // 1_024 for line in lines if " kB" in line}
    free, needed = sizes.get("MemAvailable"), heap_mb + BESIDE_THE_HEAP_MB
    if free is not None and free < needed:
        raise JobError(
            "SPARK_MEMORY",
            f"Spark needs {needed:,} MB, and the machine has {free:,} MB left.",
            "Wait until other programs have ended, or give Spark less memory.",
        )
