"""check_flow names the broken link."""

import html
from contextlib import closing
from datetime import timedelta

import pytest
from confluent_kafka import Consumer, TopicPartition
from confluent_kafka.admin import AdminClient, AlterConfigOpType, ConfigEntry, ConfigResource
from django.core.management import call_command
from django.core.management.base import CommandError
from django.test import Client
from django.urls import reverse
from django.utils import timezone

from crontasks.health import broker
from crontasks.health.flow import check_flow
from crontasks.models import CronInstance, Heartbeat
from integration.kafka import admin
from integration.models import (
    EnterpriseService,
    ExternalSystem,
    ObjectStructure,
    PartitionLease,
    Queue,
    QueuePartition,
    RelayLease,
)
from integration.selectors.queues.status import NO_BROKER
from integration.store import locks
from integration.store.sessions import database_now, raw_connection
from tests.functional.flow_world import a_heart, a_whole_chain
from tests.support import warm
from tests.support.builders import a_queue
from tests.support.kafka_world import Kafka
from tests.support.rows import a_message_to_send, a_person
from tests.support.servers import celery_at

pytestmark = [pytest.mark.servers, pytest.mark.django_db]
SECOND = timedelta(seconds=1)
ORDER = [
    "provider",
    "system",
    "service",
    "queue",
    "rights",
    "topic",
    "instance",
    "broker",
    "beat",
    "worker",
    "slot",
    "lock",
    "position",
    "rescue",
]


@pytest.fixture
def queue(servers) -> Queue:
    return a_whole_chain(servers.kafka_bootstrap)


def broken_in(queue: Queue) -> list[str]:
    fresh = Queue.objects.select_related("provider", "system", "default_service")
    return [link.name for link in check_flow(fresh.get(pk=queue.pk)) if not link.ok]


def test_a_whole_chain_is_walked_in_order_and_nothing_is_broken(queue, capsys):
    assert [link.name for link in check_flow(queue)] == ORDER
    call_command("check_flow", queue.name)
    assert f"{queue.name}: nothing is broken." in capsys.readouterr().out


def test_what_the_broker_says_about_the_topic_is_told(queue):
    client = AdminClient(bootstrap_of(queue))
    topic = ConfigResource(ConfigResource.Type.TOPIC, queue.topic)
    wanted = {"max.message.bytes": "2000", "retention.bytes": "5000000", "retention.ms": "3600000"}
    for name, value in wanted.items():
        entry = ConfigEntry(name, value, incremental_operation=AlterConfigOpType.SET)
        topic.add_incremental_config(entry)
    client.incremental_alter_configs([topic])[topic].result(10)
    (link,) = [link for link in check_flow(queue) if link.name == "topic"]
    assert link.ok
    for fact in ("1 copy", "min.insync.replicas=1", "2,000 bytes", "1 h", "one copy only"):
        assert fact in link.why
    assert "retention.bytes=5000000" in link.why


def breaks(name):
    def remember(function):
        BREAKS.append(pytest.param(name, function, id=function.__name__))
        return function

    return remember


BREAKS: list = []


@breaks("provider")
def no_broker_there(queue):
    queue.provider.bootstrap_servers = "127.0.0.1:1"
    queue.provider.save()


@breaks("system")
def system_off(queue):
    ExternalSystem.objects.update(enabled=False)


@breaks("service")
def service_off(queue):
    EnterpriseService.objects.update(enabled=False)


@breaks("service")
def no_handler(queue):
    queue.default_service = EnterpriseService.objects.create(interface="NOBODY")
    queue.save()


@breaks("service")
def schema_that_is_not_run(queue):
    structure = ObjectStructure.objects.create(
        name="s", key_paths=["$.k"], json_schema={"properties": {"v": {"pattern": "(?!a)"}}}
    )
    queue.default_service = EnterpriseService.objects.create(interface="S", structure=structure)
    queue.save()


@breaks("queue")
def queue_off(queue):
    Queue.objects.update(enabled=False)


@breaks("queue")
def queue_paused(queue):
    Queue.objects.update(paused=True, pause_reason="stock-taking")


@breaks("topic")
def no_topic(queue):
    Queue.objects.update(topic="no-such-topic")


@breaks("topic")
def another_topic(queue):
    QueuePartition.objects.update(topic_uuid="another")


@breaks("instance")
def no_instance(queue):
    CronInstance.objects.all().delete()


@breaks("instance")
def instance_off(queue):
    CronInstance.objects.update(active=False)


@breaks("instance")
def beat_does_not_know_it(queue):
    instance = CronInstance.objects.get(queue=queue)
    instance.periodic_task.enabled = False
    instance.periodic_task.save()


@breaks("beat")
def beat_dead(queue):
    Heartbeat.objects.filter(kind="beat").update(seen_at=database_now() - 20 * SECOND)


@breaks("beat")
def no_beat_leads(queue):
    Heartbeat.objects.filter(kind="beat").update(leads=False)


@breaks("beat")
def beat_asleep(queue):
    CronInstance.objects.update(last_scheduled_at=timezone.now() - 60 * SECOND)


@breaks("worker")
def worker_dead(queue):
    Heartbeat.objects.filter(kind="worker").update(seen_at=database_now() - 20 * SECOND)


@breaks("worker")
def only_a_relay_worker(queue):
    Heartbeat.objects.filter(kind="worker").update(queues="relay")


@breaks("worker")
def worker_in_another_time(queue):
    Heartbeat.objects.filter(kind="worker").update(clock_skew_seconds=-40)


@breaks("worker")
def no_dispatcher(queue):
    Heartbeat.objects.filter(kind="worker").update(leads=False)


@breaks("slot")
def nobody_takes_the_start(queue):
    Queue.objects.update(start_requested_at=database_now() - 60 * SECOND)


@breaks("position")
def blocked(queue):
    QueuePartition.objects.update(state="BLOCKED", state_code="HEAD_HELD", state_text="Bad date.")


@breaks("position")
def stopped(queue):
    QueuePartition.objects.update(state="BRAKED")


@breaks("rescue")
def full(queue):
    QueuePartition.objects.update(rescue_code="RESCUE_FULL", rescue_text="No room.")


@pytest.mark.parametrize(("name", "break_it"), BREAKS)
def test_the_broken_link_is_named_with_a_next_step(queue, capsys, monkeypatch, name, break_it):
    if break_it is no_broker_there:
        # Nobody else is asked: this is only waited for.
        monkeypatch.setattr(admin, "ANSWER_SECONDS", 1.0)
    break_it(queue)
    with pytest.raises(SystemExit) as ended:
        call_command("check_flow", queue.name)
    assert ended.value.code == 1
    told = capsys.readouterr().out
    broken = [line.split()[1] for line in told.splitlines() if line.startswith("BROKEN")]
    assert broken == (["provider", "topic"] if name == "provider" else [name])
    next_step = told.partition(f"Fix first: {name}. ")[2]
    assert len(next_step) > 10


def test_a_group_without_a_position_is_named_until_it_has_one(queue):
    QueuePartition.objects.all().delete()
    group, asked_at = f"former-{queue.topic}", database_now() - 60 * SECOND
    Queue.objects.update(start_from="group", start_group=group, start_requested_at=asked_at)
    (link,) = [link for link in check_flow(Queue.objects.get()) if not link.ok]
    assert link.name == "start"
    assert link.why.startswith("GROUP_NO_POSITION: ")
    assert link.next_step
    with closing(Consumer({**bootstrap_of(queue), "group.id": group})) as member:
        member.commit(offsets=[TopicPartition(queue.topic, 0, 0)], asynchronous=False)
    # What could begin now is asked for in vain: that is the slot's to tell.
    assert broken_in(queue) == ["slot"]


def bootstrap_of(queue: Queue) -> dict[str, str]:
    return {"bootstrap.servers": queue.provider.bootstrap_servers}


def test_what_the_celery_client_said_is_told_by_the_command_alone(queue, capsys):
    client = Client()
    client.force_login(a_person("Viewers"))
    with celery_at("redis://127.0.0.1:1/0"):
        said = html.escape(broker.silence() or "")
        page = client.get(reverse("flow", args=[queue.name])).text
        with pytest.raises(SystemExit):
            call_command("check_flow", queue.name)
    assert "127.0.0.1" in said
    assert NO_BROKER.next_step in page
    assert said not in page
    assert said in html.escape(capsys.readouterr().out)


def test_a_stopped_owner_is_named(queue):
    row = queue.partitions.get()
    PartitionLease.objects.create(
        partition=row,
        owner="host:77",
        epoch=1,
        lock_pid=1,
        lock_backend_start=database_now(),
        lease_until=database_now() - SECOND,
        taken_at=database_now(),
    )
    with raw_connection("test") as holder:
        holder.execute(locks.TRY, (locks.LockClass.PARTITION, row.pk))
        (link,) = [link for link in check_flow(queue) if not link.ok]
        assert link.name == "lock"
        assert "host:77" in link.why
        PartitionLease.objects.update(lease_until=database_now() + 10 * SECOND)
        assert broken_in(queue) == []


@pytest.fixture
def outbound(servers) -> Queue:
    a_heart("beat")
    a_heart("worker", node="relay@host", queues="relay", slots=1)
    # No beat runs here: the relay's schedule would seem missed once the tests have run for long.
    CronInstance.objects.filter(task="relay").update(last_scheduled_at=database_now())
    inbound = a_queue(Kafka(servers.kafka_bootstrap))
    return Queue.objects.create(
        name="orders-out",
        provider=inbound.provider,
        topic=inbound.topic,
        direction="outbound",
        kind="sequential",
        start_from="end",
    )


OUTBOUND_ORDER = [
    "provider",
    "queue",
    "rights",
    "topic",
    "instance",
    "broker",
    "beat",
    "relay",
    "lease",
    "outbox",
]


def test_an_outbound_queue_is_walked_from_the_provider_to_the_outbox(outbound, capsys):
    assert [link.name for link in check_flow(outbound)] == OUTBOUND_ORDER
    call_command("check_flow", outbound.name)
    assert f"{outbound.name}: nothing is broken." in capsys.readouterr().out


def test_switching_an_outbound_queue_off_is_not_told_to_stop_it(outbound):
    outbound.enabled = False
    (link,) = [link for link in check_flow(outbound) if link.name == "queue"]
    assert link.ok
    assert "stops no sending" in link.why


def no_relay_schedule(_queue):
    CronInstance.objects.filter(task="relay").update(active=False)


def no_relay_worker(_queue):
    Heartbeat.objects.filter(kind="worker").update(queues="celery")


def in_doubt(queue):
    RelayLease.objects.create(
        provider=queue.provider, in_doubt_since=timezone.now(), in_doubt_text="Watermark gone."
    )


def refused_by_kafka(queue):
    a_message_to_send(queue, "DEAD", strict_queue=queue.pk)


def waiting_for_minutes(queue):
    a_message_to_send(queue, created_at=timezone.now() - 300 * SECOND)


@pytest.mark.parametrize(
    ("name", "break_it"),
    [
        ("instance", no_relay_schedule),
        ("beat", beat_dead),
        ("relay", no_relay_worker),
        ("lease", in_doubt),
        ("outbox", refused_by_kafka),
        ("outbox", waiting_for_minutes),
    ],
)
def test_the_broken_link_of_an_outbound_queue_is_named(outbound, name, break_it):
    break_it(outbound)
    broken = [link for link in check_flow(outbound) if not link.ok]
    assert [link.name for link in broken] == [name], broken
    assert len(broken[0].next_step) > 10


def test_what_was_written_a_moment_ago_is_not_stuck(outbound):
    a_message_to_send(outbound)
    (link,) = [link for link in check_flow(outbound) if link.name == "outbox"]
    assert link.ok
    assert link.why.startswith("1 message ")


@pytest.mark.parametrize(
    ("command", "arguments"), [("check_flow", ["assets"]), ("doctor", [])], ids=str
)
def test_a_database_that_is_down_is_told_in_a_sentence(child_environment, command, arguments):
    silent = {**child_environment, "SLUICE_DATABASE_URL": "postgresql://u:p@127.0.0.1:1/sluice"}
    ended = warm.child(["manage.py", command, *arguments], silent, text=True)
    told, _ = ended.communicate(timeout=60)
    assert ended.returncode == 1
    assert "Traceback" not in told
    assert told.count("The database does not answer (") == 1
    assert "start postgresql, or correct sluice_database_url." in told.lower()


def test_an_unknown_queue_is_told_with_those_there_are(queue):
    with pytest.raises(CommandError, match=queue.name) as refused:
        call_command("check_flow", "nonsense")
    assert refused.value.returncode == 2
