"""One queue of a rig: filled once, run from its beginning as often as wanted."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Final

from bench.rig import Rig
from devstack.supervise import Process

LEFT_WITHIN_SECONDS: Final = 30.0
_EMPTIED: Final = (
    "bench_asset, bench_effect, bench_track, bench_position, bench_aside, bench_cpu, "
    "integration_messagetrack, integration_batchlog, integration_errorattempt, "
    "integration_errorchange, integration_messageerror, integration_outboxrow, "
    "integration_delivery"
)
_REWIND: Final = """
UPDATE integration_queuepartition SET next_offset = 0, state = 'RUNNING', state_code = '',
  state_text = '', state_error = NULL, resume_at = NULL, probes = 0, unclean_ends = 0,
  done_offsets = '{}', open_from = NULL, open_until = NULL, open_arrival = NULL
WHERE queue_id = %s
"""
_STILL_OWNED: Final = """
SELECT 1 FROM integration_partitionlease l JOIN integration_queuepartition p
  ON p.id = l.partition_id WHERE p.queue_id = %s AND l.released_at IS NULL
"""


@dataclass(frozen=True, slots=True)
class BenchQueue:
    """A queue and the number of messages its topic holds."""

    rig: Rig
    id: int
    topic: str
    count: int

    def empty_tables(self) -> None:
        """Leave no row of an earlier run, and no writing of the server's own for it."""
        self.rig.write(f"TRUNCATE {_EMPTIED}")
        self.rig.write("CHECKPOINT")

    def rewind(self) -> None:
        """Put the queue back to its beginning, as if nothing of it had been applied."""
        self.empty_tables()
        self.rig.write(_REWIND, [self.id])

    def run(self, until_offset: int | None = None) -> None:
        """Let the worker read it from the beginning until the position reaches the offset."""
        offset = self.count if until_offset is None else until_offset
        self.rewind()
        self.switch_on()
        self.rig.until(
            lambda: self.position() >= offset, f"queue {self.topic} is at offset {offset}"
        )

    def switch_on(self) -> None:
        self.rig.write(
            "UPDATE integration_queue SET enabled = true, start_requested_at = clock_timestamp() "
            "WHERE id = %s",
            [self.id],
        )

    def switch_off(self) -> None:
        """End the run that is attached, so that nothing of ours works while others are timed."""
        self.rig.write(
            "UPDATE integration_queue SET enabled = false, start_requested_at = NULL WHERE id = %s",
            [self.id],
        )
        self.rig.until(
            lambda: not self.rig.rows(_STILL_OWNED, [self.id]),
            f"queue {self.topic} is left",
            LEFT_WITHIN_SECONDS,
        )

    def set_workers(self, workers: int) -> None:
        self.rig.write(
            "UPDATE integration_queue SET workers = %s, changed_at = clock_timestamp() "
            "WHERE id = %s",
            [workers, self.id],
        )

    def position(self) -> int:
        """The sum of the partitions' positions: of one partition, its position."""
        return int(
            self.rig.value(
                "SELECT sum(next_offset) FROM integration_queuepartition WHERE queue_id = %s",
                [self.id],
            )
        )


def run_handwritten(queue: BenchQueue, loop: str, worker: Process) -> None:
    """Run a hand-written loop over the queue's topic, with Sluice's worker stopped meanwhile."""
    run_beside(queue, ["bench.handwritten", loop, queue.topic, str(queue.count)], worker)


def run_beside(queue: BenchQueue, module: Sequence[str], worker: Process) -> None:
    """Run a module with its arguments to its end, with Sluice's worker stopped meanwhile."""
    queue.empty_tables()
    worker.pause()
    try:
        process = queue.rig.spawn("handwritten", ["-m", *module])
        queue.rig.until(lambda: not process.is_alive(), f"{' '.join(module)} has ended")
    finally:
        worker.resume()
