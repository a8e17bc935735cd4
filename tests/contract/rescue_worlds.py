"""The two worlds of a repository, with rescues in them."""

from integration.delivery.rescuing import RescueStore
from integration.models import Queue
from integration.store.partition_manager import DatabasePartitionManager
from integration.store.rescues import DatabaseRescues
from tests.contract.repository_worlds import DatabaseWorld, MemoryWorld
from tests.support.memory.partition_manager import MemoryPartitionManager
from tests.support.memory.rescues import MemoryRescues


class MemoryRescueWorld(MemoryWorld):
    """the in-memory fakes."""

    def rescues(self) -> RescueStore:
        return MemoryRescues(self.database)

    def rescuer(self) -> MemoryPartitionManager:
        return MemoryPartitionManager(self.database, rescues=True)

    def id_of(self, partition: int) -> int:
        return self.database.places[partition].id

    def limit_rescues(self, mebibytes: int) -> None:
        self.database.rescue_limit_bytes = mebibytes * 2**20

    def keep_order(self) -> None:
        self.configure(sequential=True)

    def rescue_code(self, partition: int = 0) -> str:
        return self.database.places[partition].rescue_code


class DatabaseRescueWorld(DatabaseWorld):
    """The real adapters on the session's PostgreSQL."""

    def rescues(self) -> RescueStore:
        return DatabaseRescues(self.record.pk)

    def rescuer(self) -> DatabasePartitionManager:
        manager = DatabasePartitionManager(self.record.pk, "test", 60.0, rescues=True)
        self.managers.append(manager)
        return manager

    def id_of(self, partition: int) -> int:
        return int(self._place(partition).get().pk)

    def limit_rescues(self, mebibytes: int) -> None:
        Queue.objects.filter(pk=self.record.pk).update(rescue_limit_mb=mebibytes)

    def keep_order(self) -> None:
        Queue.objects.filter(pk=self.record.pk).update(kind="sequential")

    def rescue_code(self, partition: int = 0) -> str:
        return str(self._place(partition).get().rescue_code)
