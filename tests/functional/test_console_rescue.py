"""What people see of a rescue: on the queue's page, in its removal, in notices and figures."""

import pytest
from django.test import Client
from django.urls import reverse

from crontasks.models.notice import NoticeKind
from crontasks.notices import conditions
from integration.actions.queue_removal import leaving
from integration.models import Queue, QueuePartition, Rescue
from integration.selectors.metrics import families
from integration.selectors.queues.rescued import rescued
from integration.store.sessions import database_now
from tests.support.rows import TOPIC_UUID, a_person, a_place, a_queue_row

pytestmark = [pytest.mark.servers, pytest.mark.django_db(transaction=True)]


@pytest.fixture
def place() -> QueuePartition:
    """A paused queue of which two messages at its position stand rescued."""
    queue = a_queue_row("continuous", paused=True, pause_reason="works")
    place = a_place(queue, rescued_to=12)
    a_range(place, 10, 12, records=2, size=3 * 2**20)
    return place


def a_range(place: QueuePartition, first: int, end: int, *, records: int, size: int) -> Rescue:
    return Rescue.objects.create(
        partition=place,
        topic_uuid=TOPIC_UUID,
        from_offset=first,
        to_offset=end,
        swept_to=first,
        records=records,
        bytes=size,
        reason="PAUSED",
        began_at=database_now(),
        grew_at=database_now(),
    )


def told(kind: NoticeKind) -> list[tuple[str, str]]:
    found = conditions.seen_by_workers(is_settled=False)
    return [(one.subject, one.text) for one in found if one.kind is kind]


@pytest.mark.usefixtures("unanswered")
def test_the_queues_page_says_how_much_since_when_and_why(place: QueuePartition) -> None:
    client = Client()
    client.force_login(a_person("Operators", "otto"))
    page = reverse("queue", args=[place.queue.name])
    shown = client.get(page).text
    assert 'id="rescued"' in shown
    assert "3.0 of 1,024 MiB" in shown
    assert "was paused" in shown
    place.rescue_code, place.rescue_text = "RESCUE_FULL", "No room."
    place.save()
    assert "RESCUE_FULL" in client.get(page).text
    # Read, and with nothing in danger any more.
    QueuePartition.objects.update(next_offset=12, rescue_code="")
    assert 'id="rescued"' not in client.get(page).text


@pytest.mark.usefixtures("valkey")
def test_people_are_told_while_something_stands_rescued_and_when_a_rescue_stops(
    place: QueuePartition,
) -> None:
    [(subject, text)] = told(NoticeKind.RESCUED)
    assert subject == place.queue.name
    assert "2 messages" in text
    assert told(NoticeKind.RESCUE_STOPPED) == []
    QueuePartition.objects.update(rescue_code="RESCUE_FULL", rescue_text="No room.")
    [(subject, text)] = told(NoticeKind.RESCUE_STOPPED)
    assert subject == f"{place.queue.name}[0]"
    assert text.startswith("RESCUE_FULL")
    QueuePartition.objects.update(next_offset=12, rescue_code="")
    assert (told(NoticeKind.RESCUED), told(NoticeKind.RESCUE_STOPPED)) == ([], [])


def test_a_queue_of_which_something_stands_rescued_is_not_deleted(place: QueuePartition) -> None:
    Queue.objects.update(enabled=False)
    queue = Queue.objects.get()
    assert [words for words in leaving(queue).refusals if "rescued" in words]
    QueuePartition.objects.update(next_offset=12)
    assert leaving(queue).refusals == ()


def test_what_was_given_up_with_its_topic_counts_no_more(place: QueuePartition) -> None:
    assert (saved := rescued(place.queue)) is not None
    assert (saved.records, saved.reasons) == (2, ("PAUSED",))
    [family] = [one for one in families() if one.name == "queue_rescued"]
    assert family.samples == [((place.queue.name,), 2.0)]
    QueuePartition.objects.update(topic_uuid="another")
    assert rescued(place.queue) is None
