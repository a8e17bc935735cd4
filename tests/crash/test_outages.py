"""PostgreSQL goes away in the middle of a batch, or a commit is never answered.

What is tested: whatever dies, and whenever, the run ends with an ending that says so, the next
run goes on, and afterwards every offset has ended once and the effects equal the input. How: the
server is killed by SIGKILL at a step of the engine, sessions are terminated while a deferred
trigger keeps their COMMIT waiting, and a proxy cuts the wire around one COMMIT.
"""

import logging
import time
from functools import partial

import psycopg
import pytest
from celery.exceptions import Retry
from django.db import Error, connection
from django.test import override_settings
from django.utils import timezone

from crontasks import tasks
from crontasks.models import CronInstance
from integration.delivery.ports import Stop
from integration.delivery.report import Report
from integration.delivery.steps import Step
from integration.models import ErrorAttempt, MessageError, PartitionLease, Queue
from integration.runs.queues import run_queue
from tests.support import warm
from tests.support.at_step import AtStep
from tests.support.builders import a_queue
from tests.support.flows import drain, effects, ended, standing
from tests.support.kafka_world import Kafka
from tests.support.lossy_proxy import Break, LossyProxy
from tests.support.warm import WarmChild

pytestmark = [pytest.mark.crash, pytest.mark.servers, pytest.mark.django_db(transaction=True)]

MESSAGES, BATCH = 60, 10
BACK_SECONDS = 40.0


@pytest.fixture
def broker(servers) -> Kafka:
    return Kafka(servers.kafka_bootstrap)


def a_full_queue(broker: Kafka, **fields: object) -> Queue:
    queue = a_queue(broker, **{"batch_size": BATCH, "stay_seconds": 0.1} | fields)
    broker.send(queue.topic, [{"n": n} for n in range(MESSAGES)])
    return queue


def finish(queue: Queue) -> None:
    """Run until everything is read, as the dispatcher would."""
    deadline = time.monotonic() + BACK_SECONDS
    while standing(queue)[0] < MESSAGES:
        assert time.monotonic() < deadline, standing(queue)
        drain(queue)


def account(queue: Queue) -> None:
    assert effects() == list(range(MESSAGES))
    assert ended(queue) == dict.fromkeys(range(MESSAGES), "APPLIED")
    assert standing(queue) == (MESSAGES, "RUNNING", "")
    assert not MessageError.objects.exists()
    assert not ErrorAttempt.objects.exists()


@pytest.mark.parametrize("step", [Step.FETCHED, Step.BEGUN, Step.SETTLED, Step.COMMITTED])
def test_a_database_that_dies_in_a_batch_ends_the_run_and_nothing_else(servers, broker, step):
    queue = a_full_queue(broker)
    last_seen: list[int] = []

    def kill() -> None:
        last_seen.append(committed_position(servers))
        servers.postgres.kill()

    dies = AtStep(step, 2, kill)
    try:
        report = run_queue(queue.pk, observer=dies)
        assert report.ending == "LOST", report
        again = run_queue_without_database(queue.pk)
        assert again == "LOST"
    finally:
        servers.postgres.start()
        connection.close()
    reached = standing(queue)[0]
    assert [reached] == last_seen
    assert effects() == list(range(reached))
    assert reached < MESSAGES
    finish(queue)
    account(queue)


def a_tick_that_comes_again(instance_id: int, moment: str) -> None:
    with pytest.raises(Retry):
        tasks.tick(instance_id, moment)


def test_a_celery_task_that_meets_no_database_ends_with_one_line(servers, broker, caplog):
    """Each pool process would log a traceback otherwise, and bury what matters."""
    queue = a_full_queue(broker)
    instance = CronInstance.objects.get(queue=queue)
    moment = timezone.now().isoformat()
    told = caplog.at_level(logging.INFO)
    dies = AtStep(Step.BEGUN, 2, servers.postgres.kill)
    try:
        with told, override_settings(SLUICE_ENGINE=f"{__name__}.DYING"):
            DYING.observer = dies
            tasks.run_queue(queue.pk)
            assert dies.left <= 0
            for ask in (
                partial(tasks.run_queue, queue.pk, moment),
                partial(tasks.run_queue, queue.pk),
                partial(a_tick_that_comes_again, instance.pk, moment),
                tasks.run_relay,
            ):
                ask()
    finally:
        servers.postgres.start()
        connection.close()
    ours = [record for record in caplog.records if record.name.startswith("crontasks")]
    assert {(record.levelname, record.exc_info) for record in ours} == {("WARNING", None)}
    assert [record.getMessage().split(" ended because the database")[0] for record in ours] == [
        *[f"A run of queue {queue.pk}"] * 3,
        f"A tick of cron instance {instance.pk}",
        "The relay",
    ]
    finish(queue)
    account(queue)


class Dying:
    """The engine, with an observer that a Celery task could not hand to it."""

    observer: AtStep

    def __call__(self, queue_id: int, *, stop: Stop) -> Report:
        return run_queue(queue_id, stop=stop, observer=self.observer)


DYING = Dying()


def committed_position(servers) -> int:
    """Where the only queue stands, seen from a session that is in no batch."""
    name = connection.settings_dict["NAME"]
    with psycopg.connect(servers.database_url, dbname=name) as session:
        row = session.execute("SELECT next_offset FROM integration_queuepartition").fetchone()
    assert row is not None
    return int(row[0])


def run_queue_without_database(queue_id: int) -> str:
    """A start while nothing answers: Celery would see the exception of the very first query."""
    try:
        return run_queue(queue_id).ending
    except Error:
        return "LOST"


# Sleeps inside COMMIT, after everything was written, when the twentieth message ends. The engine
# makes constraints immediate before it settles; the second trigger takes that back for this one.
SLOW_COMMIT = f"""
CREATE FUNCTION doze() RETURNS trigger LANGUAGE plpgsql AS
  $$ BEGIN PERFORM pg_sleep(60); RETURN NULL; END $$;
CREATE CONSTRAINT TRIGGER doze AFTER UPDATE ON integration_queuepartition
  DEFERRABLE INITIALLY DEFERRED FOR EACH ROW
  WHEN (OLD.next_offset < {2 * BATCH} AND NEW.next_offset >= {2 * BATCH}) EXECUTE FUNCTION doze();
CREATE FUNCTION later() RETURNS trigger LANGUAGE plpgsql AS
  $$ BEGIN SET CONSTRAINTS doze DEFERRED; RETURN NULL; END $$;
CREATE TRIGGER later BEFORE INSERT ON integration_messagetrack
  FOR EACH STATEMENT EXECUTE FUNCTION later();
"""
WAKE = """
DROP TRIGGER doze ON integration_queuepartition; DROP FUNCTION doze();
DROP TRIGGER later ON integration_messagetrack; DROP FUNCTION later();
"""
IN_COMMIT = (
    "SELECT pid FROM pg_stat_activity WHERE query = 'COMMIT' AND state = 'active' "
    "AND wait_event = 'PgSleep' AND datname = current_database()"
)


def child(queue: Queue, environment: dict[str, str]) -> WarmChild:
    words = [str(queue.pk), "none", "1", "KILL"]
    return warm.child(["-m", "tests.support.crash_child", *words], environment)


def wait_for(sql: str) -> int:
    """The first column of the first row, once there is one."""
    deadline = time.monotonic() + 20
    while time.monotonic() < deadline:
        with connection.cursor() as cursor:
            cursor.execute(sql)
            row = cursor.fetchone()
        if row is not None:
            return int(row[0])
        time.sleep(0.02)
    raise AssertionError(f"never: {sql}")


@pytest.mark.parametrize("end", ["terminate", "kill", "crash"])
def test_a_commit_in_flight_is_all_or_nothing(servers, broker, child_environment, end):
    queue = a_full_queue(broker)
    with connection.cursor() as cursor:
        cursor.execute(SLOW_COMMIT)
    worker = child(queue, child_environment)
    try:
        pid = wait_for(IN_COMMIT)
        before = standing(queue)[0]
        if end == "terminate":
            with connection.cursor() as cursor:
                cursor.execute("SELECT pg_terminate_backend(%s)", [pid])
        elif end == "kill":
            worker.kill()
        else:
            servers.postgres.kill()
        said, _ = worker.communicate(timeout=30)
    finally:
        worker.kill()
        if end == "crash":
            servers.postgres.start()
            connection.close()
        with connection.cursor() as cursor:
            cursor.execute("SET lock_timeout = '10s'")
            cursor.execute(WAKE)  # only when the commit's session is gone
    assert (b"LOST" in said) == (end != "kill"), said
    assert standing(queue)[0] == before < 2 * BATCH
    assert effects() == list(range(before))
    finish(queue)
    account(queue)


@pytest.mark.parametrize("nth", [1, 3, 6])
def test_a_commit_whose_answer_is_lost_is_looked_up(servers, broker, child_environment, nth):
    """The run finds its batch in the partition's row and goes on as if nothing had been."""
    queue = a_full_queue(broker)
    with LossyProxy(child_environment["SLUICE_DATABASE_URL"], Break.AFTER, nth) as wire:
        worker = child(queue, child_environment | {"SLUICE_DATABASE_URL": wire.url})
        said, _ = worker.communicate(timeout=60)
        assert wire.broken.is_set()
    assert b"DRAINED" in said, said
    account(queue)


def test_a_commit_that_never_arrived_is_not_taken_for_done(servers, broker, child_environment):
    queue = a_full_queue(broker)
    with LossyProxy(child_environment["SLUICE_DATABASE_URL"], Break.BEFORE, 2) as wire:
        worker = child(queue, child_environment | {"SLUICE_DATABASE_URL": wire.url})
        said, _ = worker.communicate(timeout=60)
        assert wire.broken.is_set()
    assert b"LOST" in said, said
    reached = standing(queue)[0]
    assert effects() == list(range(reached))
    assert 0 < reached < MESSAGES
    finish(queue)
    account(queue)


def test_a_handler_that_hangs_loses_its_lease_and_writes_nothing_more(
    broker, child_environment, tmp_path
):
    """Its own process does not end it: another worker takes over when the lease is over."""
    queue = a_queue(broker, handler_timeout_seconds=1, batch_size=5)
    values = [{"n": n, "do": "hang" if n == 7 else "ok"} for n in range(MESSAGES)]
    broker.send(queue.topic, values)
    until_gone = tmp_path / "hangs"
    until_gone.touch()
    hangs = {"TESTS_HANG": str(until_gone), "SLUICE_LEASE_SECONDS": "1"}
    hung = child(queue, child_environment | hangs)
    try:
        wait_for("SELECT 1 FROM integration_queuepartition WHERE next_offset = 5")
        wait_for(
            "SELECT 1 FROM integration_partitionlease "
            "WHERE released_at IS NULL AND lease_until < clock_timestamp()"
        )
        assert standing(queue)[0] == 5
        epoch = PartitionLease.objects.get().epoch
        finish(queue)
        account(queue)
        until_gone.unlink()
        said, _ = hung.communicate(timeout=30)
    finally:
        hung.kill()
    assert b"LOST" in said, said
    assert PartitionLease.objects.get().epoch > epoch
    account(queue)
