"""The page after a restore: what is left to decide, what was decided, and who may."""

from typing import Any

import pytest
from django.test import Client
from django.urls import reverse
from django.utils import timezone

from console.layout.access import Right
from console.models import Limit
from integration.models import MessageError, Queue, Restore, RestoreFinding
from tests.support import restored
from tests.support.rows import a_held, a_person, a_place, a_queue_row

pytestmark = [pytest.mark.servers, pytest.mark.django_db]
PAGE = "/restore/"


@pytest.fixture(autouse=True)
def owned(db: None) -> None:
    restored.own()


@pytest.fixture
def queue() -> Queue:
    return a_queue_row("continuous", direction="outbound", name="supplier")


@pytest.fixture
def findings(queue: Queue) -> list[RestoreFinding]:
    """Two things to decide: deliveries that wait, and a position that was further on."""
    a_place(queue)
    a_held(queue, state="RETRY", not_before=timezone.now())
    restore = Restore.objects.create(
        noticed_by="person",
        text="The disk of last night.",
        examined_at=timezone.now(),
        remarks=["Somebody should know this."],
    )
    facts = {"name": queue.name, "waiting": 1, "calls": 2}
    read = {
        "name": queue.name,
        "topic": queue.topic,
        "topic_uuid": "first-topic",
        "from": 10,
        "to": 14,
        "end": 15,
        "expired": 0,
        "failures": 0,
        "delivers": False,
    }
    return [
        restore.findings.create(kind="delivery", queue=queue.pk, facts=facts),
        restore.findings.create(kind="position", queue=queue.pk, partition=0, facts=read),
    ]


def of(role: str) -> Client:
    client = Client()
    client.force_login(a_person(role))
    return client


def decide(client: Client, finding: RestoreFinding, word: str, reason: str = "") -> Any:
    address = reverse("decide-finding", args=[finding.pk])
    return client.post(address, {"word": word, "reason": reason}, follow=True)


def test_one_decision_at_a_time_with_those_that_follow(findings: list[RestoreFinding]) -> None:
    page = of("Administrators").get(PAGE).text
    assert "Decision 1 of 2" in page
    assert "1 failed message waits to be delivered again. 2 calls were under way" in page
    assert "To decide next" in page
    assert "Somebody should know this." in page
    assert page.count('name="word"') == 2


def test_the_last_decision_lets_everything_go_on(findings: list[RestoreFinding]) -> None:
    client = of("Administrators")
    held = decide(client, findings[0], "hold", "I ask them").text
    assert "Held for review: 1 failure of supplier." in held
    assert "Decision 2 of 2" in held
    assert MessageError.objects.get().state == "HOLD"

    again = decide(client, findings[0], "deliver")
    assert again.status_code in {409, 422}
    assert "decided it already" in again.text

    done = decide(client, findings[1], "read-again").text
    assert "That was the last decision: everything continues." in done
    assert "nothing waits for a decision" in done
    assert "supplier, partition 0, continues at offset 10." in done
    assert "I ask them" in done


def test_a_refused_decision_keeps_what_was_chosen(findings: list[RestoreFinding]) -> None:
    client = of("Administrators")
    decide(client, findings[0], "deliver")
    refused = decide(client, findings[1], "skip", "  ")
    assert refused.status_code == 422
    assert "a reason is needed" in refused.text
    assert 'value="skip" required checked' in refused.text
    assert 'value="read-again" required checked' not in refused.text


def test_who_only_looks_is_told_which_right_is_missing(findings: list[RestoreFinding]) -> None:
    client = of("Viewers")
    page = client.get(PAGE).text
    assert Right.CONFIGURE.missing in page
    assert decide(client, findings[0], "hold").status_code == 403
    assert RestoreFinding.objects.filter(decided_at__isnull=True).count() == 2


def test_who_is_limited_to_some_systems_decides_nothing(findings: list[RestoreFinding]) -> None:
    person = a_person("Administrators")
    Limit.objects.create(person=person)
    client = Client()
    client.force_login(person)
    assert client.get(PAGE).context["is_limited"]
    assert decide(client, findings[0], "hold").status_code == 404
