"""Events for other systems: noted with what happened, published by a channel, about no contents."""

import json
import logging
import re
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest
from billiard.exceptions import SoftTimeLimitExceeded
from django.conf import settings
from django.contrib.auth.models import User
from django.db import connection, transaction
from django.test import Client
from django.urls import reverse
from django.utils import timezone

from crontasks.builtin import events
from crontasks.builtin.events import Events
from crontasks.configfile import applying, facts
from crontasks.definitions import NoParameters
from crontasks.outcome import Context, RunState
from integration.actions import configuration, failures, queues
from integration.actions.configuration import Author
from integration.endpoint_types.http.signing import signed
from integration.models import (
    BulkRun,
    ConfigurationChange,
    EventKind,
    EventSubscription,
    ExternalSystem,
    MessageError,
    Operation,
    OutboxRow,
    PendingEvent,
    Queue,
)
from tests.support.channels import a_channel
from tests.support.rows import a_held, a_place, a_queue_row

pytestmark = [pytest.mark.servers, pytest.mark.django_db]
SECRET = "4000123412341234"
GUIDE = Path(settings.BASE_DIR) / "docs/webhooks.md"


def subscribed(*kinds: EventKind, **fields: Any) -> EventSubscription:
    """A subscription to these kinds, or to every kind, by a channel of its own."""
    name = fields.pop("name", "all")
    values = {"kinds": [kind.value for kind in kinds or EventKind], "name": name, **fields}
    channel = values.pop("channel", None) or a_channel(f"EVENTS-{name}", name, envelope=False)
    return EventSubscription.objects.create(channel=channel, **values)


def noted() -> list[str]:
    return list(PendingEvent.objects.order_by("id").values_list("kind", flat=True))


def told() -> list[dict[str, Any]]:
    """Run the cron task once; what stands in the outbox, oldest first."""
    context = Context(instance_id=1, scheduled_at=timezone.now())
    assert Events().run(NoParameters(), context).state is RunState.DONE
    rows = OutboxRow.objects.order_by("id")
    return [json.loads(bytes(row.value or b"")) for row in rows]


def released(error: MessageError) -> None:
    failures.release(error.pk, version=error.version, actor="olga", reason=SECRET, late=True)


class UndoneError(Exception):
    """Ends a transaction that is to be rolled back."""


def released_and_undone(error: MessageError) -> None:
    with transaction.atomic():
        released(error)
        assert noted() == ["failure.released"]
        raise UndoneError


def subjects_in_the_guide() -> dict[str, set[str]]:
    """The names in the subject of each kind of event, as its table in the guide has them."""
    rows = re.findall(r"^\| (`[a-z_]+\..*?) \| (`.*?) \|$", GUIDE.read_text(), re.MULTILINE)
    names = [(re.findall("`(.*?)`", kinds), re.findall("`(.*?)`", told)) for kinds, told in rows]
    return {kind: set(told) for kinds, told in names for kind in kinds}


def test_each_kind_of_event_is_noted_with_what_happened_as_the_guide_says():
    subscribed()
    queue = a_queue_row()
    place = a_place(queue)
    first, second = a_held(queue, 10), a_held(queue, 11)
    released(first)
    MessageError.objects.filter(pk=first.pk).update(state="RESOLVED")
    failures.delete(second.pk, version=second.version, actor="olga", reason="no")
    second.refresh_from_db()
    failures.restore(second.pk, version=second.version, actor="olga", reason="")
    type(place).objects.filter(pk=place.pk).update(state="BLOCKED", state_code="HEAD_HELD")
    queues.pause(queue.pk, actor="olga", reason="")
    queues.resume(queue.pk, actor="olga")
    now = timezone.now()
    operation = Operation.objects.create(
        verb="release", title=SECRET, actor="olga", state="DONE", created_at=now
    )
    Operation.objects.filter(pk=operation.pk).update(ended_at=now)
    run = BulkRun.objects.create(job="export", state="DONE", actor="olga", asked_at=now)
    BulkRun.objects.filter(pk=run.pk).update(ended_at=now)
    configuration.save(ExternalSystem(name="later"), Author("olga", SECRET))
    second.changes.create(at=now, actor="olga", action="edit", from_state="HOLD", to_state="HOLD")
    assert set(noted()) == set(EventKind.values)
    told_of = {(row.kind, frozenset(row.subject)) for row in PendingEvent.objects.all()}
    in_guide = subjects_in_the_guide().items()
    assert told_of == {(kind, frozenset(names)) for kind, names in in_guide}
    assert noted().count("failure.held") == 2, "a restored failure is restored, not held"


def test_an_event_tells_what_it_is_about_and_who_did_it_and_nothing_of_contents():
    subscribed()
    queue = a_queue_row(system=ExternalSystem.objects.create(name="erp"))
    content = {"payload": SECRET.encode(), "key": SECRET.encode(), "text": SECRET}
    error = a_held(queue, detail=SECRET, message_id=SECRET, **content)
    released(error)
    held, event = told()
    assert (held["kind"], held["actor"], held["version"]) == ("failure.held", None, 1)
    assert (event["kind"], event["actor"]) == ("failure.released", "olga")
    page = reverse("failure", args=[error.pk])
    expected = {"failure": str(error.pk), "queue": queue.name, "system": "erp", "code": error.code}
    assert {**event["subject"], "page": ""} == {**expected, "page": ""}
    assert page.endswith(event["subject"]["page"])
    row_texts = [bytes(row.value or b"") + bytes(row.key or b"") for row in OutboxRow.objects.all()]
    assert SECRET.encode() not in b"".join(row_texts)
    assert not PendingEvent.objects.exists(), "each is published once"
    assert len(told()) == 2


def test_what_is_rolled_back_is_no_event():
    subscribed()
    error = a_held(a_queue_row())
    PendingEvent.objects.all().delete()
    with pytest.raises(UndoneError):
        released_and_undone(error)
    assert noted() == []


def test_a_subscription_gets_its_kinds_of_its_system_alone():
    erp = ExternalSystem.objects.create(name="erp")
    subscribed(EventKind.RELEASED, system=erp)
    subscribed(EventKind.RELEASED, name="off", enabled=False)
    for queue in (a_queue_row(name="theirs", system=erp), a_queue_row(name="others")):
        released(a_held(queue))
    assert [event["subject"]["queue"] for event in told()] == ["theirs"]


def test_failures_on_the_way_of_events_are_no_events():
    subscription = subscribed()
    own = subscription.channel.targets.get().queue
    reader = a_queue_row(name="reader", provider=own.provider, topic=own.topic)
    mirror = a_queue_row(name="mirror", is_error_queue=True)
    Queue.objects.filter(pk=own.pk).update(error_queue=mirror)
    for queue in (own, reader, mirror):
        a_held(queue)
    assert noted() == []
    a_held(a_queue_row(name="another"))
    assert noted() == ["failure.held"]


def test_a_storm_is_told_as_a_number(monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setattr(events, "SINGLY", 3)
    subscribed()
    loud, quiet = a_queue_row(name="loud"), a_queue_row(name="quiet")
    for offset in range(4):
        a_held(loud, offset)
    for offset in range(3):
        a_held(quiet, offset)
    got = told()
    assert [(e["subject"]["queue"], e["count"]) for e in got] == [("quiet", 1)] * 3 + [("loud", 4)]
    assert "failure" not in got[-1]["subject"], "a number of them names none"


def test_a_channel_that_cannot_publish_keeps_its_events_and_delays_no_other():
    first, second = subscribed(name="bad"), subscribed(name="good")
    type(first.channel).objects.filter(pk=first.channel_id).update(format="xml")
    a_held(a_queue_row())
    context = Context(instance_id=1, scheduled_at=timezone.now())
    outcome = Events().run(NoParameters(), context)
    assert (outcome.state, outcome.counts) == (RunState.FAILED, {"published": 1, "failed": 1})
    assert [event.subscription for event in PendingEvent.objects.all()] == [first]
    assert [row.topic for row in OutboxRow.objects.all()] == ["good-out"]
    assert second.events.count() == 0


@contextmanager
def broken(error: Exception) -> Iterator[None]:
    """Let the first statement that reads events fail with an error."""
    left = [error]

    def carry(execute: Callable[..., Any], sql: str, *more: Any) -> Any:
        if left and f'FROM "{PendingEvent._meta.db_table}"' in sql:
            raise left.pop()
        return execute(sql, *more)

    with connection.execute_wrapper(carry):
        yield


def test_a_bug_that_one_subscription_meets_keeps_no_events_of_others_back(
    caplog: pytest.LogCaptureFixture,
):
    first, second = subscribed(name="bad"), subscribed(name="good")
    a_held(a_queue_row())
    context = Context(instance_id=1, scheduled_at=timezone.now())
    with broken(ZeroDivisionError("a bug")), caplog.at_level(logging.ERROR):
        outcome = Events().run(NoParameters(), context)
    assert (outcome.state, outcome.counts) == (RunState.FAILED, {"published": 1, "failed": 1})
    assert (first.events.count(), second.events.count()) == (1, 0)
    assert "ZeroDivisionError" in context.excerpt
    (record,) = [one for one in caplog.records if one.name == events.__name__]
    assert record.exc_info is not None


def test_the_time_limit_ends_the_run_itself():
    subscribed()
    a_held(a_queue_row())
    context = Context(instance_id=1, scheduled_at=timezone.now())
    with broken(SoftTimeLimitExceeded()), pytest.raises(SoftTimeLimitExceeded):
        Events().run(NoParameters(), context)
    assert noted() == ["failure.held"]


def test_the_receiver_in_the_guide_knows_our_signature_and_no_other():
    guide = GUIDE.read_text()
    example: dict[str, Any] = {}
    exec(guide.partition("```python\n")[2].partition("```")[0], example)  # noqa: S102 - our own
    now = int(time.time())
    headers = dict(signed(["new", "old"], "m1", now, b"{}"))
    is_ours = example["is_ours"]
    assert is_ours("old", headers, b"{}")
    assert is_ours("new", headers, b"{}")
    assert not is_ours("other", headers, b"{}")
    assert not is_ours("new", headers, b"[]")
    assert not is_ours("new", dict(signed(["new"], "m1", now - 600, b"{}")), b"{}")


def test_a_subscription_is_part_of_the_configuration_file():
    row = subscribed(EventKind.HELD, system=ExternalSystem.objects.create(name="erp"))
    file = facts.export().encode()
    EventSubscription.objects.all().delete()
    steps = applying.apply(file, lookup=lambda _: "", author=Author("otto"))
    assert [(step.action, step.name) for step in steps] == [("create", "all")]
    again = EventSubscription.objects.get()
    assert (again.kinds, again.channel, again.system) == (["failure.held"], row.channel, row.system)


def test_a_subscription_is_set_up_with_its_audit():
    client = Client()
    client.force_login(User.objects.create_superuser("root"))
    channel = a_channel("EVENTS", "watcher")
    form = {"name": "watch", "enabled": "on", "kinds": ["failure.held"], "channel": channel.pk}
    refused = client.post(reverse("event-subscription-new"), {**form, "kinds": ["nothing"]})
    assert refused.status_code == 422
    client.post(reverse("event-subscription-new"), form)
    row = EventSubscription.objects.get()
    assert (row.kinds, row.system) == (["failure.held"], None)
    change = ConfigurationChange.objects.get(kind="eventsubscription", subject=str(row.pk))
    assert (change.actor, change.after["kinds"]) == ("root", ["failure.held"])
    assert "failure.held" in client.get(reverse("event-subscription", args=[row.pk])).text
    assert client.get(reverse("event-subscriptions")).status_code == 200
    type(channel).objects.filter(pk=channel.pk).update(format="xml")
    again = client.post(reverse("event-subscription-new"), {**form, "name": "other"})
    assert list(again.context["form"].errors) == ["channel"]
