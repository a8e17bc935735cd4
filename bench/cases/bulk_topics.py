"""The cost of telling for five million offsets what became of each of them."""

import json
import subprocess
import time
from collections.abc import Iterator
from typing import Any, Final

import psutil

from bench.figure import Figure, below
from bench.ground import Ground
from bench.rig import BenchmarkError, Rig
from devstack import paths

QUEUE: Final = "reconciled"
BATCH: Final = 500
LOST: Final = 100
HELD: Final = 1_000
DOUBLED: Final = 500
MEGABYTE: Final = 2**20
LOOK_SECONDS: Final = 0.1
# As an engine would have left them that lost some messages, doubled a batch, and held others.
_PASSED: Final = """
UPDATE integration_queuepartition SET next_offset = %(count)s, low_watermark = 0
WHERE queue_id = %(queue)s
"""
_BATCHES: Final = """
INSERT INTO integration_batchlog
  (number, partition_id, topic_uuid, from_offset, to_offset, committed_at)
SELECT n + 1, p.id, p.topic_uuid, n * %(batch)s, (n + 1) * %(batch)s - 1, clock_timestamp()
FROM integration_queuepartition p, generate_series(0, %(count)s / %(batch)s - 1) n
WHERE p.queue_id = %(queue)s
"""
_TRACKS: Final = """
INSERT INTO integration_messagetrack (queue_id, partition, "offset", arrival_batch, message_id,
  interface, ended, key, kafka_ms, batch_rows)
SELECT %(queue)s, 0, n, n / %(batch)s + 1, 'bench~reconciled~0~' || n, 'BenchBatch',
  CASE WHEN n < %(held)s THEN 'HOLD' ELSE 'APPLIED' END, '', 0,
  CASE WHEN n %% %(batch)s = 0 THEN %(batch)s END
FROM generate_series(0, %(count)s - 1) n WHERE n %% %(every)s <> %(every)s - 1
"""
_FAILURES: Final = """
INSERT INTO integration_messageerror (id, queue_id, topic_uuid, partition, "offset", message_id,
  interface, sender, headers, edited_by, state, failure_class, code, text, detail, fingerprint,
  attempts, retry_no, spent, crashes, carrier, arrival_batch, arrival_index, late,
  apply_as_newest, version, first_failed_at, last_failed_at, ended)
SELECT gen_random_uuid(), p.queue_id, p.topic_uuid, 0, n, '', 'BenchBatch', '', '[]', '', 'HOLD',
  'permanent', 'REFUSED', '', '', '', 1, 0, 0, 0, 'row', n / %(batch)s + 1, n, false, false, 1,
  clock_timestamp(), clock_timestamp(), ''
FROM integration_queuepartition p, generate_series(0, %(held)s - 1) n WHERE p.queue_id = %(queue)s
"""
_AGAIN: Final = """
WITH again AS (
  INSERT INTO integration_batchlog
    (number, partition_id, topic_uuid, from_offset, to_offset, committed_at)
  SELECT %(count)s, p.id, p.topic_uuid, %(from)s, %(from)s + %(doubled)s - 1, clock_timestamp()
  FROM integration_queuepartition p WHERE p.queue_id = %(queue)s RETURNING number
)
INSERT INTO integration_messagetrack (queue_id, partition, "offset", arrival_batch, message_id,
  interface, ended, key, kafka_ms)
SELECT %(queue)s, 0, %(from)s + n, again.number, '', 'BenchBatch', 'APPLIED', '', 0
FROM again, generate_series(0, %(doubled)s - 1) n
"""


def spark_reconcile(ground: Ground) -> Figure:
    """The largest resident memory of the driver and all its processes, added up."""
    count = 500_000 if ground.quick else 5_000_000
    with ground.rig("spark_reconcile") as rig:
        _passed(rig, count)
        folder = rig.folder / "bulk"
        folder.mkdir()
        began = time.monotonic()
        report, peak, processes = _driven(rig)
        seconds = time.monotonic() - began
        names = (folder / "reports" / "names.jsonl").read_text().count("\n")
    fates = report["facts"]["fates"]
    return Figure(
        name="spark_reconcile",
        value=peak / MEGABYTE,
        unit="MB",
        n=count,
        against="resident memory of the driver's Python, its JVM and its workers, added up",
        target=below("value", 2_048),
        claims={
            "every offset is judged": report["read"] == count,
            "lost": fates.get("lost") == LOST,
            "held": fates.get("held") == HELD,
            # Of the range that was read twice some were lost the first time.
            "doubled": fates.get("doubled") == DOUBLED,
            "all others are applied": report["sent"] == count - LOST - HELD - DOUBLED,
            "every name is in the file": names == LOST + HELD + DOUBLED,
        },
        facts={"processes": processes, "seconds": round(seconds, 1)},
    )


def _passed(rig: Rig, count: int) -> None:
    """A topic, and a database that says of nearly every message that it was applied."""
    rig.topic(QUEUE, _payloads(count))
    queue = {"name": QUEUE, "topic": QUEUE, "kind": "continuous", "interface": "BenchBatch"}
    number = rig.configure(queue)[QUEUE]
    values: dict[str, Any] = {
        "queue": number,
        "count": count,
        "batch": BATCH,
        "held": HELD,
        "every": count // LOST,
        "doubled": DOUBLED,
        # Behind the held ones, and with no lost one among them.
        "from": 2 * HELD,
    }
    for statement in (_PASSED, _BATCHES, _TRACKS, _FAILURES, _AGAIN):
        rig.session.execute(statement, values)
    rig.write("VACUUM ANALYZE integration_messagetrack, integration_batchlog")


def _payloads(count: int) -> Iterator[bytes]:
    for number in range(count):
        yield b'{"n":%d}' % number


def _driven(rig: Rig) -> tuple[dict[str, Any], int, int]:
    """Return the run's report, the largest memory in bytes, and the number of processes of that."""
    words = ["bulk_reconcile", QUEUE, "--file", "names.jsonl"]
    out = rig.folder / "reconcile.out"
    with (rig.folder / "reconcile.log").open("wb") as log, out.open("wb") as output:
        running = subprocess.Popen(
            [str(paths.python()), "manage.py", *words],
            cwd=paths.ROOT,
            env={**rig.environment, "SLUICE_BULK_ROOT": str(rig.folder / "bulk")},
            stdout=output,
            stderr=log,
        )
        peak = processes = 0
        while running.poll() is None:
            sizes = _sizes(psutil.Process(running.pid))
            if sum(sizes) > peak:
                peak, processes = sum(sizes), len(sizes)
            time.sleep(LOOK_SECONDS)
    if running.returncode:
        raise BenchmarkError(f"the reconciliation failed: {out.read_text()[-2_000:]}")
    report: dict[str, Any] = json.loads(out.read_text().splitlines()[-1])
    return report, peak, processes


def _sizes(root: psutil.Process) -> list[int]:
    sizes: list[int] = []
    try:
        tree = [root, *root.children(recursive=True)]
    except psutil.Error:
        return sizes
    for process in tree:
        try:
            sizes.append(int(process.memory_info().rss))
        except psutil.Error:
            continue
    return sizes
