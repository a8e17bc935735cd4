"""Cleanup of bulk operations: an operation is whole or gone, and one that was started stays."""

import time
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace
from datetime import timedelta

import pytest
from django.db import connection, connections
from django.utils import timezone

from crontasks.builtin.history_cleanup import HistoryCleanup, HistoryParameters
from crontasks.cleanup import removing
from crontasks.cleanup.pasts import HISTORY
from crontasks.outcome import Context
from integration.actions.errors import OperationMovedError
from integration.models import Operation, OperationItem
from integration.store.sessions import database_time
from tests.support.operations import plan, some_held, started

pytestmark = [pytest.mark.servers, pytest.mark.django_db]
LOCK = 8_306


def an_abandoned_plan(count: int = 3) -> Operation:
    some_held(count)
    planned = plan()
    Operation.objects.update(created_at=timezone.now() - timedelta(days=1.1))
    return planned


@pytest.mark.parametrize("interrupted_after", [1, 2, 3])
def test_an_interrupted_cleanup_takes_a_planned_operation_whole_or_not_at_all(
    interrupted_after: int,
) -> None:
    an_abandoned_plan()
    context = Context(
        instance_id=1,
        scheduled_at=timezone.now(),
        actor="nightly",
        should_stop=lambda: OperationItem.objects.count() <= 3 - interrupted_after,
    )
    HistoryCleanup().run(HistoryParameters(chunk_rows=1), context)
    assert (Operation.objects.count(), OperationItem.objects.count()) in {(0, 0), (1, 3)}


def test_a_plan_that_lost_messages_is_not_started() -> None:
    planned = an_abandoned_plan()
    OperationItem.objects.filter(operation=planned, place=1).delete()
    with pytest.raises(OperationMovedError, match="cleaned up"):
        started(planned)
    planned.refresh_from_db()
    assert planned.state == "PLANNED"


@pytest.mark.django_db(transaction=True)
def test_an_operation_that_is_started_while_the_cleanup_looks_stays() -> None:
    planned = an_abandoned_plan()
    # It waits for the lock with its look at the rows taken and no row locked.
    waits = f"(SELECT pg_advisory_xact_lock({LOCK})) IS NOT NULL"
    [rule] = [rule for rule in HISTORY if rule.name == "operations"]
    slow = replace(rule, due=f"{waits} AND ({rule.due})")
    values = HistoryCleanup.sql_values(HistoryParameters(), database_time())

    def clean() -> None:
        try:
            removing.remove(slow, values, lambda: False)
        finally:
            connections.close_all()

    with connection.cursor() as cursor, ThreadPoolExecutor(1) as pool:
        cursor.execute("SELECT pg_advisory_lock(%s)", [LOCK])
        try:
            cleaned = pool.submit(clean)
            until_somebody_waits()
            started(planned)
        finally:
            cursor.execute("SELECT pg_advisory_unlock(%s)", [LOCK])
        cleaned.result(timeout=20)
    assert Operation.objects.get().state == "RUNNING"
    assert OperationItem.objects.count() == 3


def until_somebody_waits() -> None:
    ends = time.monotonic() + 20
    waiting = (
        "SELECT 1 FROM pg_locks WHERE locktype = 'advisory' AND objid = %s AND NOT granted "
        "AND database = (SELECT oid FROM pg_database WHERE datname = current_database())"
    )
    while True:
        with connection.cursor() as cursor:
            cursor.execute(waiting, [LOCK])
            if cursor.fetchone():
                return
        assert time.monotonic() < ends
        time.sleep(0.02)
