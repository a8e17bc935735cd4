"""An operation that releases pauses by itself when too many failed again, and tells so."""

from datetime import timedelta
from typing import Any

import pytest
from django.test import Client
from django.urls import reverse

from crontasks.running.operating import run_operation
from integration.actions import operations
from integration.actions.operations import Options
from integration.models import ConfigurationChange, MessageError, Operation, OperationItem, Queue
from integration.policy.operations import StopRule
from integration.policy.states import OperationState
from integration.selectors.operations import operations as found
from integration.store import operations as store
from integration.store.operation_stops import stop_if_failing
from integration.store.sessions import database_now
from tests.support.operations import plan, run, started
from tests.support.rows import a_person, a_place, a_queue_row, in_arrival_order, several_held

pytestmark = [pytest.mark.servers, pytest.mark.django_db, pytest.mark.usefixtures("valkey")]
LATER = "2999-01-01T00:00Z"


@pytest.fixture
def queue() -> Queue:
    queue = a_queue_row("continuous")
    a_place(queue)
    several_held(queue, range(120), in_arrival_order)
    return queue


def turn(operation: Operation) -> OperationState | None:
    """One chunk: fifty messages at first."""
    state = run_operation(operation.pk, stop=lambda: "next", turn_seconds=0)
    operation.refresh_from_db()
    return state


def fail_again(count: int, state: str = "HOLD", **fields: Any) -> None:
    """As the engine would have it, for the first of those that were released."""
    ids = MessageError.objects.filter(state="READY").order_by("offset").values_list("pk", flat=True)
    MessageError.objects.filter(pk__in=list(ids[:count])).update(
        state=state, last_failed_at=LATER, not_before=LATER, **fields
    )


@pytest.mark.parametrize("state", ["HOLD", "RETRY"])
def test_it_pauses_when_so_many_failed_again_and_not_before(queue: Queue, state: str) -> None:
    operation = started(plan(), stop=StopRule(after=30))
    assert turn(operation) is OperationState.RUNNING
    assert operation.done == 50
    fail_again(29, state)
    assert turn(operation) is OperationState.RUNNING
    assert operation.done == 100
    fail_again(1, state)
    assert turn(operation) is OperationState.PAUSED
    assert (operation.done, operation.stopped_itself) == (100, True)
    assert MessageError.objects.filter(state="HOLD", version=1).count() == 20


def test_what_failed_before_its_turn_or_without_it_does_not_count(queue: Queue) -> None:
    operation = started(plan(), stop=StopRule(after=10))
    turn(operation)
    foreign = a_queue_row("continuous")
    several_held(foreign, range(10), last_failed_at=LATER)
    several_held(queue, range(200, 210), last_failed_at=LATER)
    waiting = OperationItem.objects.filter(outcome="").values_list("error", flat=True)
    MessageError.objects.filter(pk__in=list(waiting)).update(last_failed_at=LATER)
    assert run(operation) is OperationState.DONE


def test_what_a_person_held_again_has_not_failed_again(queue: Queue) -> None:
    operation = started(plan(), stop=StopRule(after=10))
    MessageError.objects.update(last_failed_at=database_now())
    turn(operation)
    MessageError.objects.filter(state="READY").update(state="HOLD")
    assert run(operation) is OperationState.DONE


def test_a_share_is_of_what_was_released(queue: Queue) -> None:
    operation = started(plan(), stop=StopRule(share=50))
    turn(operation)
    fail_again(24)
    assert turn(operation) is OperationState.RUNNING
    fail_again(26)
    assert turn(operation) is OperationState.PAUSED


def test_resumed_it_counts_anew(queue: Queue) -> None:
    operation = started(plan(), stop=StopRule(after=10))
    turn(operation)
    MessageError.objects.filter(state="READY").update(state="RETRY", not_before=LATER)
    tried = MessageError.objects.filter(state="RETRY")
    tried.update(last_failed_at=database_now())
    assert turn(operation) is OperationState.PAUSED
    operations.resume(operation.pk, version=operation.version, actor="otto")
    operation.refresh_from_db()
    assert (operation.stop_base, operation.why_paused) == (50, "")
    assert turn(operation) is OperationState.RUNNING
    assert operation.done == 100
    tried.update(last_failed_at=database_now())
    assert turn(operation) is OperationState.PAUSED


def test_it_is_looked_at_while_a_turn_lasts(queue: Queue) -> None:
    """All fail as soon as they are released: the turn would go on to the end otherwise."""
    operation = started(plan(), rate=50, stop=StopRule(after=50))

    def stop() -> None:
        fail_again(200)

    assert run_operation(operation.pk, stop=stop, turn_seconds=600) is OperationState.PAUSED
    operation.refresh_from_db()
    assert 50 <= operation.done < 120


def test_without_a_rule_nothing_stops_it(queue: Queue) -> None:
    operation = started(plan())
    turn(operation)
    fail_again(50)
    assert run(operation) is OperationState.DONE


def test_its_page_has_a_field_for_it_and_tells_why_it_paused(queue: Queue) -> None:
    client = Client()
    client.force_login(a_person("Editors"))
    operation = plan()
    page, begin = (reverse(name, args=[operation.pk]) for name in ("operation", "operation-start"))
    assert 'name="stop"' in client.get(page).text
    answer = client.post(begin, {"version": 1, "stop": "many"})
    assert answer.status_code == 422
    assert list(answer.context["start_form"].errors) == ["stop"]
    assert client.post(begin, {"version": 1, "stop": "20 %"}).status_code == 303
    operation.refresh_from_db()
    assert operation.stop_rule == StopRule(share=20)
    assert "until 20 % failed again" in client.get(page).text
    turn(operation)
    fail_again(30)
    assert turn(operation) is OperationState.PAUSED
    shown = " ".join(client.get(page).text.split())
    assert "It paused automatically:" in shown
    assert "30 of the 50 that were released have failed again by now; the limit was 20 %" in shown
    assert "The worker could not continue" not in shown
    assert "automatically: too many failed again" in client.get(reverse("operations")).text
    told = client.get(reverse("changes")).text
    assert "Pauses when so many percent failed again:" in told
    assert ConfigurationChange.objects.filter(kind="operation").count() == 1


def test_what_releases_nothing_has_no_such_field(queue: Queue) -> None:
    client = Client()
    client.force_login(a_person("Editors"))
    deletion = plan("delete")
    page = client.get(reverse("operation", args=[deletion.pk])).text
    assert 'name="stop"' not in page
    form = {"version": 1, "stop": "1", "reason": "obsolete"}
    assert client.post(reverse("operation-start", args=[deletion.pk]), form).status_code == 303
    deletion.refresh_from_db()
    assert deletion.stop_rule == StopRule()


def test_a_rule_that_is_met_pauses_for_its_owner_alone(queue: Queue) -> None:
    operation = started(plan(), stop=StopRule(after=1))
    turn(operation)
    fail_again(1)
    first = store.take(operation.pk, "one")
    assert first is not None
    Operation.objects.update(lease_until="2000-01-01T00:00Z")
    second = store.take(operation.pk, "two")
    assert second is not None
    stop_if_failing(first)
    operation.refresh_from_db()
    assert operation.state == "RUNNING"
    assert stop_if_failing(second)
    operation.refresh_from_db()
    assert operation.state == "PAUSED"
    assert found.progress(operation).failed == 1
    with pytest.raises(operations.OperationMovedError):
        operations.start(operation.pk, Options(), version=operation.version, actor="otto")


def test_a_large_operation_counts_what_is_open_and_takes_the_rest_for_resolved(
    queue: Queue, monkeypatch: pytest.MonkeyPatch
) -> None:
    operation = started(plan())
    turn(operation)
    fail_again(3)
    done = MessageError.objects.filter(state="READY").values_list("pk", flat=True)
    MessageError.objects.filter(pk__in=list(done[:40])).update(state="RESOLVED", closed_at=LATER)
    exact = found.progress(operation)
    causes = found.failed_causes(operation)

    monkeypatch.setattr(found, "MOST_COUNTED", 100)

    rough = found.progress(operation)
    assert (exact.is_rough, rough.is_rough) == (False, True)
    for name in ("total", "left", "done", "skipped", "resolved", "failed", "waiting"):
        assert getattr(rough, name) == getattr(exact, name), name
    assert (rough.resolved, rough.failed, rough.waiting) == (40, 3, 7)
    assert found.failed_causes(operation) == causes
    client = Client()
    client.force_login(a_person("Viewers"))
    page = " ".join(client.get(reverse("operation", args=[operation.pk])).text.split())
    assert "about <a href" in page
    assert "The report lists each of them." in page


def test_no_time_to_go_is_told_before_there_is_a_pace_to_tell_it_by(
    queue: Queue, monkeypatch: pytest.MonkeyPatch
) -> None:
    operation = started(plan())
    turn(operation)
    for most in (found.MOST_COUNTED, 1):
        monkeypatch.setattr(found, "MOST_COUNTED", most)
        Operation.objects.update(started_at=database_now(), stop_from=database_now())
        operation.refresh_from_db()
        young = found.progress(operation)
        assert (young.rate, young.seconds_left(None), young.left > 0) == (None, None, True)
        assert young.seconds_left(10) == young.left / 10
        ago = database_now() - timedelta(seconds=6)
        Operation.objects.update(started_at=ago, stop_from=ago)
        operation.refresh_from_db()
        assert found.progress(operation).seconds_left(None)
