"""One side of a benchmark on Spark: a process with a warm session that does what a table asks."""

import json
import os
import time
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any, Final

import psycopg

from bench.rig import Rig
from devstack.supervise import Process
from spark_jobs.session import SessionSettings, open_session

TABLE: Final = """
CREATE TABLE bench_spark (id serial PRIMARY KEY, side text NOT NULL, said jsonb NOT NULL,
  seconds double precision, counts jsonb)
"""
_NEXT: Final = (
    "SELECT id, said FROM bench_spark WHERE side = %s AND seconds IS NULL ORDER BY id LIMIT 1"
)
_DONE: Final = "UPDATE bench_spark SET seconds = %s, counts = %s WHERE id = %s"
LOOK_SECONDS: Final = 0.1
PATIENCE_SECONDS: Final = 1_800.0
Counts = Mapping[str, int]


def serve(side: str, act: Callable[[Mapping[str, Any]], Counts]) -> None:
    """Do one thing after the other that is asked of this side, and note how long each took."""
    with psycopg.connect(os.environ["SLUICE_DATABASE_URL"], autocommit=True) as session:
        while True:
            request = session.execute(_NEXT, [side]).fetchone()
            if request is None:
                time.sleep(LOOK_SECONDS)
                continue
            began = time.monotonic()
            counts = act(request[1])
            seconds = time.monotonic() - began
            session.execute(_DONE, [seconds, json.dumps(dict(counts)), request[0]])


def ask(rig: Rig, side: str, process: Process, request: Mapping[str, Any]) -> tuple[float, Counts]:
    """Let a side do something; returns the seconds it took, and what it counted."""
    number = rig.value(
        "INSERT INTO bench_spark (side, said) VALUES (%s, %s) RETURNING id",
        [side, json.dumps(request)],
    )
    query = "SELECT seconds, counts FROM bench_spark WHERE id = %s AND seconds IS NOT NULL"
    await_it(rig, process, lambda: rig.rows(query, [number]), f"{side} is done")
    [(seconds, counts)] = rig.rows(query, [number])
    return seconds, counts


def await_it(rig: Rig, process: Process, holds: Callable[[], object], what: str) -> None:
    """Wait until it holds; raise BenchmarkError when the process ends before."""
    rig.until(lambda: holds() or not process.is_alive(), what, PATIENCE_SECONDS)
    if not holds():
        rig.until(lambda: False, f"{what}; {process.name} ended: {process.last_line()}", 0)


def session_of(master: str = "") -> Any:
    """A session with the settings that Sluice's own has; no master is all processors."""
    jars = os.environ.get("SLUICE_SPARK_JARS")
    return open_session(SessionSettings(master=master, jars=Path(jars) if jars else None))
