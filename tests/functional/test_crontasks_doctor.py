"""doctor names what the installation lacks, and the overview what a queue does."""

from datetime import timedelta
from pathlib import Path

import pytest
from django.core.management import call_command
from django.urls import reverse
from django.utils import timezone

from crontasks.health import diagnosis
from crontasks.models import CronInstance, CronRun, Heartbeat
from integration.models import Deployment, Queue
from tests.functional.flow_world import a_heart, a_whole_chain
from tests.support.kafka_world import Kafka
from tests.support.rows import a_queue_row, some_live_processes
from tests.support.set_up import logged_in

pytestmark = [pytest.mark.servers, pytest.mark.django_db]


@pytest.fixture
def queue(servers) -> Queue:
    return a_whole_chain(servers.kafka_bootstrap)


def findings() -> dict[str, bool]:
    return {link.name: link.ok for link in diagnosis.diagnose()}


def test_a_sound_installation_passes_the_doctor(queue, capsys):
    call_command("doctor")
    told = capsys.readouterr().out
    assert "Everything is in order." in told
    assert "main answers" in told
    assert set(findings()) == {
        "database",
        "session",
        "terminate",
        "migrations",
        "encryption",
        "environment",
        "broker",
        "clock",
        "beat",
        "worker",
        "relay",
        "spark",
        "provider",
        "topics",
    }


@pytest.mark.usefixtures("unanswered")
def test_the_doctor_names_what_is_wrong(queue, settings, capsys):
    queue.provider.bootstrap_servers = "127.0.0.1:1"
    queue.provider.save()
    settings.SLUICE_ENCRYPTION_KEYS = ("b3RoZXIta2V5LW90aGVyLWtleS1vdGhlci1rZXktb3Q=",)
    Deployment.objects.update(environment="production")
    Heartbeat.objects.filter(kind="beat").delete()
    Heartbeat.objects.filter(kind="worker").update(queues="celery")
    wrong = {name for name, ok in findings().items() if not ok}
    assert wrong == {"encryption", "environment", "beat", "relay", "provider"}
    with pytest.raises(SystemExit):
        call_command("doctor")
    assert "5 of 14 need attention" in capsys.readouterr().out


FILE = """format: 1
queues:
- {name: gone, provider: main, topic: nobody.made.it, kind: sequential, direction: inbound,
   start_from: beginning}
- {name: wide, provider: main, topic: WIDE, kind: sequential, direction: inbound,
   start_from: beginning}
"""


def test_a_queue_without_a_topic_that_fits_is_told_when_it_is_set_up_and_later(
    queue: Queue, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    file = tmp_path / "queues.yaml"
    wide = Kafka(queue.provider.bootstrap_servers).topic(2)
    file.write_text(FILE.replace("WIDE", wide))
    call_command("config", "apply", str(file))
    told = capsys.readouterr().err.splitlines()
    assert [line.split(":")[0] for line in told] == ["queue gone", "queue wide"]
    assert "The topic nobody.made.it does not exist." in told[0]
    assert "has 2 partitions" in told[1]
    wrong = [one for one in diagnosis.diagnose() if not one.ok]
    assert [(one.name, one.why.split(":")[0]) for one in wrong] == [
        ("topics", "gone"),
        ("topics", "wide"),
    ]


def test_slots_are_told_apart_by_what_they_are_for(queue):
    Heartbeat.objects.filter(kind="worker").update(queues="celery", slots=3)
    a_heart("worker", node="relay@host", queues="relay", slots=1)
    told = {link.name: link.why for link in diagnosis.diagnose()}
    assert told["worker"] == "1 alive for queues. Slots: 3 for queues."
    assert told["relay"] == "1 alive for the relay. Slots: 1 for the relay."
    a_heart("worker", node="both@host", queues="celery,relay", slots=2)
    told = {link.name: link.why for link in diagnosis.diagnose()}
    both = "2 shared by queues and the relay."
    assert told["worker"] == f"2 alive for queues. Slots: 3 for queues, {both}"
    assert told["relay"] == f"2 alive for the relay. Slots: 1 for the relay, {both}"


def test_the_overview_says_why_a_queue_cannot_begin() -> None:
    some_live_processes()
    consumer = CronInstance.objects.get(queue=a_queue_row(name="orders"))
    now = timezone.now()
    for minutes, text in ((2, "The cluster is away."), (1, "The topic t-orders does not exist.")):
        at = now - timedelta(minutes=minutes)
        CronRun.objects.create(instance=consumer, started_at=at, state="DONE", text=text)
    page = logged_in().get(reverse("overview")).text
    assert "orders cannot begin" in page
    assert "The topic t-orders does not exist." in page
    assert "The cluster is away." not in page
