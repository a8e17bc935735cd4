"""The delay before a bulk run that was asked for has its first task at work, on a warm driver."""

import json
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager
from datetime import datetime
from pathlib import Path
from statistics import median
from typing import Final

import psycopg

from bench.figure import Figure, below
from bench.ground import Ground
from bench.rig import READY_SECONDS, Rig

NAME: Final = "spark_warm_start"
# One range, and work enough for its task to be seen: about a second.
ROWS: Final = 60_000
# Spark ends workers of Python that had nothing to do for a minute.
IDLE_SECONDS: Final = 65.0
_LOOK_SECONDS: Final = 0.02
_STRUCTURE: Final = """
INSERT INTO integration_objectstructure (name, description, key_paths, version_path, tombstone)
VALUES (%s, '', '["$.assetnum"]', '', 'hold')
"""
# A task opens a session of its own before it reads its range.
_TASKS: Final = """
SELECT backend_start FROM pg_stat_activity
WHERE datname = current_database() AND application_name = 'sluice import'
"""
_ENDED: Final = """
SELECT extract(epoch FROM asked_at)::float8, state, counts FROM integration_bulkrun
WHERE id = %s AND ended_at IS NOT NULL
"""


def spark_warm_start(ground: Ground) -> Figure:
    """Measure from the row of the run to the first statement of its first task."""
    rounds = 2 if ground.quick else 5
    with ground.rig(NAME) as rig:
        _set_up(rig)
        source = _a_file(rig.folder / "assets.csv")
        with _seen_tasks(rig) as begun:
            _round(rig, source, begun)
            sample = [_round(rig, source, begun) for _ in range(rounds)]
            if not ground.quick:
                time.sleep(IDLE_SECONDS)
            idle = _round(rig, source, begun)
    times = [milliseconds for milliseconds, _ in [*sample, idle]]
    return Figure(
        name=NAME,
        value=median(times[:rounds]),
        unit="ms",
        n=rounds,
        against="from asked for to the first task's session with the database; median",
        target=below("value", 1_500),
        claims={"every row is read": all(is_whole for _, is_whole in [*sample, idle])},
        facts={
            "longest_ms": round(max(times[:rounds])),
            "after_a_minute_idle_ms": round(times[-1]),
        },
    )


def _set_up(rig: Rig) -> None:
    rig.write(_STRUCTURE, [NAME])
    rig.configure(
        {"name": NAME, "topic": rig.topic(NAME), "kind": "continuous", "interface": "BenchBatch"}
    )
    rig.start("spark")
    rig.until(
        lambda: rig.rows("SELECT 1 FROM crontasks_heartbeat WHERE queues = 'spark'"),
        "the Spark driver is warm",
        READY_SECONDS,
    )


def _a_file(path: Path) -> Path:
    with path.open("w") as opened:
        opened.write("ASSETNUM,DESCRIPTION\n")
        opened.writelines(f"A-{number},{'x' * 80}\n" for number in range(ROWS))
    return path


@contextmanager
def _seen_tasks(rig: Rig) -> Iterator[set[datetime]]:
    """Note when tasks begin, as they are seen in the database; the set grows meanwhile."""
    begun: set[datetime] = set()
    over = threading.Event()

    def look() -> None:
        with psycopg.connect(rig.database_url, autocommit=True) as session:
            while not over.wait(_LOOK_SECONDS):
                begun.update(at for (at,) in session.execute(_TASKS).fetchall())

    thread = threading.Thread(target=look, name="seen tasks", daemon=True)
    thread.start()
    try:
        yield begun
    finally:
        over.set()
        thread.join()


def _round(rig: Rig, source: Path, begun: set[datetime]) -> tuple[float, bool]:
    """One run: milliseconds to its first task, and whether all of it was read."""
    begun.clear()
    output = rig.manage(
        *("bulk_import", str(source), "--structure", NAME, "--rejects-queue", NAME),
        *("--map", "ASSETNUM=assetnum!", "--map", "DESCRIPTION=description", "--leave"),
    )
    run = json.loads(output.splitlines()[-1])["run"]
    rig.until(lambda: rig.rows(_ENDED, [run]), "the run has ended")
    [(asked_at, state, counts)] = rig.rows(_ENDED, [run])
    is_whole = state == "DONE" and counts["read"] == ROWS
    return 1_000 * (min(begun).timestamp() - asked_at), is_whole
