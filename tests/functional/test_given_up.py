"""A partition that one run gives up is taken by another before that is committed."""

import threading
from concurrent.futures import ThreadPoolExecutor

import pytest
from django.db import connections

from integration.delivery.owned import Owned
from integration.models import QueuePartition
from integration.store.partition_manager import DatabasePartitionManager
from tests.contract.repository_worlds import DatabaseWorld

pytestmark = [pytest.mark.servers, pytest.mark.django_db(transaction=True)]

# Long enough to find the lock free and to stand at the lease, as for a standby that is slow.
COMMIT_SECONDS = 0.5


def test_whoever_takes_it_waits_for_that_commit_and_counts_no_death() -> None:
    tables = DatabaseWorld(2)
    first = tables.manager(workers=2)
    held = first.take()
    assert len(held) == 2
    second = DatabasePartitionManager(tables.record.pk, "second", 60.0, workers=2)

    def take() -> list[Owned]:
        try:
            return second.take()
        finally:
            connections.close_all()

    session = first._session
    session.execute("BEGIN")
    first.give_up(held[1:])
    commit = threading.Timer(COMMIT_SECONDS, session.execute, ["COMMIT"])
    commit.start()
    with ThreadPoolExecutor(1) as threads:
        [taken] = threads.submit(take).result(20)
    commit.join()
    assert (taken.id, taken.epoch) == (held[1].id, held[1].epoch + 1)
    assert QueuePartition.objects.get(pk=taken.id).unclean_ends == 0
    second.close(clean=True)
    tables.close()
