"""The memory of a consumer while it works through a million messages."""

from functools import partial
from pathlib import Path
from typing import Final

from bench import facts
from bench.cases.throughput import filled
from bench.figure import Figure, below
from bench.ground import Ground
from bench.queue import BenchQueue
from bench.rig import BenchmarkError, Rig

START: Final = 50_000
_OWNER: Final = """
SELECT l.owner FROM integration_partitionlease l JOIN integration_queuepartition p
  ON p.id = l.partition_id WHERE p.queue_id = %s AND l.released_at IS NULL
"""


def consumer_memory(ground: Ground) -> Figure:
    """Resident memory of the process that consumes, after 50,000 messages and from then on."""
    count = 200_000 if ground.quick else 1_000_000
    with ground.rig("consumer_memory") as rig:
        queue = filled(rig, "consumer_memory", "BenchBatch", count)
        rig.start_worker()
        queue.run(START)
        pid = _consumer(rig, queue.id)
        at_start = largest = resident_kib(pid)
        for mark in range(2 * START, count + 1, START):
            rig.until(partial(_is_past, queue, mark), f"{mark:,} are through")
            if _consumer(rig, queue.id) != pid:
                raise BenchmarkError("another process took over; its memory says nothing")
            largest = max(largest, resident_kib(pid))
        facts.every_one_once(rig, facts.OURS, count)
    return Figure(
        name="consumer_memory",
        value=100 * (largest / at_start - 1),
        unit="%",
        n=count,
        against="resident memory after the first 50,000 messages",
        target=below("value", 10),
        facts={
            "at_start_mib": round(at_start / 1_024, 1),
            "largest_mib": round(largest / 1_024, 1),
        },
    )


def _is_past(queue: BenchQueue, mark: int) -> bool:
    return queue.position() >= mark


def _consumer(rig: Rig, queue_id: int) -> int:
    owner = str(rig.value(_OWNER, [queue_id]))
    return int(owner.partition(":")[2].partition("/")[0])


def resident_kib(pid: int) -> int:
    """Return the VmRSS of a process in KiB. Raises BenchmarkError without one."""
    for line in Path(f"/proc/{pid}/status").read_text().splitlines():
        if line.startswith("VmRSS:"):
            return int(line.split()[1])
    raise BenchmarkError(f"the system does not tell the memory of process {pid}")
