"""Figures of a queue that stand side by side agree, however old what the broker said is."""

import re
from datetime import timedelta

import pytest
from django.test import Client
from django.urls import reverse
from django.utils import timezone

from console.setup.queues.fields import LABELS
from console.templatetags.sluice import UNKNOWN
from integration.models import QueuePartition
from integration.selectors.queues import queues
from tests.support.rows import a_person, a_place, a_queue_row

pytestmark = [pytest.mark.servers, pytest.mark.django_db]


@pytest.fixture
def client() -> Client:
    client = Client()
    client.force_login(a_person("Operators", "otto"))
    return client


def cell(page: str, label: str) -> str:
    found = re.search(rf'<td[^>]*data-label="{label}"[^>]*>(.*?)</td>', page, re.DOTALL)
    assert found is not None
    return re.sub(r"<[^>]+>", "", found[1])


def a_place_the_monitor_saw_before(next_offset: int, *, end: int = 76) -> QueuePartition:
    """The lag monitor looked when the oldest message waited; then the worker went on."""
    return a_place(
        a_queue_row("continuous"),
        next_offset=next_offset,
        high_watermark=end,
        oldest_waiting_at=timezone.now() - timedelta(seconds=104),
    )


@pytest.mark.parametrize("next_offset", [76, 84])
def test_where_nothing_waits_nothing_is_oldest_and_no_end_lies_behind_the_position(
    client: Client, next_offset: int
) -> None:
    place = a_place_the_monitor_saw_before(next_offset)
    page = client.get(reverse("queue", args=[place.queue.name])).text
    assert (cell(page, "Waiting"), cell(page, "Oldest")) == ("0", UNKNOWN)
    assert (cell(page, "Next offset"), cell(page, "End")) == (f"{next_offset}", f"{next_offset}")
    overview = client.get(reverse("queues")).text
    assert (cell(overview, "Waiting"), cell(overview, "Oldest")) == ("0", UNKNOWN)
    assert "Nothing waits in the topic" in overview


def test_what_waits_keeps_its_age_and_its_end(client: Client) -> None:
    place = a_place_the_monitor_saw_before(75)
    a_place(place.queue, partition=1, next_offset=9, high_watermark=5)
    page = client.get(reverse("queue", args=[place.queue.name])).text
    assert (cell(page, "Waiting"), cell(page, "End")) == ("1", "76")
    assert cell(page, "Oldest").endswith(" s")
    assert "<dd>at most 1, counted" in page
    [row] = queues.overview()
    assert (row.lag, row.oldest_waiting_at) == (1, place.oldest_waiting_at)


def test_what_nobody_has_looked_at_is_unknown_not_the_position(client: Client) -> None:
    place = a_place(a_queue_row("continuous"), high_watermark=None)
    page = client.get(reverse("queue", args=[place.queue.name])).text
    assert (cell(page, "End"), cell(page, "Waiting"), cell(page, "Oldest")) == (
        UNKNOWN,
        UNKNOWN,
        UNKNOWN,
    )


@pytest.mark.parametrize("verb", ["pause", "resume", "enable", "disable"])
def test_a_verb_for_an_outbound_queue_is_refused_in_words(client: Client, verb: str) -> None:
    queue = a_queue_row(direction="outbound", name="orders")
    answer = client.post(reverse(verb, args=["orders"]), {"reason": "x"})
    assert answer.status_code == 409
    assert "orders is outbound" in answer.text
    queue.refresh_from_db()
    assert (queue.enabled, queue.paused) == (True, False)


@pytest.mark.parametrize(
    ("threshold", "told"), [(5, "5 failures of the same cause in a row"), (0, "never")]
)
def test_rules_are_told_in_the_words_of_the_form(threshold: int, told: str) -> None:
    pauses = {"backoff": "constant", "retry_delay_seconds": 60, "max_retries": 3}
    queue = a_queue_row(failure_threshold=threshold, **pauses)
    detail = queues.detail(queue.name)
    assert detail is not None
    rules = dict(detail.facts)
    pauses_told = "after 1 min, 1 min, 1 min; given up after 3 min"
    assert rules[LABELS["max_retries"]] == f"3 retries: {pauses_told}."
    assert rules[LABELS["max_open_errors"]] == "10,000"
    assert rules[LABELS["failure_threshold"]] == told
