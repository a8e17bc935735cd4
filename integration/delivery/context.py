"""Everything one run needs, in one hand: configuration, ports, and what chance brings in."""

import random
import time
import uuid
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Final

from integration.delivery.batch_result import StateChange
from integration.delivery.endings import Chance
from integration.delivery.owned import Owned
from integration.delivery.ports import (
    PartitionManager,
    Repository,
    Source,
    Stop,
    never,
    nothing,
)
from integration.delivery.reading import Reader
from integration.delivery.snapshot import QueueSnapshot
from integration.delivery.steps import Observer, Silent
from integration.delivery.unit import Unit
from integration.formats.port import Schemas
from integration.policy import failure_thresholds
from integration.policy.states import PartitionState
from integration.tracing.spans import Tracer

if TYPE_CHECKING:
    from integration.delivery.deliver import Delivered
    from integration.delivery.report import Report
    from integration.delivery.tally import Tally
    from integration.delivery.threads import Threads


FREED_AT_ONCE: Final = 40


def untold(tally: "Tally") -> None:
    """Nobody wants to know what a run has counted."""


@dataclass(slots=True)
class RunContext:
    """One run's way from Kafka to the database. Built by integration.runs, or by tests on fakes.

    `stop` is asked between batches and returns why the run should end, or None. `monotonic` is
    the only clock of the engine and measures pauses only; instants are the database's. `send`
    takes the place of `deliver` on a queue whose messages go to endpoints. `threads` are where the
    handler transactions of one batch run side by side; without them they run one after the other.
    `schemas` are those of the provider's registry; None where it has none. `tracer` is None while
    nothing is traced. `tell` is given every few seconds what the run has counted.
    """

    queue: QueueSnapshot
    source: Source
    repository: Repository
    manager: PartitionManager
    observer: Observer = field(default_factory=Silent)
    stop: Stop = never
    deployment: str = "sluice"
    monotonic: Callable[[], float] = time.monotonic
    roll: Callable[[], float] = random.random
    send: Callable[["RunContext", Owned, Sequence[Unit], "Report"], "Delivered"] | None = None
    threads: "Threads | None" = None
    schemas: Schemas | None = None
    tracer: Tracer | None = None
    tell: Callable[["Tally"], None] = untold
    reader: Reader = field(init=False)
    # Of the partitions that this run has taken.
    generations: dict[int, int] = field(default_factory=dict)
    # Settled messages. To free a batch takes as long as a tenth of its work: the next one has
    # that time while the database works.
    spent: list[Unit] = field(default_factory=list)
    # Whether `read_ahead` may find more to do before the next fetch. Where each message has a
    # transaction of its own, asking in each costs more than there is to gain.
    looks_ahead: bool = True
    # While messages run alone under a marker, none is read before its own marker stands.
    isolates: bool = False

    def __post_init__(self) -> None:
        self.reader = Reader(self.queue, self.schemas, self.generations)

    def adopt(self, queue: QueueSnapshot) -> None:
        """Go on under a newer configuration."""
        if queue.mark == self.queue.mark:
            return
        kept, self.queue = self.queue.keeps_keys_in_order, queue
        self.reader = Reader(queue, self.schemas, self.generations)
        if kept and not queue.keeps_keys_in_order:
            self.repository.wake_parked()

    def take_generations(self, taken: Sequence[Owned]) -> None:
        """Give the messages of these partitions ids of their generation, from now on."""
        known = {owned.partition: owned.generation for owned in taken}
        if any(self.generations.get(partition, 0) != number for partition, number in known.items()):
            # A new reader reads again what this one has read ahead.
            self.generations = {**self.generations, **known}
            self.reader = Reader(self.queue, self.schemas, self.generations)

    def settled(self, units: list[Unit]) -> None:
        """Keep settled messages until there is time to free them."""
        self.spent = units
        self.looks_ahead = True

    def end_isolation(self, owned: Owned, held: Sequence[Owned]) -> None:
        """Let messages of this partition run together again; `held` are all of the run."""
        owned.isolate_until = None
        self.isolates = any(one.isolate_until is not None for one in held)

    def meanwhile(self) -> Callable[[], bool]:
        """Return what to do while the database works."""
        return self.read_ahead if self.looks_ahead else nothing

    def read_ahead(self) -> bool:
        """Free a little of the last batch, or take and read a little of the next one.

        To be called while the database works on the one between them. False when there is no
        more to do until the next one is fetched.
        """
        if self.spent:
            del self.spent[-FREED_AT_ONCE:]
            return True
        if not self.looks_ahead:
            return False
        if self.queue.is_error_queue or self.isolates:
            self.looks_ahead = False
            return False  # an error queue's records are not read for what they say
        records = self.source.read_ahead(self.queue.batch_size)
        if records:
            self.manager.working()
        self.reader.read_ahead(records)
        self.looks_ahead = bool(records)
        return self.looks_ahead

    def stops_at_threshold(
        self, owned: Owned, cause: str, parked_keys: Sequence[bytes] = ()
    ) -> bool:
        """Stop reading when failures pile up; true when the failure threshold was reached now.

        `parked_keys` are the order keys of what was parked now.
        """
        if owned.state is PartitionState.BRAKED:
            # It reads nothing as it is; what was released goes on.
            return False
        verdict = failure_thresholds.verdict(
            self.queue.failure_thresholds,
            owned.failure_streak,
            open_errors=self.repository.open_errors(),
            cause=cause,
            parked=self.repository.most_parked(parked_keys) if parked_keys else 0,
        )
        if verdict is None:
            return False
        owned.state, owned.state_code = PartitionState.BRAKED, verdict.code
        change = StateChange(state=PartitionState.BRAKED, code=verdict.code, text=verdict.text)
        self.repository.state(owned, change)
        return True

    def chance(self, owned: Owned) -> Chance:
        return Chance(self.roll(), uuid.uuid4(), owned.probes, self.deployment)
