"""Dead letters of other applications: taken over, told of, found again, and sent back once."""

import struct

import pytest
from django.test import Client
from django.urls import reverse

from integration.actions import dead_letters, failures
from integration.actions.errors import ReturnRefusedError, StateMismatchError
from integration.codec import decode_headers
from integration.models import ErrorAttempt, MessageError, MessageTrack, OutboxRow, Queue
from integration.runs.queues import run_queue
from tests.support.builders import a_brief_queue as a_queue
from tests.support.kafka_world import Kafka
from tests.support.set_up import limited_to, logged_in
from tests.support.world.models import Effect

pytestmark = [pytest.mark.servers, pytest.mark.django_db(transaction=True)]

SPRING = [
    ("tenant", b"north"),
    ("kafka_dlt-original-topic", b"orders"),
    ("kafka_dlt-original-partition", struct.pack(">i", 1)),
    ("kafka_dlt-original-offset", struct.pack(">q", 42)),
    ("kafka_dlt-exception-fqcn", b"java.lang.IllegalStateException"),
    ("kafka_dlt-exception-message", b"no stock"),
]


@pytest.fixture
def broker(servers) -> Kafka:
    return Kafka(servers.kafka_bootstrap)


@pytest.fixture
def letters(broker) -> Queue:
    """An error queue on a topic of two partitions, as the topic of Spring's listener has them."""
    return a_queue(broker, "sequential", partitions=2, is_error_queue=True)


def test_its_cause_and_origin_are_kept_and_it_can_be_applied_here(broker, letters):
    broker.send(letters.topic, [{"n": 1}], headers=SPRING, partition=0)
    broker.send(letters.topic, [{"n": 2}], partition=1)
    run_queue(letters.pk)
    letter = MessageError.objects.get(queue=letters, partition=0)
    assert (letter.code, letter.state) == ("DEAD_LETTER", "HOLD")
    assert letter.cause_class == "java.lang.IllegalStateException"
    assert (letter.origin_topic, letter.origin_partition, letter.origin_offset) == ("orders", 1, 42)
    assert "no stock" in ErrorAttempt.objects.get(error=letter).detail
    other = MessageError.objects.get(queue=letters, partition=1)
    assert (other.code, other.origin_topic, other.origin_offset) == ("FOREIGN_FAILURE", "", None)

    failures.release(letter.pk, version=letter.version, actor="ann")
    run_queue(letters.pk)
    letter.refresh_from_db()
    assert (letter.state, list(Effect.objects.values_list("n", flat=True))) == ("RESOLVED", [1])


def test_a_partition_that_no_column_holds_keeps_no_letter_from_being_stored(broker, letters):
    strange = [*SPRING, ("kafka_dlt-original-partition", b"3000000000")]
    broker.send(letters.topic, [{"n": 1}], headers=strange, partition=0)
    run_queue(letters.pk)
    letter = MessageError.objects.get(queue=letters)
    assert (letter.code, letter.state) == ("DEAD_LETTER", "HOLD")
    assert (letter.origin_topic, letter.origin_partition, letter.origin_offset) == (
        "orders",
        None,
        42,
    )


def a_letter(broker: Kafka, queue: Queue, origin: bytes = b"orders") -> MessageError:
    headers = [*SPRING, ("kafka_dlt-original-topic", origin)]
    broker.send(queue.topic, [{"n": 1}], headers=headers, partition=0)
    run_queue(queue.pk)
    return MessageError.objects.get(queue=queue)


def test_a_dead_letter_is_sent_back_to_where_it_came_from(broker, letters):
    letter = a_letter(broker, letters)
    failures.edit(letter.pk, version=letter.version, actor="ann", payload=b'{"n": 7}')
    dead_letters.send_back(letter.pk, version=letter.version + 1, actor="ann")
    with pytest.raises(StateMismatchError):
        dead_letters.send_back(letter.pk, version=letter.version + 1, actor="bob")
    sent = OutboxRow.objects.get()
    assert (sent.topic, sent.provider_id, sent.partition) == ("orders", letters.provider_id, None)
    assert bytes(sent.value or b"") == b'{"n": 7}'
    assert dict(decode_headers(sent.headers))["tenant"] == b"north"
    assert not [name for name, _ in decode_headers(sent.headers) if name.startswith("kafka_dlt")]
    letter.refresh_from_db()
    assert (letter.state, letter.ended, letter.closed_at is None) == ("RESOLVED", "RETURNED", False)
    assert letter.changes.get(to_state="RESOLVED").actor == "ann"
    assert "RETURNED" in MessageTrack.objects.values_list("ended", flat=True)
    run_queue(letters.pk)
    assert not Effect.objects.exists()


@pytest.mark.parametrize("wraps", [True, False])
def test_each_resend_is_counted_in_the_header_and_where_there_is_one_in_the_wrapper(
    broker, letters, wraps
):
    Queue.objects.filter(pk=letters.pk).update(retry_wrapper=wraps)
    headers = [*SPRING, ("retryCount", b"4")]
    broker.send(letters.topic, [{"n": 1}], headers=headers, partition=0)
    run_queue(letters.pk)
    letter = MessageError.objects.get(queue=letters)
    dead_letters.send_back(letter.pk, version=letter.version, actor="ann")
    sent = OutboxRow.objects.get()
    assert dict(decode_headers(sent.headers))["retryCount"] == b"5"
    assert bytes(sent.value or b"") == (
        b'{"retryCount":5,"message":{"n": 1}}' if wraps else b'{"n": 1}'
    )


@pytest.mark.parametrize("origin", [b"__consumer_offsets", b"sluice-relay", None])
def test_what_names_no_topic_of_messages_is_not_sent(broker, letters, origin):
    letter = a_letter(broker, letters, origin or letters.topic.encode())
    with pytest.raises(ReturnRefusedError):
        dead_letters.send_back(letter.pk, version=letter.version, actor="ann")
    letter.refresh_from_db()
    assert (letter.state, OutboxRow.objects.count()) == ("HOLD", 0)


def test_the_page_tells_and_sends_back_and_the_list_finds_it(broker, letters):
    letter, client = a_letter(broker, letters), logged_in(name="ann")
    page = client.get(reverse("failure", args=[letter.pk])).text
    for told in ("Spring Kafka", "java.lang.IllegalStateException", "orders</a>", "offset 42"):
        assert told in page
    for narrow, found in (("orders", True), ("elsewhere", False)):
        assert (str(letter.pk) in listed(client, origin_topic=narrow)) is found
    assert str(letter.pk) in listed(client, cause_class="java.lang.IllegalStateException")
    limited = limited_to(letters.system)
    address, version = reverse("send-back", args=[letter.pk]), {"version": letter.version}
    assert limited.post(address, version).status_code == 409
    assert not OutboxRow.objects.exists()
    assert client.post(address, version).status_code == 303
    assert OutboxRow.objects.count() == 1
    assert (
        "Sent back to the topic it came from"
        in client.get(reverse("failure", args=[letter.pk])).text
    )


def listed(client: Client, **filters: str) -> str:
    return str(client.get(reverse("failure-list"), filters).text)
