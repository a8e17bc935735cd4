"""All services from one process: they work, come back one by one, and end together."""

import os
import signal

import psutil
import pytest
from django.db import connection, transaction

from crontasks.management.commands.run_services import missing_tables
from crontasks.models import CronInstance, Heartbeat
from tests.functional.test_dispatcher_processes import applied, flush_broker
from tests.support.builders import a_queue
from tests.support.celery_world import Child, eventually
from tests.support.kafka_world import Kafka

pytestmark = [pytest.mark.servers, pytest.mark.django_db(transaction=True)]


def hearts(kind: str) -> set[int]:
    return set(Heartbeat.objects.filter(kind=kind).values_list("pid", flat=True))


@pytest.fixture
def services(child_environment, tmp_path):
    CronInstance.objects.exclude(task="relay").delete()
    flush_broker(child_environment)
    program = ["manage.py", "run_services", "--slots", "2"]
    child = Child("services", [], child_environment, tmp_path, program)
    yield child
    child.end()


def test_services_work_come_back_and_end_together(services, servers):
    broker = Kafka(servers.kafka_bootstrap)
    eventually(lambda: len(hearts("worker")) == 2 and hearts("beat"), services)
    queue = a_queue(broker)
    broker.send(queue.topic, [{"n": 1}])
    eventually(lambda: applied() == [1], services)

    before = hearts("beat")
    os.kill(next(iter(before)), signal.SIGKILL)
    eventually(lambda: hearts("beat") - before, services)

    family = psutil.Process(services.pid).children(recursive=True)
    services.process.send_signal(signal.SIGTERM)
    assert services.process.wait(60) == 0
    assert not psutil.wait_procs(family, timeout=30)[1]
    assert not hearts("worker")


def test_tables_that_are_missing_are_found():
    assert missing_tables() == []
    with transaction.atomic(), connection.cursor() as cursor:
        cursor.execute(f"ALTER TABLE {Heartbeat._meta.db_table} RENAME TO elsewhere")
        assert missing_tables() == [Heartbeat._meta.db_table]
        transaction.set_rollback(True)


def test_services_end_when_their_parent_is_killed(services):
    eventually(lambda: len(hearts("worker")) == 2, services)
    family = psutil.Process(services.pid).children(recursive=True)
    assert family
    os.kill(services.pid, signal.SIGKILL)
    _, alive = psutil.wait_procs(family, timeout=30)
    assert not alive
