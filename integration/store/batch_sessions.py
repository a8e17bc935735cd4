"""The sessions that batches run on, noted on the lease: whoever takes it over can end them."""

import threading
from typing import Any, Final

from integration.delivery.owned import Owned
from integration.delivery.snapshot import QueueSnapshot
from integration.store.sessions import backend_of, django_connection

RECORD_SESSION: Final = (
    "UPDATE integration_partitionlease SET batch_pid = %s, batch_backend_start = %s "
    "WHERE partition_id = %s AND epoch = %s"
)
RECORD_THREAD: Final = (
    "UPDATE integration_partitionlease SET thread_pids = thread_pids || %s::int, "
    "thread_backend_starts = thread_backend_starts || %s::timestamptz "
    "WHERE partition_id = %s AND epoch = %s"
)


class BatchSessions:
    """Notes which session works for which lease. Made by the run's own thread, used by its threads.

    The run has one session, and each thread one of its own: Django's, which belongs to a thread.
    """

    def __init__(self) -> None:
        self._thread = threading.get_ident()
        self._known: dict[tuple[int, int], tuple[int, int]] = {}

    def record(self, owned: Owned, queue: QueueSnapshot) -> None:
        """Note this thread's session, whenever Django has opened another. Raises DatabaseError."""
        connection = django_connection()
        connection.ensure_connection()
        raw: Any = connection.connection
        thread = threading.get_ident()
        session = (raw.pgconn.backend_pid, owned.epoch)
        if self._known.get((owned.id, thread)) == session:
            return
        with connection.cursor() as cursor:
            # A transaction that idles longer than any handler may take belongs to a stopped
            # process; its session ends and its row locks with it.
            idle_ms = int(queue.handler_timeout_seconds * 2000) + 10_000
            cursor.execute(f"SET idle_in_transaction_session_timeout = {idle_ms}")
            timeout_ms = int(queue.handler_timeout_seconds * 1000)
            cursor.execute(f"SET statement_timeout = {timeout_ms}")
            record = RECORD_SESSION if thread == self._thread else RECORD_THREAD
            cursor.execute(record, [*backend_of(cursor), owned.id, owned.epoch])
        self._known[owned.id, thread] = session
