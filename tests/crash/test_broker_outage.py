"""The broker of Celery is killed, or hangs, under workers and a beat that are at work.

What is tested: it is named within seconds wherever people look, what is at work goes on, and what
it kept from starting is started once it is back. How: a Valkey of this module's own is killed or
stopped by a signal; Kafka and PostgreSQL stay.
"""

from collections.abc import Iterator
from functools import partial
from pathlib import Path

import pytest

from crontasks.health import readiness
from crontasks.health.checks import Health
from crontasks.health.flow import check_flow
from crontasks.health.live_processes import alive as seen
from crontasks.health.live_processes import live_processes
from crontasks.models import Notice
from crontasks.problems import asking, finding
from devstack.servers import in_folder
from devstack.valkey import Valkey
from integration.models import OutboxRow, Queue
from integration.selectors.queues import queues
from tests.support.builders import a_queue
from tests.support.celery_world import CeleryWorld, Child, celery_world, eventually
from tests.support.flows import effects
from tests.support.http_api import a_partner
from tests.support.kafka_world import Kafka
from tests.support.servers import celery_at

pytestmark = [pytest.mark.crash, pytest.mark.servers, pytest.mark.django_db(transaction=True)]

# Fifteen, and what a machine may stand still.
NAMED_SECONDS = 20
# What is only waited for; a busy machine may take its time.
GENEROUS_SECONDS = 150.0


@pytest.fixture
def mortal(tmp_path: Path) -> Iterator[Valkey]:
    private = in_folder(tmp_path / "set", durable=False).valkey
    private.start()
    try:
        with celery_at(private.url):
            yield private
    finally:
        private.kill()


@pytest.fixture
def world(
    child_environment: dict[str, str], mortal: Valkey, tmp_path: Path
) -> Iterator[CeleryWorld]:
    environment = {**child_environment, "SLUICE_CELERY_BROKER_URL": mortal.url}
    with celery_world(environment, tmp_path) as started:
        yield started


long_enough = partial(eventually, seconds=GENEROUS_SECONDS)


def seen_now() -> tuple[int, int]:
    """How many workers and beats show a heartbeat, whether or not they are given tasks."""
    return len(seen("worker")), len(seen("beat"))


def problems() -> list[str]:
    alive = live_processes()
    return [one.what for one in finding.problems(asking.ask(queues.standing(alive), alive, {}))]


def is_named_everywhere(queue: Queue, *children: Child) -> None:
    told = Notice.objects.filter(kind="NO_BROKER", closed_at=None)
    eventually(told.exists, *children, seconds=NAMED_SECONDS)
    assert problems()[0] == "The Celery broker is down"
    assert next(link.name for link in check_flow(queue) if not link.ok) == "broker"
    failing = [one.name for one in readiness.look() if one.health is Health.FAILING]
    # Who is given no tasks for a quarter of a minute counts as no worker, besides.
    assert "broker" in failing
    assert {*failing} <= {"broker", "worker", "relay"}


def applies(kafka: Kafka, queue: Queue, number: int, *children: Child) -> None:
    kafka.send(queue.topic, [{"n": number}])
    long_enough(lambda: effects() == [*range(number + 1)], *children)


@pytest.mark.timeout(600)
def test_a_broker_that_is_gone_is_named_and_what_is_at_work_goes_on(
    world: CeleryWorld, mortal: Valkey, servers
) -> None:
    """It hangs, and when it is back it dies: the same processes live through both."""
    kafka = Kafka(servers.kafka_bootstrap)
    busy = a_queue(kafka, stay_seconds=120)
    kafka.send(busy.topic, [{"n": 0}])
    worker = world.worker("w", concurrency=3, queues="celery,relay")
    beat = world.beat("b")
    eventually(lambda: effects() == [0], worker, beat)
    partner = a_partner()
    taken = {"provider": busy.provider, "topic": kafka.topic(), "enabled": False}
    Queue.objects.filter(pk=partner.queue.pk).update(**taken)
    assert partner.post({"n": 100}).status_code == 202
    eventually(lambda: published() == 1, worker, beat)
    beats = [beat]
    for number, (goes, comes_back) in enumerate(
        [(mortal.pause, mortal.resume), (mortal.kill, mortal.start)]
    ):
        # A run that Kafka's absence ended, or that had nothing to read when another task wanted
        # its slot, could not be started again while Celery's broker is away: it is to be at work.
        kafka.wait_for_controller()
        applies(kafka, busy, 3 * number + 1, worker, *beats)

        goes()
        is_named_everywhere(busy, worker, *beats)

        # What the sentence promises.
        applies(kafka, busy, 3 * number + 2, worker, *beats)
        assert partner.post({"n": 101 + number}).status_code == 202
        long_enough(lambda so_far=number + 2: published() == so_far, worker, *beats)
        idle = a_queue(kafka)
        kafka.send(idle.topic, [{"n": 3 * number + 3}])
        beats.append(world.beat(f"late-{number}"))
        assert seen_now() == (1, len(beats)), "their hearts beat on, and a beat starts without it"

        comes_back()
        kafka.wait_for_controller()
        long_enough(lambda last=3 * number + 3: last in effects(), worker, *beats)
        told = Notice.objects.filter(kind="NO_BROKER", closed_at=None)
        long_enough(lambda told=told: not told.exists(), worker, *beats)


def published() -> int:
    return OutboxRow.objects.filter(state="PUBLISHED").count()
