"""The driver is killed at every step of a repair: the next one edits and releases each once."""

from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from functools import partial
from pathlib import Path
from typing import Any, Final

import psycopg
import pytest
from django.db import connection

from integration.models import BulkRun, ErrorChange, MessageError, Operation, OperationItem, Queue
from spark_jobs.repairs.applying import EDITS
from spark_jobs.staging import lock_number
from tests.support import celery_world
from tests.support.builders import a_queue
from tests.support.bulk import an_asset_structure, shared_session, storing
from tests.support.celery_world import Child
from tests.support.kafka_world import Kafka
from tests.support.repairs import CODE, a_repair, driven
from tests.support.run_driver import a_driver, a_session, let_the_lease_end

pytestmark = [
    pytest.mark.crash,
    pytest.mark.servers,
    pytest.mark.django_db(transaction=True),
    pytest.mark.timeout(500),
]
# Each costs its part 22,000 bytes and some: a part of 8 MB has about 380.
MESSAGES: Final = 900
PARTS: Final = 3
# Every tenth has no number, so that its structure does not take it.
BAD: Final = MESSAGES // 10
FILL: Final = """
INSERT INTO integration_messageerror (
  id, queue_id, topic_uuid, partition, "offset", message_id, interface, sender, headers, payload,
  edited_by, state, failure_class, code, text, detail, fingerprint, attempts, retry_no, spent,
  crashes, carrier, arrival_batch, arrival_index, late, apply_as_newest, version,
  first_failed_at, last_failed_at, ended)
SELECT gen_random_uuid(), %s, 'first-topic', 0, n, 'm-' || n, '', '', '[]',
  convert_to(CASE WHEN n %% 10 = 0 THEN '{"n":' || n ELSE '{"assetnum":"A-' || n || '"' END
    || ',"note":"' || repeat('x', 20000) || '"}', 'UTF8'),
  '', 'HOLD', 'permanent', %s, '', '', 'f', 1, 0, 0, 0, 'row', 1, n, false, false, 1, now(), now(),
  '' FROM generate_series(1, %s) n
"""

Killing = Callable[[BulkRun, psycopg.Connection[Any], Child], None]
# A busy machine takes long to start a driver.
eventually = partial(celery_world.eventually, seconds=200)


def when_chosen_and_not_told(run: BulkRun, session: psycopg.Connection[Any], driver: Child) -> None:
    """What is chosen is committed, and the run's row does not have it."""
    _hold(session, run, -1)
    eventually(lambda: _waits("pg_advisory_xact_lock"), driver)
    with a_session() as holding:
        holding.execute("SELECT 1 FROM integration_bulkrun WHERE id = %s FOR SHARE", [run.pk])
        session.rollback()
        eventually(lambda: _rows(run, "items") == MESSAGES, driver)
        driver.kill()
        # Else what the dead driver asked for last would be done as soon as the row is free.
        with connection.cursor() as cursor:
            cursor.execute(
                "SELECT pg_terminate_backend(pid) FROM pg_stat_activity "
                "WHERE wait_event_type = 'Lock' AND position('integration_bulkrun' IN query) > 0"
            )
    assert _now(run).plan == {}


def when_some_is_judged(run: BulkRun, session: psycopg.Connection[Any], driver: Child) -> None:
    _hold(session, run, 1)
    eventually(lambda: _rows(run, "judged") == PARTS - 1, driver)
    driver.kill()
    assert _edited() == 0


def before_the_first_edit(run: BulkRun, session: psycopg.Connection[Any], driver: Child) -> None:
    for part in range(PARTS):
        _hold(session, run, EDITS + part)
    eventually(lambda: _waits("pg_advisory_xact_lock"), driver)
    driver.kill()
    assert (_rows(run, "judged"), _edited()) == (PARTS, 0)


def in_the_commit_of_a_part(run: BulkRun, session: psycopg.Connection[Any], driver: Child) -> None:
    """Written, and not committed: whose run it is cannot be told at the moment."""
    with a_session() as holding:
        for part in range(PARTS):
            _hold(holding, run, EDITS + part)
        eventually(lambda: _waits("pg_advisory_xact_lock"), driver)
        session.execute("SELECT 1 FROM integration_bulkrun WHERE id = %s FOR UPDATE", [run.pk])
    eventually(lambda: _waits("FOR SHARE"), driver)
    driver.kill()
    assert _edited() == 0


def when_some_is_edited(run: BulkRun, session: psycopg.Connection[Any], driver: Child) -> None:
    _hold(session, run, EDITS + 1)
    eventually(lambda: _rows(run, "applied") == PARTS - 1, driver)
    driver.kill()
    assert 0 < _edited() < MESSAGES - BAD
    assert Operation.objects.count() == 0


def in_the_last_commit(run: BulkRun, session: psycopg.Connection[Any], driver: Child) -> None:
    """The operation is written, and not committed."""
    _make_an_operation(session, run)
    eventually(lambda: _waits("INSERT INTO integration_operation (id"), driver)
    driver.kill()


def when_the_operation_is_made(
    run: BulkRun, session: psycopg.Connection[Any], driver: Child
) -> None:
    """It is committed, and how the run ended cannot be written."""
    row = "SELECT 1 FROM integration_bulkrun WHERE id = %s FOR UPDATE"
    with a_session() as first, a_session() as then, ThreadPoolExecutor(1) as other:
        _make_an_operation(first, run)
        eventually(lambda: _waits("INSERT INTO integration_operation (id"), driver)
        then.execute(f"LOCK TABLE bulk_{run.pk.hex}_outcomes IN ACCESS SHARE MODE")
        first.rollback()
        eventually(lambda: _waits("DROP TABLE"), driver)
        # Who waits for the row now has it before the driver has it again.
        locked = other.submit(session.execute, row, [run.pk])
        eventually(lambda: _waits(row.partition("%s")[0]), driver)
        then.rollback()
        locked.result()
    assert (_now(run).applied, _now(run).state) == (True, "RUNNING")
    driver.kill()


def _make_an_operation(session: psycopg.Connection[Any], run: BulkRun) -> None:
    """What the driver makes, so that it waits until this is undone."""
    session.execute(
        "INSERT INTO integration_operation (id, verb, title, query, recipe, release_after_edit, "
        "late, actor, reason, state, why_paused, first_only, total, handled, done, is_capped, "
        "queues, created_at, version, owner, epoch) VALUES (%s, 'release', '', '', '', false, "
        "false, '', '', 'PLANNED', '', false, 0, 0, 0, false, '{}', now(), 1, '', 0)",
        [run.pk],
    )


def _hold(session: psycopg.Connection[Any], run: BulkRun, number: int) -> None:
    session.execute("SELECT pg_advisory_xact_lock(%s)", [lock_number(str(run.pk), number)])


def _now(run: BulkRun) -> BulkRun:
    return BulkRun.objects.get(pk=run.pk)


def _edited() -> int:
    return MessageError.objects.filter(version=2).count()


def _rows(run: BulkRun, table: str) -> int:
    """How many rows a table of the run has; nought where it is not there."""
    name = f"bulk_{run.pk.hex}_{table}"
    with connection.cursor() as cursor:
        cursor.execute("SELECT to_regclass(%s) IS NOT NULL", [name])
        if not cursor.fetchone()[0]:
            return 0
        cursor.execute(f"SELECT count(*) FROM {name}")
        return int(cursor.fetchone()[0])


def _waits(words: str) -> bool:
    """Whether a session of the repair waits for a lock in such a statement."""
    with connection.cursor() as cursor:
        cursor.execute(
            "SELECT EXISTS (SELECT FROM pg_stat_activity WHERE wait_event_type = 'Lock' "
            "AND pid <> pg_backend_pid() AND position(%s IN query) > 0)",
            [words],
        )
        return bool(cursor.fetchone()[0])


@pytest.fixture(scope="module", autouse=True)
def spark() -> Any:
    """For the drivers that go on; those that are killed have one of their own."""
    return shared_session()


@pytest.fixture
def queue(servers: Any) -> Queue:
    queue = storing(a_queue(Kafka(servers.kafka_bootstrap)), an_asset_structure())
    with connection.cursor() as cursor:
        cursor.execute(FILL, [queue.pk, CODE, MESSAGES])
    return queue


@pytest.mark.parametrize(
    "kill",
    [
        when_chosen_and_not_told,
        when_some_is_judged,
        before_the_first_edit,
        in_the_commit_of_a_part,
        when_some_is_edited,
        in_the_last_commit,
        when_the_operation_is_made,
    ],
)
def test_a_killed_driver_edits_and_releases_nothing_twice(
    kill: Killing, queue: Queue, child_environment: dict[str, str], tmp_path: Path
) -> None:
    run = a_repair(queue, code=CODE)
    with a_session() as session, a_driver("killed", run, child_environment, tmp_path) as driver:
        kill(run, session, driver)
    let_the_lease_end(run)

    ended = driven(run)

    good = MESSAGES - BAD
    assert len(ended.plan["parts"]) == PARTS
    assert (ended.state, ended.problem) == ("DONE", None)
    assert ended.counts == {"read": MESSAGES, "sent": good, "rejected": BAD, "skipped": 0}
    assert MessageError.objects.filter(version=2, state="HOLD").count() == good
    assert MessageError.objects.filter(version=1, edited_payload=None).count() == BAD
    assert ErrorChange.objects.filter(action="edit").count() == good
    assert ErrorChange.objects.values("error").distinct().count() == good
    operation = Operation.objects.get()
    assert (operation.total, operation.handled) == (MESSAGES, BAD)
    assert OperationItem.objects.values("error").distinct().count() == MESSAGES
    assert operation.items.filter(outcome="", version=2).count() == good
    assert all(_rows(run, name) == 0 for name in ("items", "outcomes", "results"))
