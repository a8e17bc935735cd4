"""Bulk operations: frozen selections, chunks that change each message once, and people's acts."""

import threading
from datetime import timedelta
from uuid import UUID

import pytest
from django.db import connection, transaction
from django.utils import timezone

from crontasks.running.operating import run_operation
from integration.actions import operations
from integration.actions.errors import (
    NothingChosenError,
    OperationMovedError,
    ReasonMissingError,
)
from integration.actions.failures import lateness_of
from integration.actions.operation_items import Job, OperationStep, work
from integration.actions.operations import Options
from integration.models import (
    ConfigurationChange,
    ErrorChange,
    ExternalSystem,
    MessageError,
    Operation,
    OperationItem,
    Queue,
)
from integration.policy.states import OperationState
from integration.selectors.operations import operations as found
from integration.selectors.scope import Scope
from integration.store import operations as store
from tests.support.operations import outcomes, plan, run, some_held, started
from tests.support.rows import a_held, a_place, a_queue_row

pytestmark = [pytest.mark.servers, pytest.mark.django_db, pytest.mark.usefixtures("valkey")]


def test_a_selection_is_frozen_in_the_order_of_arrival_and_nothing_joins_it():
    rows = some_held(3)
    operation = plan()
    a_held(rows[0].queue, 9)
    assert operation.total == 3
    assert operation.title == f"Release 3 messages of {rows[0].queue.name}"
    assert operation.queues == [rows[0].queue_id]
    items = operation.items.order_by("place").values_list("error", "version", "outcome")
    assert list(items) == [(row.pk, 1, "") for row in rows]


@pytest.mark.parametrize(("chosen", "is_capped"), [(2, False), (3, True)])
def test_what_was_chosen_beyond_the_most_that_one_takes_is_told(monkeypatch, chosen, is_capped):
    monkeypatch.setattr(operations, "MOST_ITEMS", 2)
    versions = {row.pk: row.version for row in some_held(chosen)}
    planned = operations.plan_chosen(versions, verb="release", actor="otto")
    operation = Operation.objects.get(pk=planned)
    assert (operation.total, operation.is_capped) == (2, is_capped)


def test_a_successor_reads_no_more_than_one_operation_takes(monkeypatch):
    """Repairs make larger operations than the console does."""
    rows = some_held(5)
    operation = started(plan())
    run(operation)
    MessageError.objects.update(state="HOLD", last_failed_at=timezone.now())
    monkeypatch.setattr(operations, "MOST_ITEMS", 2)
    monkeypatch.setattr(found, "MOST_COUNTED", 2)
    chosen = found.again(operation, found.Show.FAILED)
    assert list(chosen) == [row.pk for row in rows[:3]]
    number = operations.plan_chosen(chosen, verb="release", actor="otto", retry_of=operation.pk)
    successor = Operation.objects.get(pk=number)
    assert (successor.total, successor.is_capped) == (2, True)


def test_every_message_is_changed_once_told_once_and_counted():
    some_held(5)
    operation = started(plan(), reason="partner is up again")
    assert run(operation) is OperationState.DONE
    assert outcomes(operation) == ["DONE"] * 5
    assert MessageError.objects.filter(state="READY", spent=0, version=2).count() == 5
    told = set(ErrorChange.objects.values_list("actor", "action", "reason", "operation"))
    assert told == {("otto", "release", "partner is up again", operation.pk)}
    assert ErrorChange.objects.count() == 5
    assert (operation.handled, operation.done) == (5, 5)
    assert operation.ended_at is not None
    assert run_operation(operation.pk, stop=lambda: None) is None, "it is over"


def test_what_has_moved_on_is_left_alone_with_its_reason():
    moved, resolved, fit = some_held(3)
    MessageError.objects.filter(pk=resolved.pk).update(state="RESOLVED")
    operation = started(plan())
    MessageError.objects.filter(pk=moved.pk).update(version=2)
    assert run(operation) is OperationState.DONE
    by_error = dict(operation.items.values_list("error", "outcome"))
    assert by_error[moved.pk] == "MOVED_ON"
    assert by_error[resolved.pk] == "WRONG_STATE"
    assert by_error[fit.pk] == "DONE"
    assert (operation.handled, operation.done) == (3, 1)


def test_a_failure_that_cleanup_removed_is_counted_as_gone():
    row, _ = some_held(2)
    operation = started(plan())
    with connection.cursor() as cursor:
        cursor.execute("DELETE FROM integration_errorattempt WHERE error_id = %s", [row.pk])
        cursor.execute("DELETE FROM integration_messageerror WHERE id = %s", [row.pk])
    assert run(operation) is OperationState.DONE
    assert sorted(outcomes(operation)) == ["DONE", "GONE"]


def test_those_a_sequential_queue_has_passed_stay_unless_confirmed():
    queue = a_queue_row("sequential")
    a_place(queue, next_offset=12)
    passed, ahead = a_held(queue, 10), a_held(queue, 12)
    operation = started(plan())
    run(operation)
    assert dict(operation.items.values_list("error", "outcome")) == {
        passed.pk: "LATE",
        ahead.pk: "DONE",
    }
    confirmed = started(plan(), late=True)
    run(confirmed)
    assert MessageError.objects.get(pk=passed.pk).late is True
    assert MessageError.objects.get(pk=ahead.pk).late is False


@pytest.mark.parametrize(
    ("state", "fields"),
    [
        ("RUNNING", {}),
        ("RUNNING", {"topic_uuid": "another"}),
        ("RUNNING", {"offset": 9}),
        ("RUNNING", {"expired_at": timezone.now()}),
    ],
)
@pytest.mark.parametrize("kind", ["sequential", "continuous"])
@pytest.mark.parametrize(
    "more",
    [
        {},
        {"is_error_queue": True},
        {"on_head_expired": "stay_blocked"},
        {"is_error_queue": True, "strict_order": True},
    ],
)
@pytest.mark.parametrize("has_place", [True, False])
def test_what_is_late_for_one_release_is_late_for_many(state, fields, kind, more, has_place):
    queue = a_queue_row(kind, **more)
    if has_place:
        a_place(queue)
    row = a_held(queue, **fields)
    assert store.lock([row.pk])[row.pk].seen.late is (lateness_of(row) is not None)


def test_hold_delete_and_restore():
    some_held(3)
    MessageError.objects.update(state="RETRY", not_before=timezone.now())
    run(started(plan("hold")))
    assert set(MessageError.objects.values_list("state", "not_before")) == {("HOLD", None)}
    with pytest.raises(ReasonMissingError):
        started(plan("delete"))
    run(started(plan("delete"), reason="obsolete"))
    assert set(MessageError.objects.values_list("state", "ended")) == {("DELETED", "DELETED")}
    run(started(plan("restore")))
    assert set(MessageError.objects.values_list("state", "closed_at")) == {("HOLD", None)}


def test_one_first_then_it_waits_for_a_person():
    some_held(3)
    operation = started(plan(), first_only=True)
    assert run(operation) is OperationState.PAUSED
    assert (operation.handled, operation.why_paused) == (1, "first")
    first = found.last_done(operation)
    assert (first.place, first.became) == (0, "WAITING")
    MessageError.objects.filter(pk=first.error).update(state="RESOLVED", ended="APPLIED")
    operations.resume(operation.pk, version=operation.version, actor="otto", one_first=True)
    assert run(operation) is OperationState.PAUSED
    assert operation.handled == 2
    # Whoever asked for one more decides by how that one ends.
    more = found.last_done(operation)
    assert (more.place, more.became) == (1, "WAITING")
    operations.resume(operation.pk, version=operation.version, actor="otto")
    assert run(operation) is OperationState.DONE


def test_the_first_one_is_the_last_where_nothing_is_left_to_wait():
    some_held(2)
    operation = started(plan(), first_only=True)
    MessageError.objects.filter(pk=operation.items.get(place=0).error_id).update(version=9)
    assert run(operation) is OperationState.DONE
    assert outcomes(operation)[1] == "DONE"


def test_it_pauses_whatever_the_text_of_what_went_wrong_holds():
    some_held(1)
    operation = started(plan())

    def fail(step: OperationStep) -> None:
        if step is OperationStep.NOTED:
            raise ValueError("half \ud800 and \0")

    assert run_operation(operation.pk, observe=fail) is OperationState.PAUSED
    operation.refresh_from_db()
    assert operation.why_paused.startswith("ValueError: half ")


def test_pause_resume_and_cancel_keep_what_is_done():
    some_held(4)
    operation = started(plan())
    tenure = store.take(operation.pk, "test")
    assert work(Job(operation), tenure, 1, from_place=0).done == 1
    operations.pause(operation.pk, actor="otto")
    assert work(Job(operation), tenure, 1, from_place=0).is_ours is False
    assert store.leave(tenure) is OperationState.PAUSED
    operation.refresh_from_db()
    operations.resume(operation.pk, version=operation.version, actor="otto")
    tenure = store.take(operation.pk, "test")
    assert work(Job(operation), tenure, 2, from_place=0).done == 2
    operations.cancel(operation.pk, actor="otto")
    assert work(Job(operation), tenure, 2, from_place=0).done == 0
    assert outcomes(operation) == ["DONE", "DONE", "DONE", ""]
    assert MessageError.objects.filter(state="HOLD").count() == 1
    with pytest.raises(OperationMovedError):
        operations.pause(operation.pk, actor="otto")


def test_each_act_is_one_row_of_audit():
    some_held(2)
    operation = started(plan())
    operations.pause(operation.pk, actor="otto")
    operation.refresh_from_db()
    operations.change_rate(operation.pk, 7, version=operation.version, actor="otto")
    operation.refresh_from_db()
    operations.resume(operation.pk, version=operation.version, actor="otto")
    operations.cancel(operation.pk, actor="otto", reason="enough")
    rows = ConfigurationChange.objects.filter(kind="operation").order_by("id")
    after = [(row.after.get("state"), row.after.get("rate")) for row in rows]
    assert after == [
        ("RUNNING", None),
        ("PAUSED", None),
        (None, 7),
        ("RUNNING", None),
        ("CANCELLED", None),
    ]
    assert {row.subject for row in rows} == {str(operation.pk)}
    assert rows.last().reason == "enough"


def test_who_saw_another_version_starts_nothing():
    some_held(1)
    operation = plan()
    with pytest.raises(OperationMovedError):
        operations.start(operation.pk, Options(), version=2, actor="otto")
    started(operation)
    with pytest.raises(OperationMovedError):
        started(operation)


def test_a_second_runner_gets_nothing_while_the_lease_lasts_and_fences_the_first_later():
    some_held(2)
    operation = started(plan())
    first = store.take(operation.pk, "one")
    assert store.take(operation.pk, "two") is None
    Operation.objects.update(lease_until=timezone.now() - timedelta(seconds=1))
    second = store.take(operation.pk, "two")
    assert work(Job(operation), first, 5, from_place=0).is_ours is False
    assert work(Job(operation), second, 5, from_place=0).done == 2
    assert ErrorChange.objects.count() == 2


def test_rows_of_queues_out_of_scope_are_not_chosen_and_such_operations_not_seen():
    mine, theirs = (ExternalSystem.objects.create(name=name) for name in ("mine", "theirs"))
    own = a_held(a_queue_row("continuous", system=mine))
    foreign = a_held(a_queue_row("continuous", system=theirs))
    scope = Scope(frozenset({mine.pk}))
    asked = {"verb": "release", "actor": "otto"}
    id_ = operations.plan_chosen({own.pk: 1, foreign.pk: 1}, scope, **asked)
    assert [item.error_id for item in OperationItem.objects.filter(operation=id_)] == [own.pk]
    with pytest.raises(NothingChosenError):
        operations.plan_chosen({foreign.pk: 1}, scope, **asked)
    whole = plan()
    assert found.one(whole.pk, scope) is None
    assert found.one(id_, scope) is not None
    assert [row.pk for row in found.page(scope).operations] == [id_]
    Queue.objects.filter(pk=own.queue_id).update(system=theirs)
    assert found.one(id_, scope) is None


def test_progress_tells_what_became_of_each_message():
    rows = some_held(6)
    operation = started(plan())
    run(operation)
    states = ["RESOLVED", "HOLD", "READY", "DELETED", "RETRY"]
    for row, state in zip(rows, states, strict=False):
        failed = (
            timezone.now() + timedelta(seconds=1)
            if state in {"HOLD", "RETRY"}
            else row.last_failed_at
        )
        MessageError.objects.filter(pk=row.pk).update(
            state=state,
            version=3,
            last_failed_at=failed,
            not_before=timezone.now(),
            ended="SUPERSEDED" if state == "RESOLVED" else "",
        )
    progress = found.progress(operation)
    assert (progress.done, progress.left, progress.skipped) == (6, 0, 0)
    assert (progress.resolved, progress.superseded) == (1, 1)
    assert (progress.failed, progress.waiting, progress.moved) == (2, 2, 1)
    [cause] = found.failed_causes(operation)
    assert (cause.code, cause.messages) == ("BAD_VALUE", 2)
    for show, count in [("failed", 2), ("resolved", 1), ("waiting", 2), ("left", 0), ("", 6)]:
        assert len(found.items(operation.pk, found.Show(show)).items) == count
    assert list(found.again(operation, found.Show.FAILED)) == [rows[1].pk]


def test_items_are_paged_by_their_place():
    some_held(5)
    operation = plan()
    page = found.items(operation.pk, limit=2)
    assert [item.number for item in page.items] == [1, 2]
    page = found.items(operation.pk, after=page.after, limit=2)
    assert [item.number for item in page.items] == [3, 4]
    assert found.items(operation.pk, after=page.after, limit=2).after is None
    assert len(list(found.every_item(operation.pk))) == 5


@pytest.mark.django_db(transaction=True)
def test_rows_in_somebodys_hands_are_waited_for_and_then_skipped():
    busy, _ = some_held(2)
    operation = started(plan())
    tenure = store.take(operation.pk, "test")
    seen: list[tuple[int, int, int]] = []

    def ask() -> None:
        try:
            for patient in (True, False):
                chunk = work(Job(operation), tenure, 9, from_place=0, patient=patient)
                seen.append((chunk.handled, chunk.done, chunk.from_place))
        finally:
            connection.close()

    with transaction.atomic():
        MessageError.objects.select_for_update().get(pk=busy.pk)
        thread = threading.Thread(target=ask)
        thread.start()
        thread.join(20)
    assert seen == [(1, 1, 0), (1, 0, 1)]
    assert outcomes(operation) == ["IN_WORK", "DONE"]


def test_only_the_failed_part_becomes_an_operation_of_its_own():
    rows = some_held(3)
    operation = started(plan())
    run(operation)
    later = timezone.now() + timedelta(seconds=1)
    MessageError.objects.filter(pk=rows[1].pk).update(state="HOLD", version=3, last_failed_at=later)
    MessageError.objects.filter(pk=rows[0].pk).update(state="RESOLVED", version=3)
    asked = {"verb": "release", "actor": "otto", "retry_of": operation.pk}
    chosen = found.again(operation, found.Show.FAILED)
    second = Operation.objects.get(pk=operations.plan_chosen(chosen, **asked))
    assert second.retry_of_id == operation.pk
    assert list(second.items.values_list("error", "version")) == [(rows[1].pk, 3)]


def test_a_planned_operation_runs_for_nobody():
    some_held(1)
    operation = plan()
    assert run_operation(operation.pk, stop=lambda: None) is None
    assert isinstance(operation.pk, UUID)


def test_a_rate_that_is_changed_is_kept_while_it_runs():
    """From one a second to any: the runner would need five minutes otherwise."""
    some_held(300)
    operation = started(plan(), rate=1)
    asked: list[int] = []

    def stop() -> None:
        if not asked:
            asked.append(1)
            operations.change_rate(operation.pk, None, version=operation.version, actor="otto")

    assert run_operation(operation.pk, stop=stop) is OperationState.DONE
    operation.refresh_from_db()
    assert (operation.rate, operation.done) == (None, 300)
