"""A queue that a person stops at an offset, on real servers, and positions that they move."""

import threading
import time
from datetime import datetime, timedelta

import pytest
from django.db import connections
from django.test import Client
from django.urls import reverse
from django.utils import timezone

from integration.actions import failures, queue_stops, queues
from integration.actions.errors import StopPassedError
from integration.delivery.steps import Step
from integration.models import Delivery, Gap, MessageError, Queue, QueueChange, QueuePartition
from integration.runs.queues import run_queue
from integration.selectors.setup.queues import topic_facts_now
from integration.values import TopicFacts
from tests.crash.test_engine_crash import child
from tests.support import partners
from tests.support.at_step import AtStep
from tests.support.builders import a_brief_queue as a_queue
from tests.support.flows import drain, effects, standing
from tests.support.kafka_world import Kafka
from tests.support.killed import await_kill
from tests.support.memory.endpoint import MemoryDeliverer
from tests.support.rows import a_person

pytestmark = [pytest.mark.servers, pytest.mark.django_db(transaction=True)]


@pytest.fixture
def broker(servers) -> Kafka:
    return Kafka(servers.kafka_bootstrap)


def in_another_session(act) -> None:
    """As a person does it while the run is in the middle of something."""

    def acts() -> None:
        try:
            act()
        finally:
            connections.close_all()

    thread = threading.Thread(target=acts)
    thread.start()
    thread.join()


def facts_up_to(queue: Queue, end: int) -> TopicFacts:
    """What the broker says once its stable end is there: a commit's marker is written later."""
    deadline = time.monotonic() + 30
    while (facts := topic_facts_now(queue.pk)) is None or facts.high[0] < end:
        assert time.monotonic() < deadline, facts
        time.sleep(0.05)
    return facts


@pytest.mark.parametrize("kind", ["sequential", "continuous"])
def test_a_queue_is_drained_and_paused_in_the_name_of_who_asked(broker, kind):
    queue = a_queue(broker, kind, batch_size=10)
    broker.send_in_transaction(queue.topic, [{"n": n} for n in range(25)])
    facts = facts_up_to(queue, 26)
    queue_stops.drain(queue.pk, facts=facts, actor="otto", reason="before the upgrade")
    broker.send(queue.topic, [{"n": n} for n in range(25, 40)])

    assert drain(queue).ending == "STOPPED"

    assert effects() == list(range(25))
    # The transaction's marker has an offset as well.
    assert standing(queue)[0] == 26
    queue.refresh_from_db()
    assert (queue.paused, queue.paused_until) == (True, None)
    assert queue.pause_reason == "drained, as otto asked: before the upgrade"
    change = QueueChange.objects.filter(queue=queue).first()
    assert (change.action, change.actor, change.reason) == ("pause", "otto", "before the upgrade")
    assert "partition 0 at 26" in change.effect
    queues.resume(queue.pk, actor="anna")
    drain(queue)
    assert effects() == list(range(40))


@pytest.mark.parametrize("step", [Step.BEGUN, Step.HANDLED, Step.COMMITTED])
def test_a_batch_that_straddles_a_stop_set_meanwhile_is_cut(broker, step):
    queue = a_queue(broker, batch_size=10)
    broker.send(queue.topic, [{"n": n} for n in range(30)])

    def asks() -> None:
        in_another_session(lambda: queue_stops.stop_at(queue.pk, 13, actor="otto"))

    # In the second batch, or between the first and the second one.
    nth = 1 if step is Step.COMMITTED else 2
    run_queue(queue.pk, observer=AtStep(step, nth, asks))

    assert (effects(), standing(queue)[0]) == (list(range(13)), 13)
    queue.refresh_from_db()
    assert queue.paused


def test_all_partitions_come_to_their_stops(broker):
    queue = a_queue(broker, partitions=3, batch_size=4)
    for n in range(30):
        broker.send(queue.topic, [{"n": n}], partition=n % 3)
    queue_stops.stop_at(queue.pk, 5, actor="otto")
    assert drain(queue).ending == "STOPPED"
    ends = QueuePartition.objects.filter(queue=queue).values_list("next_offset", flat=True)
    assert (set(ends), len(effects())) == ({5}, 15)


@pytest.mark.crash
@pytest.mark.parametrize("nth", [2, 3])
def test_a_killed_worker_leaves_the_stop_to_the_next_one(broker, child_environment, nth):
    """Killed on the way there, and after the last commit, before the queue was paused."""
    queue = a_queue(broker, batch_size=10)
    broker.send(queue.topic, [{"n": n} for n in range(40)])
    queue_stops.stop_at(queue.pk, 25, actor="otto")
    killed = child(queue, child_environment, Step.COMMITTED, nth, "KILL")
    await_kill(killed, Step.COMMITTED)
    queue.refresh_from_db()
    assert not queue.paused

    assert drain(queue).ending == "STOPPED"

    assert (effects(), standing(queue)[0]) == (list(range(25)), 25)
    queue.refresh_from_db()
    assert queue.paused


@pytest.mark.parametrize("fields", [{"kind": "sequential"}, {"kind": "continuous"}])
def test_a_queue_that_sends_makes_no_call_beyond_its_stop(broker, fields):
    """A stop that is set while calls are under way is kept for all that is not called yet."""
    kind = fields["kind"]
    concurrency = 1 if kind == "sequential" else 4
    queue = partners.an_outbound_queue(broker, kind, concurrency=concurrency, stay_seconds=0.0)
    partners.post(broker, queue, 30)
    refused, told = [], []

    def asks() -> None:
        # Too late for what is on its way; then as soon as it can be.
        earliest = 1 + max(Delivery.objects.filter(queue=queue).values_list("offset", flat=True))
        try:
            queue_stops.stop_at(queue.pk, earliest - 1, actor="otto")
        except StopPassedError as problem:
            refused.append(problem.code)
        queue_stops.stop_at(queue.pk, earliest, actor="otto")
        told.append(earliest)

    partner = MemoryDeliverer()
    observer = AtStep(Step.SENT, 6, lambda: in_another_session(asks))
    partners.send(queue, partner, observer=observer)
    [stop] = told
    assert refused == ["STOP_PASSED"]
    assert sorted(partners.numbers(partner.shelf.ids)) == list(range(stop))
    assert standing(queue)[0] == stop
    queue.refresh_from_db()
    assert queue.paused
    queues.resume(queue.pk, actor="otto")
    partners.send(queue, partner)
    assert sorted(partners.numbers(partner.shelf.ids)) == list(range(30))


# over HTTP


@pytest.fixture
def client() -> Client:
    client = Client()
    client.force_login(a_person("Operators", "otto"))
    return client


def moved(client: Client, queue: Queue, query: str, **said):
    """Look at the table, and confirm what it shows."""
    address = f"{reverse('position', args=[queue.name])}?{query}"
    plan = client.get(address).context["plan"]
    moves = [line.move for line in plan.moving]
    return plan, client.post(address, {"move": moves, "reason": "because", **said})


def test_positions_go_back_and_forward_as_the_table_says(broker, client):
    queue = a_queue(broker, partitions=2)
    for n in range(20):
        broker.send(queue.topic, [{"n": n}], partition=n % 2)
    drain(queue)
    queues.pause(queue.pk, actor="otto")

    plan, answer = moved(client, queue, "to=offset&offset=4&partition=1")
    [line] = plan.lines
    assert (line.partition, line.before, line.after, line.again, line.skipped) == (1, 10, 4, 6, 0)
    assert answer.status_code == 303
    places = QueuePartition.objects.filter(queue=queue).order_by("partition")
    assert list(places.values_list("next_offset", flat=True)) == [10, 4]

    plan, _ = moved(client, queue, "to=skip&count=2&partition=1")
    assert (plan.skipped, plan.again) == (2, 0)
    assert list(Gap.objects.values_list("from_offset", "to_offset")) == [(4, 6)]
    plan, _ = moved(client, queue, "to=beginning")
    assert [line.after for line in plan.lines] == [0, 0]
    assert plan.again == 16
    moved(client, queue, "to=end")
    plan, _ = moved(client, queue, f"to=time&at={yesterday():%Y-%m-%dT%H:%M}")
    assert [line.after for line in plan.lines] == [0, 0]
    queues.resume(queue.pk, actor="otto")
    drain(queue)
    # What was applied is applied again.
    assert effects() == sorted([*range(20), *range(20)])


def yesterday() -> datetime:
    return timezone.now() - timedelta(days=1)


def test_a_sequential_queue_goes_back_to_the_very_message_that_had_failed(broker, client):
    queue = a_queue(broker, "sequential", max_retries=0)
    broker.send(queue.topic, [{"n": 0}, {"n": 1, "do": "permanent"}, {"n": 2}])
    drain(queue)
    failure = MessageError.objects.get()
    failures.delete(failure.pk, version=failure.version, actor="otto", reason="because")
    drain(queue)
    assert (effects(), standing(queue)[0]) == ([0, 2], 3)
    queues.pause(queue.pk, actor="otto")
    moved(client, queue, "to=offset&offset=1")
    queues.resume(queue.pk, actor="otto")
    assert drain(queue).ending == "BLOCKED"
    again = MessageError.objects.get()
    assert (again.pk, again.state, again.attempts) == (failure.pk, "HOLD", 2)
    assert standing(queue) == (1, "BLOCKED", "HEAD_HELD")


def test_a_position_that_moved_since_the_table_was_shown_is_not_moved(broker, client):
    queue = a_queue(broker)
    broker.send(queue.topic, [{"n": n} for n in range(6)])
    drain(queue)
    address = f"{reverse('position', args=[queue.name])}?to=beginning"
    shown = client.get(address)
    assert not shown.context["stands"]
    line = shown.context["plan"].moving[0].move
    refused = client.post(address, {"move": [line], "reason": "because"})
    assert (refused.status_code, standing(queue)[0]) == (409, 6)
    # The button there pauses it, and leads back to the table.
    paused = client.post(reverse("pause", args=[queue.name]), {"next": address, "reason": "move"})
    assert paused["Location"] == address
    QueuePartition.objects.filter(queue=queue).update(next_offset=5)
    refused = client.post(address, {"move": [line], "reason": "because"})
    assert (refused.status_code, standing(queue)[0]) == (409, 5)
    for said in ({"move": [line]}, {"reason": "x"}, {"move": ["1:2"], "reason": "x"}):
        assert client.post(address, said).status_code == 422
    assert standing(queue)[0] == 5
