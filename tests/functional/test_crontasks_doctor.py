"""doctor names what the installation lacks."""

import pytest
from django.core.management import call_command

from crontasks.health import diagnosis
from crontasks.models import Heartbeat
from integration.models import Deployment, Queue
from tests.functional.flow_world import a_heart, a_whole_chain

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
    assert "5 of 13 need attention" in capsys.readouterr().out


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
