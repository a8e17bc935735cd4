"""An archive of the classes that Spark loads, so that the JVMs of tests start in half the time.

`python -m tests.support.class_archive` makes it, if nobody has or is about to; Java itself sees
whether it fits, and does without where it does not or is not there yet. Making it takes half a
minute, beside the tests; it is kept in the user's cache for as long as Spark's jars and Java are
the same, and lie where they did.
"""

import fcntl
import hashlib
import os
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path
from typing import Any, Final

from devstack import paths

ROOT: Final = Path(__file__).resolve().parents[2]
KEPT: Final = paths.cached("spark-classes")
# Of so many environments; each takes 170 MB.
MOST: Final = 3


def _key() -> str:
    """What decides whether Java takes an archive, and what is in it.

    Java wants the jars under the same paths, as old as they were, and in the order in which the
    folder lists them.
    """
    home = os.environ.get("JAVA_HOME")
    java = (Path(home, "bin", "java") if home else Path(shutil.which("java") or "java")).resolve()
    found = paths.in_packages("pyspark/jars/ivy-*.jar")
    jars = list(found.parent.iterdir()) if found else []
    looked = hashlib.sha256(Path(__file__).read_bytes())
    for file in (java.parents[1] / "lib" / "modules", *jars):
        with suppress(OSError):
            stat = file.stat()
            looked.update(f"{file} {stat.st_size} {stat.st_mtime_ns}\n".encode())
    return looked.hexdigest()[:16]


ARCHIVE: Final = KEPT / f"{_key()}.jsa"
# The quick compiler and the plain collector suit a JVM best that lives for seconds. Remarks on an
# archive that does not fit would stand among what a job prints.
SHORT_LIVED: Final = "-XX:TieredStopAtLevel=1 -XX:+UseSerialGC -Xlog:disable"
# Java else moves it about in memory, for safety, which takes half a second.
IN_PLACE: Final = "-XX:+UnlockDiagnosticVMOptions -XX:ArchiveRelocationMode=0"
USED: Final = f'{SHORT_LIVED} {IN_PLACE} "-XX:SharedArchiveFile={ARCHIVE}"'
# What saves time with the few rows of a test, and changes no row: operators are interpreted where
# Spark would write and compile a class for each, and a shuffle has few parts.
QUICK: Final = {
    "spark.sql.codegen.wholeStage": "false",
    "spark.sql.codegen.factoryMode": "NO_CODEGEN",
    "spark.sql.shuffle.partitions": "4",
}
WRITTEN_WITHIN_SECONDS: Final = 120.0


def have_one_made() -> None:
    """Let it be made beside this process, if it is not there."""
    if ARCHIVE.exists():
        # Those that were used last are kept.
        ARCHIVE.touch()
    else:
        making = subprocess.Popen(
            [sys.executable, "-m", "tests.support.class_archive"],
            cwd=ROOT,
            stdin=subprocess.DEVNULL,
            stdout=subprocess.DEVNULL,
            stderr=subprocess.DEVNULL,
            start_new_session=True,
        )
        # Nobody waits for it; without this Popen would warn of that.
        making.returncode = 0


def main() -> None:
    with (KEPT / "lock").open("w") as lock:
        try:
            fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            return
        if not ARCHIVE.exists():
            _make()


def _make() -> None:
    from spark_jobs import session  # noqa: PLC0415 - who only asks for the path needs no PySpark

    new = ARCHIVE.with_suffix(".new")
    new.unlink(missing_ok=True)
    # Java writes it as it ends.
    session.JVM_ENDS_SECONDS = WRITTEN_WITHIN_SECONDS
    options = f'{SHORT_LIVED} "-XX:ArchiveClassesAtExit={new}"'
    spark = session.open_session(
        session.SessionSettings(
            master="local[2,4]", extra={**QUICK, "spark.driver.extraJavaOptions": options}
        )
    )
    with tempfile.TemporaryDirectory() as folder:
        _train(spark, Path(folder) / "rows")
    session.close_session()
    new.rename(ARCHIVE)
    for old in sorted(KEPT.glob("*.jsa"), key=lambda one: one.stat().st_mtime)[:-MOST]:
        old.unlink()


def _train(spark: Any, folder: Path) -> None:
    """Do what bulk jobs do with Spark, as they do it."""
    from spark_jobs.tables import parquet  # noqa: PLC0415 - as above
    from spark_jobs.tables.columns import Column, ColumnKind  # noqa: PLC0415 - as above

    own = parquet.settled(spark)
    counted = spark.sparkContext.accumulator(0)
    columns = [
        Column("id", ColumnKind.WHOLE, "id"),
        Column("at", ColumnKind.MOMENT, "at"),
        Column("payload", ColumnKind.BYTES, "payload"),
        Column("is_old", ColumnKind.FLAG, "is_old"),
        Column("day", ColumnKind.TEXT, "day"),
    ]

    def rows(part: int) -> Iterator[tuple[Any, ...]]:
        for number in range(100):
            counted.add(1)
            yield number, number, b"x", part == 0, f"day-{part}"

    parquet.write(parquet.frame(own, [0, 1], columns, rows), folder, by="day")
    paths = sorted(folder.glob("day=*/*.parquet"))
    back = parquet.read(own, folder, paths, columns[:-1])
    parquet.tallies(back)
    parquet.counts(own, folder)
    list(back.rdd.map(len).toLocalIterator())


if __name__ == "__main__":
    main()
