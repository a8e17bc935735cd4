"""Topics that are not what they were: recreated, gone, or emptied from below."""

import os
import signal
import time

import pytest
from confluent_kafka import KafkaException
from confluent_kafka.admin import NewPartitions

from integration.actions.blocks import Place, acknowledge_gap, adopt
from integration.actions.failures import release
from integration.delivery.steps import Step
from integration.delivery.watch import SURE_SECONDS
from integration.kafka import admin
from integration.kafka.client import CONSUMER
from integration.models import Gap, MessageError, Queue
from tests.support import warm
from tests.support.builders import a_brief_queue as a_queue
from tests.support.builders import topic_uuid
from tests.support.flows import drain, effects, ended, standing
from tests.support.kafka_world import Kafka
from tests.support.warm import WarmChild
from tests.support.world.models import Effect

pytestmark = [pytest.mark.crash, pytest.mark.servers, pytest.mark.django_db(transaction=True)]

OLD, NEW = 40, 1_000
# What the messages of one queue count from, where several queues write to the same table.
APART = 100


@pytest.fixture
def broker(servers) -> Kafka:
    return Kafka(servers.kafka_bootstrap)


def recreate(broker: Kafka, queue: Queue, count: int) -> None:
    """Delete the topic, make another of its name, and put `count` new records into it."""
    before = topic_uuid(broker, queue.topic)
    broker.delete(queue.topic)
    wait_until(lambda: is_created(broker, queue.topic))
    wait_until(lambda: topic_uuid(broker, queue.topic) != before)
    broker.send(queue.topic, [{"n": NEW + n} for n in range(count)])


def is_created(broker: Kafka, topic: str) -> bool:
    try:
        broker.topic(name=topic)
    except KafkaException:
        return False  # the broker is still deleting the old one
    return True


def child(queue: Queue, environment: dict[str, str], step: str, nth: int) -> WarmChild:
    words = [str(queue.pk), step, str(nth), "STOP"]
    return warm.child(["-m", "tests.support.crash_child", *words], environment)


def wait_until(condition, seconds: float = 20) -> None:
    deadline = time.monotonic() + seconds
    while not condition():
        assert time.monotonic() < deadline, "it never came to that"
        time.sleep(0.02)


def new_effects() -> int:
    return Effect.objects.filter(n__gte=NEW).count()


def test_the_client_waits_long_enough_for_a_look_to_vouch_for_what_it_reads():
    assert int(CONSUMER["fetch.error.backoff.ms"]) >= SURE_SECONDS * 1_000


def test_a_consumer_stopped_in_a_batch_applies_nothing_of_a_topic_made_anew(
    broker, child_environment
):
    """Whatever it had fetched before is of the old topic; the next fetch would be of the new."""
    steps = [Step.FETCHED, Step.BEGUN, Step.SETTLED, Step.COMMITTED]
    queues = [a_queue(broker, name=step, batch_size=10, stay_seconds=20) for step in steps]
    put_apart(broker, queues)
    stopped = [
        child(queue, child_environment, step, 2) for queue, step in zip(queues, steps, strict=True)
    ]
    try:
        for one in stopped:
            one.wait_until_stopped()
        said = said_after_a_stall(broker, queues, stopped)
    finally:
        for one in stopped:
            one.kill()

    for place, queue in enumerate(queues):
        assert b"BLOCKED" in said[place], (queue.name, said[place])
        reached, state, code = standing(queue)
        assert (queue.name, state, code) == (queue.name, "BLOCKED", "TOPIC_RECREATED")
        assert (queue.name, effects_of(place)) == (queue.name, list(range(reached)))
        assert (queue.name, set(ended(queue))) == (queue.name, set(range(reached)))
    assert new_effects() == 0


def test_a_consumer_stopped_while_it_waits_applies_nothing_of_a_topic_made_anew(
    broker, child_environment
):
    kinds = ["sequential", "continuous"]
    queues = [a_queue(broker, kind, name=kind, stay_seconds=20) for kind in kinds]
    put_apart(broker, queues)
    waiting = [child(queue, child_environment, "none", 1) for queue in queues]
    try:
        wait_until(lambda: all(standing(queue)[0] == OLD for queue in queues))
        for one in waiting:
            os.kill(one.pid, signal.SIGSTOP)
        said = said_after_a_stall(broker, queues, waiting)
    finally:
        for one in waiting:
            one.kill()

    for place, queue in enumerate(queues):
        assert b"BLOCKED" in said[place], (queue.name, said[place])
        told = (queue.name, *standing(queue))
        assert told == (queue.name, OLD, "BLOCKED", "TOPIC_RECREATED")
        assert (queue.name, effects_of(place)) == (queue.name, list(range(OLD)))
    assert new_effects() == 0


def put_apart(broker: Kafka, queues: list[Queue]) -> None:
    """Into each queue the same messages, told apart by what they count from."""
    for place, queue in enumerate(queues):
        broker.send(queue.topic, [{"n": place * APART + n} for n in range(OLD)])


def effects_of(place: int) -> list[int]:
    first = place * APART
    return [n - first for n in effects() if first <= n < first + APART]


def said_after_a_stall(broker: Kafka, queues: list[Queue], stopped: list[WarmChild]) -> list[bytes]:
    """What the stopped processes say when they wake up and their topics were made anew."""
    for queue in queues:
        recreate(broker, queue, 200)
    time.sleep(1.2)  # a stall is what lasts longer than a second
    for one in stopped:
        os.kill(one.pid, signal.SIGCONT)
    return [one.communicate(timeout=60)[0] for one in stopped]


def test_a_topic_made_anew_under_a_waiting_consumer_blocks_it(broker, child_environment):
    """Not stopped at all: the client tells of it, or the look every five seconds does."""
    queue = a_queue(broker, stay_seconds=30)
    broker.send(queue.topic, [{"n": n} for n in range(OLD)])
    waiting = child(queue, child_environment, "none", 1)
    try:
        wait_until(lambda: standing(queue)[0] == OLD)
        recreate(broker, queue, 200)
        said, _ = waiting.communicate(timeout=30)
    finally:
        waiting.kill()
    assert b"BLOCKED" in said, said
    assert standing(queue)[0] == OLD
    assert standing(queue)[2] in {"TOPIC_RECREATED", "TOPIC_GONE", "TOPIC_TRUNCATED"}
    assert new_effects() == 0
    # It is told by its right name as soon as somebody looks again.
    assert drain(queue).ending == "BLOCKED"
    assert standing(queue) == (OLD, "BLOCKED", "TOPIC_RECREATED")


def test_between_two_runs_a_topic_made_anew_is_noticed_and_can_be_adopted(broker):
    queue = a_queue(broker, max_retries=0)
    broker.send(queue.topic, [{"n": 0}, {"n": 1, "do": "bug"}])
    drain(queue)
    recreate(broker, queue, 5)
    assert drain(queue).ending == "BLOCKED"
    assert standing(queue) == (2, "BLOCKED", "TOPIC_RECREATED")

    facts = admin.topic_facts(queue.provider, queue.topic)
    adopt(queue.pk, place=Place.START, facts=facts, actor="anna")
    drain(queue)

    assert effects() == [0, *range(NEW, NEW + 5)]
    assert standing(queue) == (5, "RUNNING", "")
    row = MessageError.objects.get()  # of the topic that is gone, and still releasable
    assert (row.state, row.offset) == ("HOLD", 1)


def test_a_queue_goes_on_with_a_topic_made_anew_with_fewer_partitions(broker):
    queue = a_queue(broker, partitions=2, max_retries=0)
    broker.send(queue.topic, [{"n": 0, "do": "bug"}], partition=1)
    drain(queue)
    recreate(broker, queue, 0)
    # A producer that still knows two partitions would drop what it has for the second one.
    broker.send(queue.topic, [{"n": NEW}, {"n": NEW + 1}], partition=0)
    assert drain(queue).ending == "BLOCKED"
    codes = queue.partitions.order_by("partition").values_list("state_code", flat=True)
    assert list(codes) == ["TOPIC_RECREATED", "TOPIC_GONE"]
    facts = admin.topic_facts(queue.provider, queue.topic)
    adopt(queue.pk, place=Place.START, facts=facts, actor="anna")
    assert drain(queue).ending == "DRAINED"
    assert (standing(queue), queue.partitions.count()) == ((2, "RUNNING", ""), 1)
    # What had failed in the other one is tried by whoever has the lowest.
    row = MessageError.objects.get()
    MessageError.objects.update(edited_payload=b'{"n": 100}')
    release(row.pk, version=row.version, actor="anna")
    drain(queue)
    assert effects() == [100, NEW, NEW + 1]
    assert MessageError.objects.get().state == "RESOLVED"
    # Partitions that it gets later are read again from their beginning.
    broker.admin.create_partitions([NewPartitions(queue.topic, 2)])[queue.topic].result(20)
    wait_until(lambda: len(admin.topic_facts(queue.provider, queue.topic).low) == 2)
    broker.send(queue.topic, [{"n": NEW + 2}], partition=1)
    wait_until(lambda: drain(queue).ending == "DRAINED" and NEW + 2 in effects())
    # And messages without an id of their own have other ones than those that stood there before.
    assert list(queue.partitions.values_list("generation", flat=True)) == [1, 1]


def test_a_topic_that_is_gone_blocks_and_the_same_topic_is_not_expected_back(broker):
    queue = a_queue(broker)
    broker.send(queue.topic, [{"n": 0}])
    drain(queue)
    broker.delete(queue.topic)
    wait_until(lambda: admin.topic_facts(queue.provider, queue.topic) is None)
    assert drain(queue).ending == "BLOCKED"
    assert standing(queue) == (1, "BLOCKED", "TOPIC_GONE")


@pytest.mark.parametrize("kind", ["sequential", "continuous"])
def test_expired_messages_block_until_a_person_takes_note(broker, kind):
    queue = a_queue(broker, kind)
    broker.send(queue.topic, [{"n": n} for n in range(3)])
    drain(queue)
    broker.send(queue.topic, [{"n": n} for n in range(3, 12)])
    broker.delete_records(queue.topic, 7)

    assert [drain(queue).ending for _ in range(2)] == ["BLOCKED", "BLOCKED"]

    assert standing(queue) == (3, "BLOCKED", "GAP")
    gap = Gap.objects.get()
    assert (gap.from_offset, gap.to_offset, gap.reason) == (3, 7, "EXPIRED")
    assert effects() == [0, 1, 2]
    acknowledge_gap(gap.pk, actor="anna")
    assert drain(queue).ending == "DRAINED"
    assert effects() == [0, 1, 2, *range(7, 12)]
    assert standing(queue) == (12, "RUNNING", "")
    assert Gap.objects.count() == 1


def test_a_gap_that_grows_after_the_acknowledgement_is_another_question(broker):
    queue = a_queue(broker)
    broker.send(queue.topic, [{"n": n} for n in range(12)])
    broker.delete_records(queue.topic, 4)
    drain(queue)
    acknowledge_gap(Gap.objects.get().pk, actor="anna")
    broker.delete_records(queue.topic, 8)

    assert drain(queue).ending == "BLOCKED"

    assert standing(queue) == (4, "BLOCKED", "GAP")
    assert list(Gap.objects.order_by("from_offset").values_list("from_offset", "to_offset")) == [
        (0, 4),
        (4, 8),
    ]
    acknowledge_gap(Gap.objects.get(from_offset=4).pk, actor="anna")
    drain(queue)
    assert effects() == [8, 9, 10, 11]


@pytest.mark.parametrize("kind", ["sequential", "continuous"])
def test_expired_messages_are_recorded_and_passed_where_that_is_chosen(broker, kind):
    queue = a_queue(broker, kind, on_gap="advance")
    broker.send(queue.topic, [{"n": n} for n in range(9)])
    broker.delete_records(queue.topic, 5)
    assert drain(queue).ending == "DRAINED"
    assert effects() == [5, 6, 7, 8]
    gap = Gap.objects.get()
    assert (gap.from_offset, gap.to_offset, gap.acknowledged_at) == (0, 5, None)
    assert standing(queue) == (9, "RUNNING", "")


def test_messages_that_expire_under_an_attached_consumer_are_noticed(broker, child_environment):
    """Stopped before its next fetch while the records it would read expire."""
    queue = a_queue(broker, batch_size=5, stay_seconds=20)
    broker.send(queue.topic, [{"n": n} for n in range(5)])
    waiting = child(queue, child_environment, "none", 1)
    try:
        wait_until(lambda: standing(queue)[0] == 5)
        os.kill(waiting.pid, signal.SIGSTOP)
        broker.send(queue.topic, [{"n": n} for n in range(5, 20)])
        broker.delete_records(queue.topic, 12)
        time.sleep(1.2)
        os.kill(waiting.pid, signal.SIGCONT)
        said, _ = waiting.communicate(timeout=30)
    finally:
        waiting.kill()
    assert b"BLOCKED" in said, said
    gap = Gap.objects.get()
    reached = standing(queue)[0]
    assert (gap.from_offset, gap.to_offset) == (reached, 12)
    assert standing(queue)[1:] == ("BLOCKED", "GAP")
    assert effects() == list(range(reached))


def test_an_expired_head_is_passed_and_can_still_be_released(broker):
    queue = a_queue(broker, "sequential", max_retries=0)
    broker.send(queue.topic, [{"n": 0, "do": "permanent"}, {"n": 1}, {"n": 2}])
    drain(queue)
    broker.delete_records(queue.topic, 1)

    assert drain(queue).ending == "DRAINED"

    assert effects() == [1, 2]
    assert standing(queue) == (3, "RUNNING", "")
    row = MessageError.objects.get()
    assert row.state == "HOLD"
    assert row.expired_at is not None
    assert not Gap.objects.exists()
    MessageError.objects.update(state="READY", edited_payload=b'{"n": 100}', late=True)
    drain(queue)
    assert effects() == [1, 2, 100]
    assert MessageError.objects.get().state == "RESOLVED"


def test_an_expired_head_keeps_the_queue_blocked_where_that_is_chosen(broker):
    queue = a_queue(broker, "sequential", max_retries=0, on_head_expired="stay_blocked")
    broker.send(queue.topic, [{"n": 0, "do": "permanent"}, {"n": 1}])
    drain(queue)
    broker.delete_records(queue.topic, 1)

    assert [drain(queue).ending for _ in range(2)] == ["BLOCKED", "BLOCKED"]

    assert standing(queue) == (0, "BLOCKED", "HEAD_HELD")
    assert effects() == []
    row = MessageError.objects.get()
    assert (row.state, row.expired_at is not None) == ("HOLD", True)
    MessageError.objects.update(state="READY", edited_payload=b'{"n": 100}')
    assert drain(queue).ending == "DRAINED"
    assert effects() == [1, 100]
    assert standing(queue) == (2, "RUNNING", "")


def test_an_expired_head_and_the_untried_messages_behind_it_are_two_questions(broker):
    """Only past the saved head: what nobody ever tried is a gap."""
    queue = a_queue(broker, "sequential", max_retries=0)
    broker.send(queue.topic, [{"n": 0}, {"n": 1, "do": "permanent"}, {"n": 2}, {"n": 3}, {"n": 4}])
    drain(queue)
    broker.delete_records(queue.topic, 4)

    assert drain(queue).ending == "BLOCKED"

    assert standing(queue) == (2, "BLOCKED", "GAP")
    gap = Gap.objects.get()
    assert (gap.from_offset, gap.to_offset) == (2, 4)
    assert MessageError.objects.get().expired_at is not None
    acknowledge_gap(gap.pk, actor="anna")
    drain(queue)
    assert effects() == [0, 4]
    assert standing(queue) == (5, "RUNNING", "")


def test_a_released_row_runs_while_a_gap_is_not_acknowledged(broker):
    queue = a_queue(broker, max_retries=0)
    broker.send(queue.topic, [{"n": 0, "do": "bug"}, {"n": 1}])
    drain(queue)
    broker.send(queue.topic, [{"n": n} for n in range(2, 6)])
    broker.delete_records(queue.topic, 4)
    drain(queue)
    MessageError.objects.update(state="READY", edited_payload=b'{"n": 100}')
    drain(queue)
    assert effects() == [1, 100]
    assert standing(queue) == (2, "BLOCKED", "GAP")


def test_a_sequential_topic_that_got_more_partitions_blocks(broker):
    queue = a_queue(broker, "sequential")
    broker.send(queue.topic, [{"n": 0}])
    drain(queue)
    broker.admin.create_partitions([NewPartitions(queue.topic, 2)])[queue.topic].result(10)
    wait_until(lambda: admin.describe(queue.provider, queue.topic).partitions == 2)
    broker.send(queue.topic, [{"n": 1}], partition=0)
    assert drain(queue).ending == "BLOCKED"
    assert standing(queue) == (1, "BLOCKED", "MORE_PARTITIONS")
    assert effects() == [0]
