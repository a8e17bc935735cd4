"""What a person may ask for one failure, and what is answered when somebody was faster."""

import threading
from datetime import timedelta
from uuid import uuid4

import pytest
from django.db import OperationalError, connection, transaction
from django.utils import timezone

from integration.actions import failures
from integration.actions.errors import (
    LateReleaseError,
    PayloadTooLargeError,
    ReasonMissingError,
    RowBusyError,
    StateMismatchError,
)
from integration.actions.transaction import short_transaction
from integration.envelope import DEFAULT
from integration.models import ErrorChange, MessageError, OutboxRow
from integration.policy import moves
from integration.policy.states import ErrorState, may_move
from tests.support.rows import a_blocked_queue, a_held, a_place, a_queue_row

pytestmark = [pytest.mark.servers, pytest.mark.django_db]


def again(error: MessageError) -> MessageError:
    return MessageError.objects.get(pk=error.pk)


def a_retry_marker(error: MessageError, state: str = "PENDING") -> OutboxRow:
    return OutboxRow.objects.create(
        provider=error.queue.provider,
        topic=error.queue.topic,
        kind="TICKET",
        error=error.pk,
        retry_no=error.retry_no,
        state=state,
        created_at=timezone.now(),
    )


@pytest.mark.parametrize("move", moves.CHANGES.values(), ids=lambda move: move.action)
def test_every_verb_is_a_permitted_move(move: moves.Move) -> None:
    assert all(may_move(state, move.target) for state in move.expected)


def test_a_release_is_due_at_once_with_a_fresh_budget() -> None:
    queue, _, error = a_blocked_queue()
    waiting, sent = a_retry_marker(error), a_retry_marker(error, "PUBLISHED")
    failures.release(error.pk, version=1, actor="otto", reason="asked the partner")
    now = again(error)
    assert (now.state, now.spent, now.carrier, now.version) == ("READY", 0, "row", 2)
    assert now.retry_no == 3, "retries count for life"
    assert abs(now.not_before - timezone.now()) < timedelta(seconds=30)
    assert OutboxRow.objects.get(pk=waiting.pk).state == "CANCELLED"
    assert OutboxRow.objects.get(pk=sent.pk).state == "PUBLISHED"
    change = ErrorChange.objects.get(error=error)
    assert (change.actor, change.action, change.from_state, change.to_state, change.reason) == (
        "otto",
        "release",
        "HOLD",
        "READY",
        "asked the partner",
    )
    queue.refresh_from_db()
    assert queue.start_requested_at is not None


def test_a_second_click_is_told_that_it_is_done() -> None:
    _, _, error = a_blocked_queue()
    failures.release(error.pk, version=1, actor="otto")
    with pytest.raises(StateMismatchError) as caught:
        failures.release(error.pk, version=1, actor="otto")
    assert caught.value.already_done
    assert ErrorChange.objects.filter(error=error).count() == 1


def test_the_loser_is_told_who_was_faster_and_what_it_is_now() -> None:
    _, _, error = a_blocked_queue()
    failures.delete(error.pk, version=1, actor="anna", reason="obsolete")
    with pytest.raises(StateMismatchError) as caught:
        failures.release(error.pk, version=1, actor="otto")
    assert "anna" in str(caught.value)
    assert caught.value.state is ErrorState.DELETED
    assert not caught.value.already_done
    assert again(error).state == "DELETED"


def test_a_change_of_the_engine_is_told_as_such() -> None:
    _, _, error = a_blocked_queue()
    MessageError.objects.filter(pk=error.pk).update(state="RESOLVED", version=2)
    with pytest.raises(StateMismatchError, match="the engine"):
        failures.delete(error.pk, version=1, actor="otto", reason="obsolete")


def test_a_failure_that_was_cleaned_up_is_told_as_such() -> None:
    with pytest.raises(StateMismatchError) as told:
        failures.release(uuid4(), version=1, actor="otto")
    assert told.value.code == "STATE_MISMATCH"


@pytest.mark.parametrize(
    ("state", "verb", "target"),
    [
        ("RETRY", "hold", "HOLD"),
        ("READY", "hold", "HOLD"),
        ("RETRY", "delete", "DELETED"),
        ("READY", "delete", "DELETED"),
        ("DELETED", "restore", "HOLD"),
    ],
)
def test_the_other_verbs(state: str, verb: str, target: str) -> None:
    queue = a_queue_row()
    due = timezone.now() + timedelta(minutes=5)
    error = a_held(queue, state=state, not_before=due)
    marker = a_retry_marker(error)
    getattr(failures, verb)(error.pk, version=1, actor="otto", reason="because")
    assert again(error).state == target
    assert OutboxRow.objects.get(pk=marker.pk).state == "CANCELLED"


@pytest.mark.parametrize(
    ("state", "verb"),
    [
        (state, verb)
        for verb, move in moves.CHANGES.items()
        for state in ErrorState
        if state not in move.expected
    ],
)
def test_nothing_moves_from_any_other_state(state: str, verb: str) -> None:
    error = a_held(a_queue_row(), state=state, not_before=timezone.now())
    with pytest.raises(StateMismatchError):
        getattr(failures, verb)(error.pk, version=1, actor="otto", reason="because")
    assert again(error).version == 1
    assert not ErrorChange.objects.exists()


def test_a_deletion_needs_a_reason_and_counts_from_its_closing() -> None:
    _, place, error = a_blocked_queue()
    with pytest.raises(ReasonMissingError):
        failures.delete(error.pk, version=1, actor="otto", reason="  ")
    failures.delete(error.pk, version=1, actor="otto", reason="obsolete")
    closed = again(error)
    assert closed.closed_at is not None
    assert closed.ended == "DELETED"
    place.refresh_from_db()
    assert (place.state, place.next_offset) == ("BLOCKED", 10), "the engine advances, not people"
    failures.restore(error.pk, version=2, actor="otto")
    restored = again(error)
    assert (restored.state, restored.closed_at, restored.ended) == ("HOLD", None, "")


class TestLate:
    def test_a_message_the_queue_has_passed_needs_a_confirmation(self) -> None:
        queue, place, error = a_blocked_queue()
        place.next_offset = 12
        place.save()
        with pytest.raises(LateReleaseError, match="12"):
            failures.release(error.pk, version=1, actor="otto")
        assert again(error).state == "HOLD"
        failures.release(error.pk, version=1, actor="otto", late=True)
        assert (again(error).state, again(error).late) == ("READY", True)
        assert queue.errors.get().apply_as_newest is False

    def test_an_expired_head_needs_a_confirmation(self) -> None:
        _, _, error = a_blocked_queue()
        MessageError.objects.filter(pk=error.pk).update(expired_at=timezone.now())
        with pytest.raises(LateReleaseError) as told:
            failures.release(error.pk, version=1, actor="otto")
        assert told.value.code == "LATE_RELEASE"

    def test_an_expired_head_that_the_queue_stays_at_is_not_late(self) -> None:
        _, _, error = a_blocked_queue(on_head_expired="stay_blocked")
        MessageError.objects.filter(pk=error.pk).update(expired_at=timezone.now())
        failures.release(error.pk, version=1, actor="otto")
        assert (again(error).state, again(error).late) == ("READY", False)

    def test_a_message_of_a_topic_that_was_recreated_needs_a_confirmation(self) -> None:
        _, place, error = a_blocked_queue()
        place.topic_uuid = "second-topic"
        place.save()
        with pytest.raises(LateReleaseError):
            failures.release(error.pk, version=1, actor="otto")

    def test_a_punctual_release_is_not_late_even_when_confirmed(self) -> None:
        _, _, error = a_blocked_queue()
        failures.release(error.pk, version=1, actor="otto", late=True)
        assert again(error).late is False

    def test_a_continuous_queue_has_no_order_to_keep(self) -> None:
        queue = a_queue_row("continuous")
        a_place(queue, next_offset=99)
        error = a_held(queue)
        failures.release(error.pk, version=1, actor="otto")
        assert again(error).state == "READY"

    def test_a_moved_failure_is_told_before_its_lateness(self) -> None:
        _, place, error = a_blocked_queue()
        place.next_offset = 12
        place.save()
        MessageError.objects.filter(pk=error.pk).update(state="RESOLVED", version=2)
        with pytest.raises(StateMismatchError):
            failures.release(error.pk, version=1, actor="otto")

    def test_applying_as_newest_needs_a_reason(self) -> None:
        _, _, error = a_blocked_queue()
        with pytest.raises(ReasonMissingError):
            failures.release(error.pk, version=1, actor="otto", apply_as_newest=True)
        failures.release(
            error.pk, version=1, actor="otto", apply_as_newest=True, reason="theirs is right"
        )
        assert again(error).apply_as_newest is True

    def test_another_release_draws_another_number_as_the_newest(self) -> None:
        _, _, error = a_blocked_queue()
        MessageError.objects.update(apply_as_newest=True, newest_batch=7, newest_index=0)
        failures.release(error.pk, version=1, actor="otto")
        assert (again(error).apply_as_newest, again(error).newest_batch) == (False, None)


class TestEdit:
    def test_the_original_is_kept_byte_for_byte(self) -> None:
        _, _, error = a_blocked_queue()
        original = bytes(error.payload)
        version = failures.edit(error.pk, version=1, actor="edda", payload=b'{"a": 1}')
        version = failures.edit(error.pk, version=version, actor="edda", payload=b'{"a": 2}')
        now = again(error)
        assert version == now.version == 3
        assert bytes(now.payload) == original
        assert now.current_payload == b'{"a": 2}'
        assert now.edited_by == "edda"
        befores = [bytes(change.payload_before) for change in now.changes.all()]
        assert befores == [original, b'{"a": 1}']

    def test_an_edit_without_a_difference_is_nothing(self) -> None:
        _, _, error = a_blocked_queue()
        same = bytes(error.payload)
        assert failures.edit(error.pk, version=1, actor="edda", payload=same) == 1
        assert again(error).edited_payload is None

    @pytest.mark.parametrize("state", [s for s in ErrorState if s is not ErrorState.HOLD])
    def test_only_what_is_on_hold_can_be_edited(self, state: str) -> None:
        error = a_held(a_queue_row(), state=state, not_before=timezone.now())
        with pytest.raises(StateMismatchError):
            failures.edit(error.pk, version=1, actor="edda", payload=b"{}")

    def test_the_slower_of_two_editors_is_told_the_name_of_the_faster(self) -> None:
        _, _, error = a_blocked_queue()
        failures.edit(error.pk, version=1, actor="edda", payload=b"{}")
        with pytest.raises(StateMismatchError, match="edda"):
            failures.edit(error.pk, version=1, actor="emil", payload=b"[]")
        assert again(error).current_payload == b"{}"

    def test_what_the_engine_would_not_read_is_refused(self) -> None:
        _, _, error = a_blocked_queue()
        with pytest.raises(PayloadTooLargeError):
            failures.edit(error.pk, version=1, actor="edda", payload=b" " * (DEFAULT.max_bytes + 1))


@pytest.mark.django_db(transaction=True)
def test_of_two_people_at_the_same_moment_one_wins() -> None:
    _, _, error = a_blocked_queue()
    together = threading.Barrier(2)
    told: list[str] = []

    def ask(verb: str) -> None:
        together.wait(10)
        try:
            getattr(failures, verb)(error.pk, version=1, actor=verb, reason="because")
            told.append("won")
        except StateMismatchError as problem:
            told.append(problem.mover)
        finally:
            connection.close()

    threads = [threading.Thread(target=ask, args=(verb,)) for verb in ("release", "delete")]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    change = ErrorChange.objects.get(error=error)
    assert sorted(told) == sorted(["won", change.actor])
    assert again(error).state == change.to_state


@pytest.mark.django_db(transaction=True)
def test_a_row_the_engine_works_on_is_not_waited_for(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("integration.actions.transaction.PATIENCE_MS", 100)
    _, _, error = a_blocked_queue()
    problems: list[Exception] = []

    def ask() -> None:
        try:
            failures.release(error.pk, version=1, actor="otto")
        except RowBusyError as problem:
            problems.append(problem)
        finally:
            connection.close()

    with transaction.atomic():
        MessageError.objects.select_for_update().get(pk=error.pk)
        thread = threading.Thread(target=ask)
        thread.start()
        thread.join(20)
    assert [type(problem) for problem in problems] == [RowBusyError]
    assert again(error).version == 1


@pytest.mark.django_db(transaction=True)
def test_a_deadlock_after_the_commit_does_not_pass_for_a_row_that_was_not_changed() -> None:
    """Such an answer says that nothing was changed."""
    _, _, error = a_blocked_queue()

    def meet_others() -> None:
        with connection.cursor() as cursor:
            cursor.execute("DO $$ BEGIN RAISE SQLSTATE '40P01'; END $$")

    def release() -> None:
        with short_transaction():
            transaction.on_commit(meet_others)
            failures.release(error.pk, version=1, actor="otto")

    with pytest.raises(OperationalError):
        release()
    assert again(error).version == 2
