"""The driver is killed at a step of a replay: the next one gives each message back once."""

from collections.abc import Callable
from pathlib import Path
from typing import Any, Final

import psycopg
import pytest
from django.conf import settings
from django.db import connection

from crontasks.bulk.asking import ask
from integration.models import BulkRun, ErrorChange, MessageError, Queue
from spark_jobs.staging import lock_number
from tests.support.builders import a_queue
from tests.support.bulk import shared_session
from tests.support.celery_world import Child
from tests.support.flows import drain
from tests.support.kafka_world import Kafka
from tests.support.run_driver import a_driver, a_session, taken_over
from tests.support.spark_driver import eventually
from tests.support.world.models import Effect

pytestmark = [
    pytest.mark.servers,
    pytest.mark.django_db(transaction=True),
    pytest.mark.timeout(500),
]
PARTITIONS, MESSAGES = 3, 400
LAST: Final = PARTITIONS - 1

Killing = Callable[[BulkRun, psycopg.Connection[Any], Child], None]


def when_some_is_staged(run: BulkRun, session: psycopg.Connection[Any], driver: Child) -> None:
    session.execute("SELECT pg_advisory_xact_lock(%s)", [lock_number(str(run.pk), LAST)])
    eventually(lambda: _staged(run) == LAST, driver)
    driver.kill()


def in_the_commit(run: BulkRun, session: psycopg.Connection[Any], driver: Child) -> None:
    """Somebody else is about to write a row at the position of the first message."""
    session.execute(
        "INSERT INTO integration_messageerror (id, queue_id, topic_uuid, partition, "
        '"offset", message_id, interface, sender, headers, edited_by, state, failure_class, code, '
        "text, detail, fingerprint, attempts, retry_no, spent, crashes, carrier, late, "
        "apply_as_newest, version, first_failed_at, last_failed_at, ended) "
        "SELECT gen_random_uuid(), queue_id, topic_uuid, 0, 0, '', '', '', '[]', '', 'HOLD', "
        "'permanent', 'X', '', '', '', 0, 0, 0, 0, 'row', false, false, 1, now(), now(), '' "
        "FROM integration_queuepartition WHERE queue_id = %s AND partition = 0",
        [run.parameters["queue"]],
    )
    eventually(_is_giving, driver)
    driver.kill()


def _staged(run: BulkRun) -> int:
    name = f"bulk_{run.pk.hex}_shares"
    with connection.cursor() as cursor:
        cursor.execute("SELECT to_regclass(%s) IS NOT NULL", [name])
        if not cursor.fetchone()[0]:
            return 0
        cursor.execute(f"SELECT count(*) FROM {name}")
        return int(cursor.fetchone()[0])


def _is_giving() -> bool:
    with connection.cursor() as cursor:
        cursor.execute(
            "SELECT EXISTS (SELECT FROM pg_stat_activity WHERE wait_event_type = 'Lock' "
            "AND query LIKE '%%INSERT INTO integration_messageerror AS e%%')"
        )
        return bool(cursor.fetchone()[0])


@pytest.fixture(scope="module", autouse=True)
def spark() -> Any:
    """For the drivers that go on; those that are killed have one of their own."""
    return shared_session()


@pytest.fixture
def queue(servers: Any) -> Queue:
    broker = Kafka(servers.kafka_bootstrap)
    made = a_queue(broker, partitions=PARTITIONS)
    for partition in range(PARTITIONS):
        first = partition * MESSAGES
        values = [{"n": n} for n in range(first, first + MESSAGES)]
        broker.send(made.topic, values, partition=partition)
    drain(made)
    return made


@pytest.mark.parametrize("kill", [when_some_is_staged, in_the_commit])
def test_a_killed_driver_costs_nothing(
    kill: Killing,
    queue: Queue,
    child_environment: dict[str, str],
    tmp_path: Path,
) -> None:
    run = ask("replay", {"queue": queue.name, "into": "queue"}, actor="tester", send=False)
    environment = {**child_environment, "SLUICE_SPARK_JARS": str(settings.SLUICE_SPARK_JARS)}
    with a_session() as session, a_driver("killed", run, environment, tmp_path) as driver:
        kill(run, session, driver)

    last = taken_over(run)

    count = PARTITIONS * MESSAGES
    assert (last.state, last.problem) == ("DONE", None)
    assert last.counts == {"read": count, "sent": count, "rejected": 0, "skipped": 0}
    assert MessageError.objects.filter(state="READY").count() == count
    assert ErrorChange.objects.count() == count
    with connection.cursor() as cursor:
        cursor.execute("SELECT to_regclass(%s)", [f"bulk_{run.pk.hex}_shares"])
        assert cursor.fetchone() == (None,)
    drain(queue)
    assert Effect.objects.count() == 2 * count
    assert not MessageError.objects.exclude(state="RESOLVED").exists()
