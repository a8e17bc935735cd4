"""What people decided outlives what it was about: cleaned up, or removed with its queue."""

import pytest
from django.utils import timezone

from crontasks.builtin.errors_cleanup import CleanupParameters, ErrorsCleanup
from crontasks.builtin.history_cleanup import HistoryCleanup, HistoryParameters
from integration.actions import failures, queue_removal, queues
from integration.actions.configuration import Author
from integration.models import ErrorChange, QueueChange
from integration.selectors.scope import EVERYTHING, Scope
from integration.selectors.tracking.story import story
from tests.functional.test_cleanup import DAY, a_queue, an_error, context
from tests.support.rows import a_held, a_place, a_queue_row

pytestmark = pytest.mark.servers


@pytest.mark.django_db
def test_what_people_decided_about_a_failure_outlives_it_without_the_payload():
    row = an_error(a_queue(), message_id="M-1")
    ErrorChange.objects.update(payload_before=b"personal", reason="twice", at=row.closed_at)

    ErrorsCleanup().run(CleanupParameters(), context())

    kept = ErrorChange.objects.get()
    assert (kept.error, kept.queue_name, kept.message_id) == (None, "assets", "M-1")
    assert (kept.actor, kept.action, kept.reason) == ("a", "hold", "twice")
    assert kept.payload_before is None
    told = story("M-1", EVERYTHING)
    assert told is not None
    assert [event.text for event in told.events] == ["twice"]
    assert story("M-1", Scope(frozenset())) is None
    counts = HistoryCleanup().run(HistoryParameters(decisions_days=50), context()).counts
    assert counts["failure_decisions"] == 1
    assert not ErrorChange.objects.exists()


@pytest.mark.django_db
def test_a_decision_about_a_failure_that_is_there_stays_with_it_however_old_it_is():
    an_error(a_queue(), days=None, state="HOLD")
    ErrorChange.objects.update(at=timezone.now() - 200 * DAY)
    HistoryCleanup().run(HistoryParameters(decisions_days=50), context())
    assert ErrorChange.objects.count() == 1


@pytest.mark.django_db
def test_what_people_decided_outlives_the_queue_and_its_failures() -> None:
    queue = a_queue_row("continuous")
    a_place(queue)
    row = a_held(queue, message_id="M-1")
    failures.delete(row.pk, version=row.version, actor="eva", reason="sent twice")
    queues.disable(queue.pk, actor="otto", reason="not needed")

    queue_removal.remove(queue.pk, Author("otto", "not needed"), typed=queue.name)

    about_queue = QueueChange.objects.get(action="disable")
    assert (about_queue.queue, about_queue.name, about_queue.actor) == (None, queue.name, "otto")
    about_failure = ErrorChange.objects.get()
    assert (about_failure.queue_name, about_failure.message_id) == (queue.name, "M-1")
    assert (about_failure.actor, about_failure.reason) == ("eva", "sent twice")
