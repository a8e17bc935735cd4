"""The main road on the in-memory fakes: one topic, one queue, handlers that obey the message."""

import json
from collections import Counter
from collections.abc import Callable, Sequence
from dataclasses import replace
from typing import Any, NamedTuple
from uuid import UUID

from django.db import DatabaseError
from psycopg import errors as pg

from integration.delivery.context import RunContext
from integration.delivery.ports import Stop, never
from integration.delivery.report import Report, RunEnding
from integration.delivery.run import run
from integration.delivery.snapshot import QueueSnapshot, Service
from integration.delivery.steps import Step
from integration.delivery.tally import Tally
from integration.formats.port import Schemas
from integration.handlers import (
    Applied,
    BatchItemError,
    MissingDependencyError,
    OutageError,
    PermanentError,
    Superseded,
    TransientError,
    permanent,
)
from integration.handlers.outbound import current
from integration.handlers.registry import Registration
from integration.message import Message
from integration.policy.failure import Failure, FailureClass
from integration.policy.states import (
    ErrorState,
    OutboxKind,
    OutboxState,
)
from integration.values import Fetched, Outgoing
from tests.support.memory.partition_manager import MemoryPartitionManager
from tests.support.memory.repository import MemoryRepository
from tests.support.memory.rows import ErrorRow, PlaceRow
from tests.support.memory.source import MemorySource, MemoryTopic
from tests.support.memory.tables import MemoryDatabase
from tests.support.memory.threads import Handing, MemoryThreads

ENDLESS = 4_000


class Died(BaseException):
    """The process is gone: nothing of the run's memory is used afterwards."""


class Written(NamedTuple):
    """One effect of a handler."""

    partition: int
    offset: int
    arrival: tuple[int, int]


class QuickSource(MemorySource):
    """Does not wait for records that only the test itself could write; notes what was asked."""

    def __init__(self, topic: MemoryTopic, waits: list[float]) -> None:
        super().__init__(topic)
        self.waits = waits

    def fetch(self, limit: int, wait_seconds: float) -> Fetched:
        self.waits.append(wait_seconds)
        return super().fetch(limit, 0.0)


class Script:
    """An observer that does one thing at the n-th step and notices a run without an end."""

    def __init__(self, at: int = 0, act: Callable[[Step], None] = lambda _: None) -> None:
        self.steps: list[Step] = []
        self.at = at
        self.act = act

    def step(self, step: Step) -> None:
        self.steps.append(step)
        assert len(self.steps) < ENDLESS, "the run does not end"
        if len(self.steps) == self.at:
            self.act(step)


def publish_overlong() -> None:
    """What the database refuses only when the batch is settled."""
    outbound = current.get()
    assert outbound is not None
    outbound.append(Outgoing(topic="t" * 300, value=b""))


class FakeWorld:
    """Everything a run needs, and what people, partners and the relay do around it."""

    def __init__(
        self,
        *,
        partitions: int = 1,
        tables: type[MemoryDatabase] = MemoryDatabase,
        **fields: Any,
    ) -> None:
        self.topic = MemoryTopic(partitions=partitions)
        self.down = False
        self.clock = 0.0
        self.waits: list[float] = []
        self.tallies: list[Tally] = []
        self.seed = 0
        self.forgiven: Counter[UUID] = Counter()
        self.repositories: list[MemoryRepository] = []
        self.error_queue: FakeWorld | None = None
        self.schemas: Schemas | None = None
        known: dict[str, Any] = {
            "id": 1,
            "name": "q",
            "provider_id": 1,
            "provider_name": "main",
            "topic": "t",
            "sequential": False,
            "default_interface": "ONE",
            "stay_seconds": 0.0,
            "services": self.services(),
        }
        queue = QueueSnapshot(**(known | fields))
        positions = dict.fromkeys(range(partitions), 0)
        self.database = tables(queue, positions, topic_uuid=self.topic.uuid)

    # configuration

    def services(self, refusal: Failure | None = None) -> dict[str, Service]:
        takers = (
            Registration("ONE", self.obey, False, False, False, "one"),
            Registration("ALONE", self.obey, False, True, False, "alone"),
            Registration("BATCH", self.batch, True, False, False, "batch"),
            Registration("MUTE", self.mute, True, False, False, "mute"),
        )
        found = {t.interface: Service(t.interface, t, None) for t in takers}
        if refusal is not None:
            found["ONE"] = Service("ONE", None, refusal)
        return found

    def configure(self, **fields: Any) -> None:
        queue = self.database.queue
        self.database.queue = replace(queue, mark=(queue.mark or 0) + 1, **fields)

    def switch(self, code: str | None) -> None:
        """Switch the service ONE off (SERVICE_DISABLED, HANDLER_MISSING) or on."""
        refusal = None if code is None else Failure(FailureClass.DISABLED, code, "Switched off.")
        self.configure(services=self.services(refusal))

    # handlers

    @property
    def repository(self) -> MemoryRepository:
        return self.repositories[-1]

    def obey(self, message: Message) -> Any:
        do = message.body.get("do", "ok")
        if do == "superseded":
            return Superseded()
        batch, place = message.arrival
        self.repository.effect(Written(message.partition, message.offset, (batch, place)))
        return self.deed(do, message)

    def deed(self, do: str, message: Message) -> Any:
        match do:
            case "until" if message.attempt < message.body["until"]:
                raise TransientError("Not yet.")
            case "outage" if self.down:
                raise OutageError("The other side is down.")
            case "orphan":
                self.repository.effect("orphan", orphan=True)
            case "deadlock":
                self.repository.refuse(pg.DeadlockDetected("made up"))
            case "overlong":
                publish_overlong()
            case "swallow":
                self.swallow()
            case "kill":
                raise Died
            case _:
                return self.fail(do)
        return None

    def swallow(self) -> None:
        try:
            self.repository.refuse(pg.UniqueViolation("twice"))
        except DatabaseError:
            return

    def fail(self, do: str) -> Any:
        match do:
            case "permanent":
                raise PermanentError("Refused for good.", code="REFUSED")
            case "verdict":
                return permanent("Refused as a value.", code="REFUSED")
            case "transient":
                raise TransientError("Try again.")
            case "missing":
                raise MissingDependencyError("asset", "A1")
            case _:
                return None

    def batch(self, messages: Sequence[Message]) -> list[Any]:
        verdicts = []
        for index, message in enumerate(messages):
            try:
                verdicts.append(self.judge(message))
            except Exception as e:
                raise BatchItemError(index) from e
        return verdicts

    def mute(self, messages: Sequence[Message]) -> list[Any]:
        return [self.judge(message) for message in messages]

    def judge(self, message: Message) -> Any:
        """One verdict of a batch handler: who returns a failure has written nothing for it."""
        if message.body.get("do") == "verdict":
            return self.fail("verdict")
        return self.obey(message) or Applied()

    # partners and the relay

    def send(
        self,
        do: str = "ok",
        *,
        partition: int = 0,
        interface: str = "",
        key: bytes | None = None,
        **body: Any,
    ) -> int:
        headers = [("sluice-interface", interface.encode())] if interface else []
        message_id = body.pop("id", None)
        if message_id is not None:
            headers.append(("MEAMessageID", str(message_id).encode()))
        value = json.dumps({"do": do, **body}).encode()
        return self.topic.append(value, partition=partition, headers=headers, key=key)

    def feed(self, error_queue: "FakeWorld") -> None:
        """Send copies of held messages to that error queue."""
        self.error_queue = error_queue
        self.database.feed(error_queue.database)
        queue = error_queue.database.queue
        self.configure(strict_error_queue=queue.id if queue.keeps_copies_in_order else None)

    def relay(self, *, twice: bool = False) -> None:
        """Write due retry markers to the topic, as the relay does; copies to the error topic."""
        for place, row in enumerate(self.database.outbox):
            due = row.due_at is None or row.due_at <= self.database.clock.seconds
            if row.state is not OutboxState.PENDING or not due:
                continue
            if row.outgoing.kind == OutboxKind.RETRY_MARKER:
                for _ in range(1 + twice):
                    self.topic.append(
                        b"",
                        headers=row.outgoing.headers,
                        partition=row.outgoing.partition or 0,
                    )
            elif row.outgoing.kind == OutboxKind.COPY and self.error_queue is not None:
                self.error_queue.topic.append(row.outgoing.value, headers=row.outgoing.headers)
            self.database.outbox[place] = replace(row, state=OutboxState.PUBLISHED)

    # runs

    def run(
        self,
        observer: Script | None = None,
        manager: MemoryPartitionManager | None = None,
        stop: Stop = never,
    ) -> Report:
        """One run by one worker. A Died passes through; everything else must not."""
        if self.database.queue.paused:
            return Report().ended(RunEnding.STOPPED)
        repository = MemoryRepository(self.database)
        self.repositories.append(repository)
        before = self.database.others_first
        threads = MemoryThreads(self.seed)
        self.database.others_first = threads.others_first
        try:
            return run(
                RunContext(
                    queue=self.database.queue,
                    source=QuickSource(self.topic, self.waits),
                    repository=repository,
                    manager=manager or MemoryPartitionManager(self.database),
                    observer=Handing(observer or Script(), threads),
                    stop=stop,
                    monotonic=self.monotonic,
                    roll=lambda: 0.0,
                    threads=threads,
                    schemas=self.schemas,
                    tell=self.tallies.append,
                )
            )
        finally:
            self.database.others_first = before
            self.repositories.pop()

    def monotonic(self) -> float:
        self.clock += 0.02
        return self.clock

    # people

    def person(self, verb: str, error: UUID) -> bool:
        """What somebody does on the failure's page; false when the row has moved on."""
        row = self.database.errors[error]
        now = self.database.clock.seconds
        moves: dict[str, tuple[set[str], dict[str, Any]]] = {
            "release": (
                {"HOLD"},
                {
                    "state": ErrorState.READY,
                    "spent": 0,
                    "crashes": 0,
                    "apply_as_newest": False,
                    "newest_batch": None,
                    "newest_index": None,
                    "carrier": "row",
                    "not_before": now,
                    "late": row.record.offset < self.place(row.record.partition).next_offset,
                },
            ),
            "hold": ({"RETRY", "READY", "PARKED"}, {"state": ErrorState.HOLD, "not_before": None}),
            "delete": (
                {"HOLD", "RETRY", "READY", "PARKED"},
                {"state": ErrorState.DELETED, "ended": "DELETED", "not_before": None},
            ),
            "park": ({"HOLD"}, {"parked": True}),
            "restore": ({"DELETED"}, {"state": ErrorState.HOLD, "ended": ""}),
            "edit": ({"HOLD"}, {"edited": b'{"do": "ok"}'}),
        }
        expected, values = moves[verb]
        if row.state not in expected:
            return False
        if verb == "park" and self.place(row.record.partition).state_error != error:
            return False
        done = self.database.change(row.id, row.version, **values)
        if done and verb == "release":
            self.forgiven[row.id] += row.crashes
        if done and verb != "edit":
            self.database.cancel_retry_markers(row.id)
        return done

    def acknowledge(self) -> None:
        self.database.gaps = [replace(gap, acknowledged=True) for gap in self.database.gaps]
        self.resume("BLOCKED", "GAP")

    def go_back(self, offset: int = 0, partition: int = 0) -> None:
        """Put the position back on the same topic, as adopting it from its start does."""
        self.place(partition).move(offset, next(self.database.moments))

    def stop_at(self, offset: int, partition: int = 0) -> bool:
        """Tell a partition to stop; false when it has passed it, or a commit is under way."""
        place = self.place(partition)
        if place.locked or offset < max([place.next_offset, *(at + 1 for at in place.done)]):
            return False
        place.stop_at = offset
        return True

    def go_on(self) -> None:
        """Resume the queue: it stops nowhere any more."""
        self.configure(paused=False)
        for place in self.database.places.values():
            place.stop_at = None

    def free(self) -> None:
        """The process that died is noticed: its locks are free."""
        MemoryPartitionManager(self.database).steal()

    def resume(self, state: str = "BRAKED", code: str | None = None) -> None:
        for place in self.database.places.values():
            if place.state == state and code in {None, place.state_code}:
                place.state, place.state_code, place.resume_at = type(place.state).RUNNING, "", None

    # what is there

    def place(self, partition: int = 0) -> PlaceRow:
        return self.database.places[partition]

    def row(self, offset: int, partition: int = 0) -> ErrorRow:
        found = self.database.error_at(self.topic.uuid, partition, offset)
        assert found is not None, f"no error row at {partition}/{offset}"
        return found

    def effects(self, partition: int = 0) -> list[int]:
        """Offsets of applied messages in the order of their effects."""
        found = [e for e in self.database.effects if isinstance(e, Written)]
        return [effect.offset for effect in found if effect.partition == partition]
