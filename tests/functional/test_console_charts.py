"""The page of charts: the last day by the hour, from the tables that there are, within bounds."""

import time
from datetime import datetime, timedelta
from typing import Any

import pytest
from django.test import Client
from django.urls import reverse
from django.utils import timezone

from console.charts.drawings import HourRow
from console.models import Limit
from integration.models import ExternalSystem, Queue, QueueSample
from integration.selectors import charts
from integration.store import track_days
from tests.support.bulk_pages import logged_in
from tests.support.rows import a_held, a_person, a_queue_row
from tests.support.tracks import a_track_row

pytestmark = [pytest.mark.servers, pytest.mark.django_db]
HOUR = timedelta(hours=1)


@pytest.fixture
def queue() -> Queue:
    return a_queue_row("continuous", system=ExternalSystem.objects.create(name="partner"))


@pytest.fixture(autouse=True)
def _the_hour_does_not_turn() -> None:
    left = (this_hour() + HOUR - timezone.now()).total_seconds()
    if left < 20:
        # Latencies are noted a second into the hour.
        time.sleep(left + 1.1)


def this_hour() -> datetime:
    return timezone.now().replace(minute=0, second=0, microsecond=0)


def show(client: Client | None = None, **asked: str) -> Any:
    answer = (client or logged_in("Viewers")).get(reverse("charts"), asked)
    assert answer.status_code == 200
    return answer


def row(answer: Any, hours_ago: int) -> HourRow:
    found: HourRow = answer.context["rows"][hours_ago]
    assert found.begins == this_hour() - hours_ago * HOUR
    return found


def failed(queue: Queue, offset: int, at: datetime, **fields: Any) -> None:
    a_held(queue, offset, first_failed_at=at, last_failed_at=timezone.now(), **fields)


def sampled(queue: Queue, at: datetime, position: int, end: int) -> None:
    QueueSample.objects.create(queue=queue, at=at, position=position, end=end)


def test_where_nothing_happened_it_is_said(queue: Queue) -> None:
    page = show().text
    assert "Good news: no message failed for the first time in these hours." in page
    assert "No samples yet" in page
    assert "No message was applied or delivered" in page


def test_failures_are_counted_by_cause_in_the_hour_they_failed_first(queue: Queue) -> None:
    for offset in range(3):
        failed(queue, offset, this_hour() - 2 * HOUR)
    failed(queue, 7, this_hour() - 5 * HOUR, code="OTHER", fingerprint="o" * 16)
    failed(queue, 8, this_hour() - 30 * HOUR)
    failed(queue, 9, this_hour() - 2 * HOUR, state="RESOLVED")
    answer = show()
    assert (row(answer, 2).failures, row(answer, 5).failures) == (4, 1)
    assert [(line.code, line.total) for line, _ in answer.context["causes"]] == [
        ("BAD_VALUE", 4),
        ("OTHER", 1),
    ]
    assert "5 first failures" in answer.text
    assert "code=BAD_VALUE" in answer.text


def test_many_causes_are_told_together_and_many_failures_by_the_newest(
    queue: Queue, monkeypatch: pytest.MonkeyPatch
) -> None:
    for number in range(12):
        failed(queue, number, this_hour(), code=f"CODE_{number:02}", fingerprint=f"{number:016}")
    answer = show()
    assert len(answer.context["causes"]) == charts.CAUSES + 1
    assert "4 other causes" in answer.text
    monkeypatch.setattr(charts, "MOST_ROWS", 10)
    assert "10" in show().text
    assert show().context["failures"].is_capped


def test_messages_in_and_out_are_the_steps_between_samples(queue: Queue) -> None:
    begin = this_hour() - 3 * HOUR
    sampled(queue, begin - timedelta(minutes=1), 100, 120)
    sampled(queue, begin + timedelta(minutes=30), 150, 160)
    sampled(queue, begin + timedelta(minutes=59), 180, 200)
    answer = show()
    assert row(answer, 3).throughput == (80, 80)
    assert row(answer, 2).throughput == (None, None), "nobody looked"
    sampled(queue, begin + 1.9 * HOUR, 10, 30)
    assert row(show(), 2).throughput == (0, 0), "a topic made anew is no step back"


def test_how_long_messages_took_is_told_by_percentiles(queue: Queue) -> None:
    track_days.make_ahead()
    at = this_hour() + timedelta(seconds=1)
    for number in range(1, 101):
        sent = int((at.timestamp() - number / 10) * 1_000)
        a_track_row(queue, at=at, kafka_ms=sent)
    a_track_row(queue, at=at, kafka_ms=0)
    a_track_row(queue, at=at, ended="RETRY", kafka_ms=1)
    at = min(at, timezone.now())
    found = row(show(), 0).latency
    assert found.messages == 100
    assert found.half == pytest.approx(5.05, abs=0.02)
    assert found.most == pytest.approx(9.5, abs=0.1)
    assert found.nearly_all == pytest.approx(9.9, abs=0.1)
    assert "50 % within" in show().text


def test_one_queue_is_drawn_alone_and_people_see_theirs(queue: Queue) -> None:
    other = a_queue_row("continuous", system=ExternalSystem.objects.create(name="other"))
    failed(queue, 1, this_hour())
    failed(other, 2, this_hour())
    assert show().context["failures"].total == 2
    assert show(queue=other.name).context["failures"].total == 1
    assert show(queue="nowhere").context["queue"] == ""
    person = a_person("Viewers")
    Limit.objects.create(person=person).systems.add(queue.system)
    eva = Client()
    eva.force_login(person)
    assert show(eva).context["failures"].total == 1
    assert show(eva, queue=other.name).context["queue"] == ""
    assert other.name not in show(eva).text
    nobody = a_person("Viewers")
    Limit.objects.create(person=nobody)
    eva.force_login(nobody)
    assert show(eva).context["failures"].total == 0


def test_the_page_asks_the_database_a_fixed_number_of_questions(
    queue: Queue, django_assert_max_num_queries: Any
) -> None:
    client = logged_in("Viewers")
    for number in range(5):
        more = a_queue_row("continuous")
        failed(more, number, this_hour(), code=f"C{number}", fingerprint=f"{number:016}")
        sampled(more, this_hour(), 1, 2)
    with django_assert_max_num_queries(24):
        show(client)


def test_of_many_batches_few_are_looked_at(queue: Queue) -> None:
    assert charts.PARTS * charts.BATCHES * 24 < 50_000
