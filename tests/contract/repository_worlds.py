"""Two worlds in which a repository writes: tables in memory, and a real PostgreSQL."""

import time
from collections.abc import Callable
from dataclasses import replace
from datetime import timedelta
from typing import Any
from uuid import UUID

import psycopg
from django.db import connection
from django.db.models import F

from integration.actions.blocks import move_position
from integration.codec import decode_headers
from integration.delivery.ports import PartitionManager, Repository
from integration.delivery.reading import COPY_HEADER, header
from integration.delivery.snapshot import QueueSnapshot
from integration.models import (
    ErrorAttempt,
    Gap,
    MessageError,
    MessageTrack,
    OutboxRow,
    Provider,
    Queue,
    QueuePartition,
)
from integration.store.configuration import snapshot
from integration.store.partition_manager import DatabasePartitionManager
from integration.store.repository import DatabaseRepository
from integration.store.sessions import database_now, django_connection
from tests.contract.repository_world import TOPIC, Place, ReceiptOf, Row
from tests.support.memory.partition_manager import MemoryPartitionManager
from tests.support.memory.repository import MemoryRepository
from tests.support.memory.tables import MemoryDatabase
from tests.support.world.models import Child, Effect, Unique


class MemoryWorld:
    """the in-memory fakes."""

    def __init__(self, partitions: int = 2, **fields: Any) -> None:
        known = {"id": 1, "name": "q", "topic": "t", "sequential": False}
        queue = QueueSnapshot(provider_id=1, provider_name="main", **(known | fields))
        places = dict.fromkeys(range(partitions), 10)
        self.database = MemoryDatabase(queue, places, topic_uuid=TOPIC)

    @property
    def queue(self) -> QueueSnapshot:
        return self.database.queue

    def repository(self, receipt_of: ReceiptOf | None = None) -> Repository:
        return MemoryRepository(self.database, receipt_of)

    def manager(self, workers: int | None = 1) -> PartitionManager:
        return MemoryPartitionManager(self.database, workers)

    def help_wanted(self) -> bool:
        return self.database.help_wanted

    def configure(self, **fields: Any) -> None:
        self.database.queue = replace(self.database.queue, **fields)

    def effect(self, repository: Repository, value: int, *, orphan: bool = False) -> None:
        assert isinstance(repository, MemoryRepository)
        repository.effect(value, orphan=orphan)

    def refuse(self, repository: Repository) -> None:
        assert isinstance(repository, MemoryRepository)
        repository.refuse(psycopg.errors.UniqueViolation("twice"))

    def effects(self) -> list[int]:
        return sorted(self.database.effects)

    def later(self, seconds: float) -> None:
        self.database.clock.advance(seconds)

    def place(self, partition: int = 0) -> Place:
        row = self.database.places[partition]
        return Place(
            row.next_offset,
            row.epoch,
            row.state,
            row.state_code,
            row.lost_from,
            row.suspect_offset,
            row.suspect_crashes,
            row.unclean_ends,
        )

    def put(self, partition: int = 0, **fields: Any) -> None:
        for name, value in fields.items():
            setattr(self.database.places[partition], name, value)

    def move(self, offset: int, partition: int = 0) -> None:
        self.database.places[partition].move(offset, next(self.database.moments))

    def row(self, error: UUID) -> Row:
        row = self.database.errors[error]
        told = (row.attempts, row.crashes, row.code, row.carrier, row.expired, row.ended)
        return Row(row.id, row.version, row.state, *told)

    def rows(self) -> int:
        return len(self.database.errors)

    def alter(self, error: UUID, **fields: Any) -> None:
        if "partition" in fields:
            old = self.database.errors[error].record
            fields["record"] = type(old)(
                fields.pop("partition"), old.offset, None, old.key, old.value, old.headers
            )
        row = self.database.errors[error]
        self.database.errors[error] = replace(row, version=row.version + 1, **fields)

    def tracks(self) -> list[tuple[int, int, str]]:
        return [(row.partition, row.offset, row.ended) for row in self.database.tracks]

    def tries(self, error: UUID) -> list[tuple[int, str]]:
        return [(row.number, row.ended) for row in self.database.tries if row.error == error]

    def outbox(self) -> list[tuple[str, str]]:
        return [(row.outgoing.kind, row.state) for row in self.database.outbox]

    def copies(self) -> list[tuple[UUID | None, str]]:
        out = [row.outgoing for row in self.database.outbox if row.outgoing.kind == "MIRROR"]
        return [(row.error, header(row.headers, COPY_HEADER) or "") for row in out]

    def gaps(self) -> list[tuple[int, int]]:
        return [(gap.start, gap.end) for gap in self.database.gaps]

    def acknowledge(self) -> None:
        self.database.gaps = [replace(gap, acknowledged=True) for gap in self.database.gaps]

    def break_commit(self, repository: Repository, *, happened: bool) -> None:
        at = "answer" if happened else "commit"
        self.database.interrupt = lambda name: name == at

    def die(self, manager: PartitionManager) -> None:
        """The process is gone: its locks are free, nothing was given back."""
        assert isinstance(manager, MemoryPartitionManager)
        manager.die()

    def remove_queue(self) -> None:
        self.database.remove()

    def strict_error_queue(self) -> "MemoryWorld":
        strict = MemoryWorld(1, id=9, name="e", topic="e", sequential=True, is_error_queue=True)
        self._feed(strict)
        return strict

    def keep_keys_in_order(self) -> None:
        self.configure(keeps_keys_in_order=True)

    def feeding(self) -> "MemoryWorld":
        other = MemoryWorld(id=2, name="o", topic="o")
        other._feed(self)
        return other

    def _feed(self, strict: "MemoryWorld") -> None:
        self.database.feed(strict.database)
        self.configure(strict_error_queue=strict.queue.id)

    def link(self, error: UUID, offset: int | None) -> None:
        row = self.database.errors[error]
        self.database.errors[error] = replace(row, copy_offset=offset)


class DatabaseWorld:
    """The real adapters on the session's PostgreSQL. Needs a test with database access."""

    def __init__(self, partitions: int = 2, **fields: Any) -> None:
        provider, _ = Provider.objects.get_or_create(
            name="main", defaults={"bootstrap_servers": "127.0.0.1:1"}
        )
        known = {"name": "q", "topic": "t", "kind": "continuous", "start_from": "beginning"}
        self.record = Queue.objects.create(provider=provider, **(known | fields))
        for partition in range(partitions):
            QueuePartition.objects.create(
                queue=self.record, partition=partition, topic_uuid=TOPIC, next_offset=10
            )
        self.managers: list[PartitionManager] = []
        self._read()

    def _read(self) -> None:
        self.queue = snapshot(self.record.pk, worker="test")

    def repository(self, receipt_of: ReceiptOf | None = None) -> Repository:
        return DatabaseRepository(self.queue, receipt_of)

    def manager(self, workers: int | None = 1) -> PartitionManager:
        # Told to stop while it waits for its share: nobody gives one up in the meantime here.
        how: dict[str, Any] = {"workers": workers, "stop": lambda: "no time"}
        manager = DatabasePartitionManager(self.record.pk, "test", 60.0, **how)
        self.managers.append(manager)
        return manager

    def help_wanted(self) -> bool:
        return Queue.objects.get(pk=self.record.pk).help_wanted_at is not None

    def configure(self, **fields: Any) -> None:
        self.queue = replace(self.queue, **fields)

    def keep_keys_in_order(self) -> None:
        Queue.objects.filter(pk=self.record.pk).update(ordering="key")
        self._read()

    def effect(self, repository: Repository, value: int, *, orphan: bool = False) -> None:
        Effect.objects.create(message_id="", interface="", n=value)
        if orphan:
            Child.objects.create(parent_id=-1)

    def refuse(self, repository: Repository) -> None:
        Unique.objects.create(name="twice")
        Unique.objects.create(name="twice")

    def effects(self) -> list[int]:
        return sorted(Effect.objects.values_list("n", flat=True))

    def later(self, seconds: float) -> None:
        step = timedelta(seconds=seconds)
        MessageError.objects.update(
            not_before=F("not_before") - step,
            first_failed_at=F("first_failed_at") - step,
            budget_since=F("budget_since") - step,
        )
        QueuePartition.objects.update(
            resume_at=F("resume_at") - step, producers_know_at=F("producers_know_at") - step
        )

    def place(self, partition: int = 0) -> Place:
        row = self._place(partition).get()
        return Place(
            row.next_offset,
            row.epoch,
            row.state,
            row.state_code,
            row.lost_from,
            row.suspect_offset,
            row.suspect_crashes,
            row.unclean_ends,
        )

    def _place(self, partition: int) -> Any:
        return QueuePartition.objects.filter(queue=self.record, partition=partition)

    def put(self, partition: int = 0, **fields: Any) -> None:
        self._place(partition).update(**fields)

    def move(self, offset: int, partition: int = 0) -> None:
        move_position(self._place(partition).get(), offset)

    def row(self, error: UUID) -> Row:
        row = MessageError.objects.get(pk=error)
        told = (row.attempts, row.crashes, row.code, row.carrier)
        return Row(row.pk, row.version, row.state, *told, row.expired_at is not None, row.ended)

    def rows(self) -> int:
        return MessageError.objects.count()

    def alter(self, error: UUID, **fields: Any) -> None:
        if "arrival" in fields:
            fields["arrival_batch"], fields["arrival_index"] = fields.pop("arrival")
        MessageError.objects.filter(pk=error).update(version=F("version") + 1, **fields)

    def tracks(self) -> list[tuple[int, int, str]]:
        rows = MessageTrack.objects.order_by("pk")
        return list(rows.values_list("partition", "offset", "ended"))

    def tries(self, error: UUID) -> list[tuple[int, str]]:
        rows = ErrorAttempt.objects.filter(error=error).order_by("pk")
        return list(rows.values_list("number", "ended"))

    def outbox(self) -> list[tuple[str, str]]:
        return list(OutboxRow.objects.order_by("pk").values_list("kind", "state"))

    def copies(self) -> list[tuple[UUID | None, str]]:
        out = OutboxRow.objects.filter(kind="MIRROR").order_by("pk")
        return [(row.error, header(decode_headers(row.headers), COPY_HEADER) or "") for row in out]

    def gaps(self) -> list[tuple[int, int]]:
        rows = Gap.objects.order_by("found_at")
        return list(rows.values_list("from_offset", "to_offset"))

    def acknowledge(self) -> None:
        Gap.objects.update(acknowledged_at=database_now())

    def break_commit(self, repository: Repository, *, happened: bool) -> None:
        """The connection breaks while the commit's answer is on its way, or just before."""
        connection = django_connection()
        connection.ensure_connection()
        raw: Any = connection.connection
        commit: Callable[[], None] = raw.commit

        def broken() -> None:
            if happened:
                commit()
            raw.close()
            raise psycopg.OperationalError("the connection broke")

        raw.commit = broken

    def die(self, manager: PartitionManager) -> None:
        """End the session that holds the locks, as the death of its process does."""
        assert isinstance(manager, DatabasePartitionManager)
        session = manager._session
        assert session is not None
        pid = session.info.backend_pid
        manager.close(clean=False)
        # The server notices in its own time; until then the locks are held.
        deadline = time.monotonic() + 10
        while self._holds_locks(pid):
            assert time.monotonic() < deadline, "the session outlived its process"
            time.sleep(0.01)

    @staticmethod
    def _holds_locks(pid: int) -> bool:
        with connection.cursor() as cursor:
            cursor.execute("SELECT EXISTS (SELECT FROM pg_locks WHERE pid = %s)", [pid])
            return bool(cursor.fetchone()[0])

    def remove_queue(self) -> None:
        self._place(0).delete()
        self._place(1).delete()
        self.record.delete()

    def strict_error_queue(self) -> "DatabaseWorld":
        fields = {"kind": "sequential", "is_error_queue": True, "strict_order": True}
        strict = self._other(1, name="e", topic="e", **fields)
        self._feed(strict)
        return strict

    def feeding(self) -> "DatabaseWorld":
        other = self._other(2, name="o", topic="o")
        other._feed(self)
        return other

    def _other(self, partitions: int, **fields: Any) -> "DatabaseWorld":
        other = DatabaseWorld(partitions, **fields)
        other.managers = self.managers
        return other

    def _feed(self, strict: "DatabaseWorld") -> None:
        self.record.error_queue = strict.record
        self.record.save()
        self._read()

    def link(self, error: UUID, offset: int | None) -> None:
        MessageError.objects.filter(pk=error).update(copy_offset=offset)

    def close(self) -> None:
        for manager in self.managers:
            manager.close(clean=False)
