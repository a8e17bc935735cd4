"""Order within a key on real servers: one bad message stops its own key and no other."""

from collections.abc import Callable

import pytest

from integration.actions import errors
from integration.models import MessageError, MessageTrack, Queue, QueuePartition
from integration.runs.queues import run_queue
from integration.selectors.failures.failures import FailureFilter
from tests.support import operations as bulk
from tests.support.builders import a_brief_queue
from tests.support.kafka_world import Kafka
from tests.support.world.models import Effect

pytestmark = [pytest.mark.servers, pytest.mark.django_db(transaction=True)]

Send = Callable[..., None]


@pytest.fixture
def broker(servers) -> Kafka:
    return Kafka(servers.kafka_bootstrap)


@pytest.fixture
def queue(broker) -> Queue:
    return a_brief_queue(broker, ordering="key", max_retries=0)


@pytest.fixture
def send(broker, queue) -> Send:
    """Send messages "a:ok", each a key and what becomes of it, numbered through."""
    numbers = iter(range(10_000))

    def send(*messages: str, interface: str = "") -> None:
        for message in messages:
            key, _, do = message.partition(":")
            headers = [("sluice-interface", interface.encode())] if interface else []
            body = {"n": next(numbers), "do": do or "ok"}
            broker.send(queue.topic, [body], key=key or None, headers=headers)

    return send


def run(queue: Queue) -> None:
    run_queue(queue.pk)


def applied() -> list[int]:
    return list(Effect.objects.order_by("pk").values_list("n", flat=True))


def rows(queue: Queue) -> dict[int, str]:
    found = MessageError.objects.filter(queue=queue).order_by("offset")
    return dict(found.values_list("offset", "state"))


def release(queue: Queue, offset: int) -> None:
    row = MessageError.objects.get(queue=queue, offset=offset)
    payload = row.current_payload.replace(b"permanent", b"ok")
    version = errors.edit(row.pk, version=row.version, actor="anna", payload=payload)
    errors.release(row.pk, version=version, actor="anna")


def delete(queue: Queue, offset: int) -> None:
    row = MessageError.objects.get(queue=queue, offset=offset)
    errors.delete(row.pk, version=row.version, actor="anna", reason="not wanted")


def test_later_messages_of_a_failed_key_are_parked_and_all_others_applied(queue, send):
    send("a:permanent", "b", "a", ":ok", "a", "b")
    run(queue)
    assert applied() == [1, 3, 5]
    assert rows(queue) == {0: "HOLD", 2: "PARKED", 4: "PARKED"}
    assert QueuePartition.objects.get(queue=queue).next_offset == 6
    tracked = MessageTrack.objects.filter(queue=queue, ended="PARKED")
    assert sorted(tracked.values_list("offset", flat=True)) == [2, 4]


def test_they_follow_in_order_once_the_first_one_is_released(queue, send):
    send("a:permanent", "a", "b")
    run(queue)
    send("a", "c", "a")
    run(queue)
    assert applied() == [2, 4]
    release(queue, 0)
    run(queue)
    assert applied() == [2, 4, 0, 1, 3, 5]
    assert set(rows(queue).values()) == {"RESOLVED"}


def test_they_follow_once_it_is_deleted_and_stop_at_the_next_that_fails(queue, send):
    send("a:permanent", "a", "a:permanent", "a")
    run(queue)
    delete(queue, 0)
    assert rows(queue) == {0: "DELETED", 1: "RETRY", 2: "PARKED", 3: "PARKED"}
    run(queue)
    assert applied() == [1]
    assert rows(queue) == {0: "DELETED", 1: "RESOLVED", 2: "HOLD", 3: "PARKED"}


def test_many_deleted_at_once_let_their_keys_go_on(queue, send):
    send("a:permanent", "a", "b:permanent", "b")
    run(queue)
    bulk.run(bulk.started(bulk.plan("delete", FailureFilter(state="HOLD")), reason="not wanted"))
    assert rows(queue) == {0: "DELETED", 1: "RETRY", 2: "DELETED", 3: "RETRY"}
    run(queue)
    assert applied() == [1, 3]


@pytest.mark.parametrize("interface", ["", "OBEY.BATCH", "OBEY.MUTE", "OBEY.ALONE"])
def test_whoever_takes_them_a_failed_one_is_passed_by_none_of_its_key(queue, send, interface):
    send("a", "b", "a:permanent", "b", "a", "b:permanent", "a", "b", interface=interface)
    run(queue)
    assert applied() == [0, 1, 3]
    assert rows(queue) == {2: "HOLD", 4: "PARKED", 5: "HOLD", 6: "PARKED", 7: "PARKED"}


def test_a_message_that_is_retried_keeps_its_key_waiting(queue, send):
    Queue.objects.filter(pk=queue.pk).update(max_retries=3, retry_delay_seconds=60)
    send("a:transient", "a", "b")
    run(queue)
    assert applied() == [2]
    assert rows(queue) == {0: "RETRY", 1: "PARKED"}


def test_what_cannot_be_read_keeps_its_key_waiting(broker, queue, send):
    broker.send(queue.topic, [b"{"], key="a")
    send("a", "b")
    run(queue)
    assert applied() == [1]
    assert rows(queue) == {0: "HOLD", 1: "PARKED"}
