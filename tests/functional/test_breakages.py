"""Eight things broken for real: each is named on the overview within 30 s, with its way out."""

import re
import time
from collections.abc import Iterator
from dataclasses import dataclass
from datetime import timedelta
from html import unescape
from pathlib import Path
from typing import Final
from urllib.request import Request, urlopen

import pytest
import redis
from confluent_kafka.admin import AlterConfigOpType, ConfigEntry, ConfigResource, ResourceType
from django.apps import apps
from django.conf import settings
from django.test import Client
from django.utils import timezone
from pytest_django.live_server_helper import LiveServer

from crontasks.instances import registration
from devstack.servers import Servers
from integration.models import EnterpriseService, Provider, Queue, QueuePartition
from tests.support.builders import a_queue
from tests.support.celery_world import CeleryWorld, Child, celery_world, eventually
from tests.support.kafka_world import Kafka
from tests.support.rows import a_person
from tests.support.sasl_kafka import RIGHT_PASSWORD, USER, SaslKafka, sasl_kafka

pytestmark = [pytest.mark.servers, pytest.mark.django_db(transaction=True)]
WITHIN_SECONDS = 30.0
# Between two looks at the page: each is work, as is what is waited for.
LOOK_SECONDS = 1.0


class Overview:
    """The first page as a person reads it: fetched over HTTP, without its marks."""

    def __init__(self, address: str) -> None:
        client = Client()
        client.force_login(a_person("Editors"))
        session = client.cookies[settings.SESSION_COOKIE_NAME].value
        self._request = Request(  # noqa: S310 - the live server's own address
            f"{address}/", headers={"Cookie": f"{settings.SESSION_COOKIE_NAME}={session}"}
        )

    def text(self) -> str:
        with urlopen(self._request, timeout=20) as answer:  # noqa: S310 - as above
            html = answer.read().decode()
        return " ".join(unescape(re.sub(r"<[^>]+>", " ", html)).split())


Told = tuple[str, str]


@dataclass
class Breakage:
    """What was broken, when, and the words that have to appear: the sentence and the way out.

    In the sentence "…" stands for what cannot be foretold.
    """

    name: str
    sentence: str
    way_out: str
    broken_at: float

    def is_named(self, page: str) -> bool:
        sentence = re.escape(self.sentence).replace("…", ".{1,300}?")
        return re.search(sentence, page) is not None and self.way_out in page


@pytest.fixture
def world(child_environment: dict[str, str], tmp_path: Path) -> Iterator[CeleryWorld]:
    with redis.Redis.from_url(child_environment["SLUICE_CELERY_BROKER_URL"]) as client:
        client.flushall()
    with celery_world(child_environment, tmp_path) as started:
        yield started


@pytest.fixture
def locked() -> Iterator[SaslKafka]:
    with sasl_kafka() as started:
        yield started


@pytest.fixture
def broker(servers: Servers) -> Kafka:
    return Kafka(servers.kafka_bootstrap)


def a_locked_queue(locked: SaslKafka) -> Queue:
    """A queue on the cluster that asks for a password, which the provider knows."""
    queue = a_queue(Kafka(locked.bootstrap), name="payroll", topic=None)
    provider = Provider.objects.create(
        name="vault",
        bootstrap_servers=locked.sasl_bootstrap,
        security_protocol="SASL_PLAINTEXT",
        sasl_mechanism="PLAIN",
        username=USER,
        password=RIGHT_PASSWORD,
    )
    Queue.objects.filter(pk=queue.pk).update(provider=provider)
    Provider.objects.filter(name="main").update(bootstrap_servers="")
    queue.refresh_from_db()
    return queue


def keep_for(broker: Kafka, topic: str, milliseconds: int) -> None:
    entry = ConfigEntry(
        "retention.ms", str(milliseconds), incremental_operation=AlterConfigOpType.SET
    )
    resource = ConfigResource(ResourceType.TOPIC, topic, incremental_configs=[entry])
    broker.admin.incremental_alter_configs([resource])[resource].result(10)


def a_service(interface: str, **fields: object) -> EnterpriseService:
    return EnterpriseService.objects.get_or_create(interface=interface, defaults=fields)[0]


@dataclass
class Stand:
    """Six queues that flow, and what each breakage needs."""

    broker: Kafka
    gone: Queue
    off: Queue
    short: Queue
    missing: Queue
    blocked: Queue
    payroll: Queue

    @classmethod
    def build(cls, broker: Kafka, locked: SaslKafka) -> "Stand":
        payroll = a_locked_queue(locked)
        return cls(
            broker,
            gone=a_queue(broker, name="gone"),
            off=a_queue(broker, "sequential", name="off", default_service=a_service("OBEY.ALONE")),
            short=a_queue(
                broker, "sequential", name="short", max_retries=3, retry_delay_seconds=60.0
            ),
            missing=a_queue(broker, name="missing", default_service=a_service("NOT.HERE")),
            blocked=a_queue(broker, "sequential", name="blocked"),
            payroll=payroll,
        )

    def flows(self) -> bool:
        """Every queue was read by a worker and looked at by the lag monitor."""
        rows = QueuePartition.objects.all()
        return not rows.filter(seen_at=None).exists() and not rows.filter(epoch=0).exists()

    def topic_gone(self) -> Told:
        self.broker.delete(self.gone.topic)
        return (
            (
                f"Blocked … s: The topic {self.gone.topic}, or this partition of it, is not on the "
                "cluster any more."
            ),
            "Create the topic again if it is gone and adopt it here, or pause the queue.",
        )

    def service_off(self) -> Told:
        EnterpriseService.objects.filter(interface="OBEY.ALONE").update(enabled=False)
        return (
            (
                "The service OBEY.ALONE is switched off. It takes the messages of off, so the "
                "queue waits."
            ),
            "Switch the service on again; waiting messages continue by themselves.",
        )

    def wrong_password(self) -> Told:
        provider = Provider.objects.get(name="vault")
        provider.password = "a-wrong-one"
        provider.save()
        return (
            (
                "vault refuses us. The broker answers, but refuses our login. … It said: Kafka "
                "refuses the provider vault: _AUTHENTICATION: …"
            ),
            ("Correct user and password of the provider vault; the queues continue by themselves."),
        )

    def retention_too_short(self) -> Told:
        keep_for(self.broker, self.short.topic, 60_000)
        return (
            (
                f"{self.short.topic} forgets too soon for short. The topic keeps its messages for "
                "1 min, and the retries of one message take 3 min: what waits behind a failing one "
                "expires untried."
            ),
            f"Lengthen retention.ms of {self.short.topic}, or shorten the retry policy.",
        )

    def handler_missing(self) -> Told:
        # The service was there from the start: a run under way knows its queue's fields of up to a
        # second ago, and would still have given the message to the old one.
        self.broker.send(self.missing.topic, [{"n": 1}])
        return (
            (
                "missing waits for a handler. No handler for the next message is installed on the "
                "worker that met it. No handler for NOT.HERE is installed on worker …"
            ),
            "and restart workers and web server; the queue then continues by itself.",
        )

    def blocked_head(self) -> Told:
        self.broker.send(self.blocked.topic, [{"n": 1, "do": "permanent"}], key=b"AZ163")
        self.broker.send(self.blocked.topic, [{"n": 2}, {"n": 3}], key=b"AZ164")
        week = timezone.now() + timedelta(days=7)
        return (
            (
                "blocked partner Blocked … s by AZ163: Refused for good. At most 2 wait behind it, "
                f"counted … s ago; the first expires {week.day} {week:%B} …:…."
            ),
            "Fix Delete…",
        )


BREAKERS: Final = (
    Stand.topic_gone,
    Stand.service_off,
    Stand.wrong_password,
    Stand.retention_too_short,
    Stand.handler_missing,
    Stand.blocked_head,
)


@pytest.mark.timeout(300)
def test_what_breaks_is_named_with_its_way_out(
    world: CeleryWorld, broker: Kafka, locked: SaslKafka, live_server: LiveServer
) -> None:
    registration.ship(apps.get_app_config("crontasks"))
    stand = Stand.build(broker, locked)
    worker = world.worker("queues", concurrency=3)
    relay = world.worker("relay", concurrency=1, queues="relay")
    beat = world.beat("beat")
    eventually(stand.flows, worker, beat)
    overview = Overview(live_server.url)
    flowing = "Nothing is wrong: every queue is running."
    eventually(lambda: flowing in overview.text(), worker, beat, every=LOOK_SECONDS)

    broken = [
        Breakage(break_it.__name__, *break_it(stand), time.monotonic()) for break_it in BREAKERS
    ]
    all_named(overview, broken, worker, beat)

    worker.kill()
    beat.kill()
    now = time.monotonic()
    dead = [
        Breakage(
            "worker down",
            "Worker down. No worker for queues is alive, so nothing is read or tried again.",
            "Start one with celery -A config worker -Q celery",
            now,
        ),
        Breakage(
            "beat down",
            "Beat down. No beat is alive, so no schedule starts anything.",
            "Start one with celery -A config beat",
            now,
        ),
    ]
    all_named(overview, dead, relay)


def all_named(overview: Overview, broken: list[Breakage], *children: Child) -> None:
    """Each is on the page within its time; the page of then tells what was there instead."""
    waiting = list(broken)
    page = ""
    while waiting:
        page = overview.text()
        now = time.monotonic()
        waiting = [one for one in waiting if not one.is_named(page)]
        late = [one.name for one in waiting if now - one.broken_at > WITHIN_SECONDS]
        logs = "\n".join(f"--- {child.name}\n{child.text()[-2000:]}" for child in children)
        assert not late, f"not named within {WITHIN_SECONDS:.0f} s: {late}\n{page}\n{logs}"
        time.sleep(LOOK_SECONDS)
