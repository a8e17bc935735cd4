"""Who starts an operation: the dispatcher, once, and again when its runner is gone."""

from datetime import timedelta

import pytest
from django.utils import timezone

from crontasks.running import operating, turns
from integration.actions import operations
from integration.models import Operation
from integration.store import operations as store
from integration.store.sessions import django_connection
from tests.support.operations import plan, some_held, started

pytestmark = [pytest.mark.servers, pytest.mark.django_db, pytest.mark.usefixtures("valkey")]


def asked() -> list[object]:
    with django_connection().cursor() as cursor:
        return list(operating.ask(cursor))


def later(seconds: float) -> None:
    """Let time pass for every operation."""
    for one in Operation.objects.all():
        for name in ("asked_at", "lease_until"):
            at = getattr(one, name)
            if at is not None:
                values = {name: at - timedelta(seconds=seconds)}
                Operation.objects.filter(pk=one.pk).update(**values)


def test_a_running_operation_is_asked_for_once_until_ten_seconds_have_passed():
    some_held(1)
    planned = plan()
    assert asked() == []
    operation = started(planned)
    assert asked() == [operation.pk]
    assert asked() == []
    later(11)
    assert asked() == [operation.pk]


def test_nobody_is_asked_while_a_runner_lives_and_the_next_when_it_died():
    some_held(1)
    operation = started(plan())
    assert store.take(operation.pk, "one") is not None
    assert asked() == []
    later(6)
    assert asked() == [operation.pk]


def test_a_paused_one_is_asked_for_when_it_is_resumed_and_at_once():
    some_held(1)
    operation = started(plan())
    assert asked() == [operation.pk]
    operations.pause(operation.pk, actor="otto")
    later(11)
    assert asked() == []
    operation.refresh_from_db()
    operations.resume(operation.pk, version=operation.version, actor="otto")
    assert asked() == [operation.pk]


def test_a_start_is_good_for_its_own_request_only():
    some_held(1)
    operation = started(plan())
    asked()
    operation.refresh_from_db()
    operating.serve_operation(operation.pk, timezone.now())
    operation.refresh_from_db()
    assert operation.handled == 0, "that request was never made"
    operating.serve_operation(operation.pk, operation.asked_at)
    operation.refresh_from_db()
    assert (operation.state, operation.owner, operation.lease_until) == ("DONE", "", None)


def test_a_turn_that_is_over_asks_for_the_next_one():
    some_held(2)
    operation = started(plan(), rate=1)
    assert operating.run_operation(operation.pk, stop=lambda: "another waits") == "RUNNING"
    operation.refresh_from_db()
    assert (operation.handled, operation.owner) == (1, "")
    assert asked() == [operation.pk]


def test_attached_runs_give_way_to_an_operation_that_waits():
    some_held(1)
    operation = started(plan())
    asked()
    with django_connection().cursor() as cursor:
        assert not turns.another_queue_waits(cursor, 0)
        later(2)
        assert turns.another_queue_waits(cursor, 0)
        operations.pause(operation.pk, actor="otto")
        assert not turns.another_queue_waits(cursor, 0)
