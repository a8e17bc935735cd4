"""How many messages wait at a JMS broker: counted by the lag monitor, and shown."""

from datetime import timedelta

import pytest
from django.db.models import F
from django.urls import reverse
from django.utils import timezone

from crontasks.builtin.lag_monitor import LagMonitor, LagParameters
from crontasks.health import flow_work
from crontasks.health.flow import check_flow
from crontasks.models import Notice
from crontasks.outcome import Context, Outcome, RunState
from devstack.artemis import STRANGER
from integration.models import Provider, Queue, QueuePartition
from integration.runs.queues import run_queue
from integration.selectors.queues import queues, waiting
from integration.selectors.queues.rows import QueueRow
from integration.selectors.queues.status import Situation
from integration.store import samples
from integration.store.sessions import django_connection
from tests.support.amqp import Broker
from tests.support.jms import a_jms_provider, a_jms_queue, left, put
from tests.support.rows import a_jms_queue_row, some_live_processes
from tests.support.set_up import logged_in

pytestmark = [pytest.mark.servers, pytest.mark.django_db(transaction=True)]


@pytest.fixture(autouse=True)
def patient(monkeypatch: pytest.MonkeyPatch) -> None:
    """A broker that has no processor to itself may take longer than people wait for."""
    monkeypatch.setattr(waiting, "COUNTED", waiting.COUNTED._replace(seconds=60.0))


def look(*, after: timedelta = timedelta(minutes=2)) -> Outcome:
    """Run the lag monitor, so long after what was seen last."""
    QueuePartition.objects.update(seen_at=F("seen_at") - after)
    context = Context(instance_id=1, scheduled_at=timezone.now())
    return LagMonitor().run(LagParameters(), context)


def row_of(queue: Queue) -> QueueRow:
    detail = queues.detail(queue.name)
    assert detail is not None
    return detail.row


def test_what_waits_is_counted_and_shown(servers, amqp_broker: Broker):
    queue = a_jms_queue(amqp_broker, "continuous", selector="JMSPriority > 3")
    sent = timezone.now() - timedelta(hours=2)
    put(
        amqp_broker, queue, [{"n": n, "do": "ok"} for n in range(5)], creation_time=sent.timestamp()
    )
    put(amqp_broker, queue, [{"n": 9}], priority=1)
    assert row_of(queue).lag is None
    assert look().state is RunState.DONE
    row = row_of(queue)
    assert (row.lag, row.is_least, row.expires_at) == (5, False, None)
    assert row.oldest_waiting_at is not None
    assert abs(row.oldest_waiting_at - sent) < timedelta(seconds=1)
    assert row.situation.why == "5 messages wait for their turn."
    page = " ".join(logged_in().get(reverse("queue", args=[queue.name])).text.split())
    assert "5 at the broker, counted" in page
    assert "</time>, the first for" in page
    assert len(left(amqp_broker, queue)) == 6
    # A run moves the position towards that end, as in a topic.
    run_queue(queue.pk)
    assert row_of(queue).lag == 0
    put(amqp_broker, queue, [{"n": 6}])
    look()
    assert row_of(queue).lag == 1
    with django_connection().cursor() as cursor:
        assert samples.write(cursor) == 1


def test_more_than_a_thousand_are_so_many_at_least(servers, amqp_broker: Broker):
    queue = a_jms_queue(amqp_broker)
    put(amqp_broker, queue, [{"n": n, "do": "ok"} for n in range(1_003)])
    look()
    row = row_of(queue)
    assert (row.lag, row.is_least) == (1_000, True)
    assert row.situation.why == "At least 1,000 messages wait for their turn."
    some_live_processes()
    client = logged_in()
    for address in (reverse("queue", args=[queue.name]), reverse("queues"), reverse("overview")):
        assert "1,000+" in client.get(address).text, address
    run_queue(queue.pk)
    # All that was counted is through; nobody knows of the rest before the next look.
    assert row_of(queue).lag is None
    with django_connection().cursor() as cursor:
        assert samples.write(cursor) == 0
    look()
    assert (row_of(queue).lag, row_of(queue).is_least) == (0, False)
    assert row_of(queue).situation.why == "Nothing waits at the broker."


def test_large_messages_are_counted_no_further_than_so_many_bytes(servers, amqp_broker: Broker):
    queue = a_jms_queue(amqp_broker)
    put(amqp_broker, queue, ["x" * 1_500_000] * 5)
    look()
    row = row_of(queue)
    assert (row.lag, row.is_least) == (3, True)


def test_each_queue_is_looked_at_once_a_minute(servers, amqp_broker: Broker):
    queue = a_jms_queue(amqp_broker)
    put(amqp_broker, queue, [{"n": 0}])
    look()
    put(amqp_broker, queue, [{"n": 1}], first=1)
    look(after=timedelta(seconds=40))
    assert row_of(queue).lag == 1
    look(after=timedelta(seconds=30))
    assert row_of(queue).lag == 2


def test_a_broker_that_does_not_let_us_look_is_no_outage(servers, amqp_broker: Broker):
    queue, other = a_jms_queue(amqp_broker), a_jms_queue(amqp_broker)
    put(amqp_broker, other, [{"n": 0}])
    look()
    assert [row_of(one).lag for one in (queue, other)] == [0, 1]
    Queue.objects.filter(pk=queue.pk).update(selector="= =")
    assert look().state is RunState.DONE
    assert [row_of(one).lag for one in (queue, other)] == [None, 1]
    a_jms_provider(amqp_broker, username=STRANGER)
    assert look().state is RunState.DONE
    assert row_of(other).lag is None
    assert "does not let us look" in logged_in().get(reverse("queue", args=[queue.name])).text
    assert not Notice.objects.exists()


def test_a_broker_that_is_away_is_told_and_what_was_seen_stays(servers, amqp_broker: Broker):
    queue = a_jms_queue(amqp_broker)
    put(amqp_broker, queue, [{"n": 0}])
    look()
    Provider.objects.update(bootstrap_servers="127.0.0.1:1")
    outcome = look()
    assert (outcome.state, outcome.counts) == (RunState.FAILED, {"unreachable": 1})
    assert look(after=timedelta()).state is RunState.FAILED
    assert row_of(queue).lag == 1
    a_jms_provider(amqp_broker)
    assert look().state is RunState.DONE


def test_the_flow_check_counts_what_waits(servers, amqp_broker: Broker):
    queue = a_jms_queue(amqp_broker)

    def address():
        found = Queue.objects.select_related("provider").get(pk=queue.pk)
        return next(link for link in check_flow(found) if link.name == "address")

    assert address().why == f"Nothing waits at {queue.topic}."
    put(amqp_broker, queue, [{"n": 0}, {"n": 1}])
    assert (address().ok, address().why) == (True, f"2 messages wait at {queue.topic}.")
    Queue.objects.filter(pk=queue.pk).update(selector="= =")
    assert not address().ok
    assert address().why.startswith("JMS_SELECTOR")
    Queue.objects.filter(pk=queue.pk).update(selector="")
    a_jms_provider(amqp_broker, username=STRANGER)
    # It may be read all the same.
    assert address().ok
    assert "JMS_BROWSE_REFUSED" in address().why


def test_a_subscription_counts_once_it_has_begun(servers, amqp_broker: Broker):
    queue = a_jms_queue(amqp_broker, subscription="sluice")
    look()
    assert row_of(queue).lag is None
    run_queue(queue.pk)
    put(amqp_broker, queue, [{"n": 0}, {"n": 1}], to_topic=True)
    look()
    assert row_of(queue).lag == 2


def test_what_waits_at_a_jms_broker_expires_by_no_retention():
    queue = a_jms_queue_row(retention_seconds=60)
    long_ago = timezone.now() - timedelta(days=2)
    queue.partitions.update(high_watermark=15, oldest_waiting_at=long_ago)
    row = row_of(queue)
    assert (row.lag, row.expires_at) == (5, None)
    assert "leaves Kafka" not in logged_in().get(reverse("queue", args=[queue.name])).text


def test_the_flow_check_says_since_when_a_queue_without_partitions_stands_still():
    queue = a_jms_queue_row()
    since = timezone.now() - timedelta(minutes=4, seconds=9)
    queue.partitions.update(state="OUTAGE", state_code="JMS_REFUSED", state_since=since)
    found = flow_work.position(queue)
    assert isinstance(found, Situation)
    assert found.why.startswith("It has stood still for 4 min (JMS_REFUSED). The JMS broker")
