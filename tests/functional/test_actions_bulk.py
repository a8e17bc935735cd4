"""The same verbs for many failures: what has moved on is counted and left alone."""

import threading

import pytest
from django.db import connection, transaction
from django.utils import timezone

from integration.actions import bulk
from integration.actions.bulk import BulkOutcome
from integration.actions.problems import ReasonMissingError
from integration.models import ErrorChange, MessageError
from tests.support.rows import a_held, a_place, a_queue_row

pytestmark = [pytest.mark.servers, pytest.mark.django_db]


def some_held(count: int) -> list[MessageError]:
    queue = a_queue_row("continuous")
    a_place(queue)
    return [a_held(queue, offset) for offset in range(count)]


def test_each_row_is_counted_once_and_only_the_held_are_released() -> None:
    rows = some_held(5)
    MessageError.objects.filter(pk=rows[0].pk).update(state="RESOLVED", version=2)
    rows[1].delete()
    ids = [row.pk for row in rows]
    outcome = bulk.release_many(ids, actor="otto", reason="partner is up again")
    assert outcome == BulkOutcome(moved=3, moved_on=2)
    assert MessageError.objects.filter(state="READY", spent=0, version=2).count() == 3
    reasons = set(ErrorChange.objects.values_list("actor", "action", "reason"))
    assert reasons == {("otto", "release", "partner is up again")}
    assert ErrorChange.objects.count() == 3


def test_releasing_twice_moves_nothing_the_second_time() -> None:
    ids = [row.pk for row in some_held(3)]
    bulk.release_many(ids, actor="otto")
    assert bulk.release_many(ids, actor="otto") == BulkOutcome(moved_on=3)
    assert ErrorChange.objects.count() == 3


def test_with_versions_a_row_edited_since_is_left_alone() -> None:
    first, second = some_held(2)
    MessageError.objects.filter(pk=second.pk).update(version=2)
    seen = {first.pk: 1, second.pk: 1}
    outcome = bulk.release_many(seen, actor="otto", versions=seen)
    assert outcome == BulkOutcome(moved=1, moved_on=1)
    assert MessageError.objects.get(pk=second.pk).state == "HOLD"


def test_more_rows_than_a_chunk_and_few_statements(
    django_assert_max_num_queries: object, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(bulk, "CHUNK_ROWS", 4)
    ids = [row.pk for row in some_held(10)]
    with django_assert_max_num_queries(3 * 9):  # type: ignore[operator] # pytest-django's fixture
        outcome = bulk.release_many(ids, actor="otto")
    assert outcome == BulkOutcome(moved=10)


def test_those_a_sequential_queue_has_passed_stay_unless_confirmed() -> None:
    queue = a_queue_row("sequential")
    a_place(queue, next_offset=12)
    passed, ahead = a_held(queue, 10), a_held(queue, 12)
    ids = [passed.pk, ahead.pk]
    assert bulk.release_many(ids, actor="otto") == BulkOutcome(moved=1, would_be_late=1)
    assert MessageError.objects.get(pk=passed.pk).state == "HOLD"
    outcome = bulk.release_many(ids, actor="otto", late=True)
    assert outcome == BulkOutcome(moved=1, moved_on=1)
    assert MessageError.objects.get(pk=passed.pk).late is True
    assert MessageError.objects.get(pk=ahead.pk).late is False


def test_hold_delete_and_restore() -> None:
    rows = some_held(3)
    ids = [row.pk for row in rows]
    MessageError.objects.update(state="RETRY", not_before=timezone.now())
    assert bulk.hold_many(ids, actor="otto") == BulkOutcome(moved=3)
    with pytest.raises(ReasonMissingError):
        bulk.delete_many(ids, actor="otto", reason="")
    assert bulk.delete_many(ids, actor="otto", reason="obsolete") == BulkOutcome(moved=3)
    assert set(MessageError.objects.values_list("state", "ended")) == {("DELETED", "DELETED")}
    assert bulk.restore_many(ids, actor="otto") == BulkOutcome(moved=3)
    assert set(MessageError.objects.values_list("state", "closed_at")) == {("HOLD", None)}


@pytest.mark.django_db(transaction=True)
def test_rows_the_engine_works_on_are_counted_and_not_waited_for() -> None:
    busy, free = some_held(2)
    outcomes: list[BulkOutcome] = []

    def ask() -> None:
        try:
            outcomes.append(bulk.release_many([busy.pk, free.pk], actor="otto"))
        finally:
            connection.close()

    with transaction.atomic():
        MessageError.objects.select_for_update().get(pk=busy.pk)
        thread = threading.Thread(target=ask)
        thread.start()
        thread.join(20)
    assert outcomes == [BulkOutcome(moved=1, in_work=1)]
