"""Order within a key on real servers: one bad message stops its own key and no other."""

import json
from collections.abc import Callable

import pytest
from confluent_kafka import Producer
from confluent_kafka.admin import NewPartitions

from integration.actions import failures
from integration.actions.errors import LateReleaseError, NotHeadError
from integration.delivery.key_order import order_key
from integration.models import MessageError, MessageTrack, Queue, QueuePartition
from integration.runs.queues import run_queue
from integration.selectors.failures.failures import FailureFilter
from integration.store.sessions import execute, fetch_all
from tests.support import operations as bulk
from tests.support.added import producers_know
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
    version = failures.edit(row.pk, version=row.version, actor="anna", payload=payload)
    failures.release(row.pk, version=version, actor="anna")


def delete(queue: Queue, offset: int) -> None:
    row = MessageError.objects.get(queue=queue, offset=offset)
    failures.delete(row.pk, version=row.version, actor="anna", reason="not wanted")


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


def test_the_key_may_stand_in_the_document(broker):
    queue = a_brief_queue(broker, ordering="key", order_path="$.asset.num", max_retries=0)
    bodies = [("A", "permanent"), ("B", "ok"), ("A", "ok"), (None, "ok")]
    for n, (num, do) in enumerate(bodies):
        asset = {} if num is None else {"num": num}
        broker.send(queue.topic, [{"n": n, "do": do, "asset": asset}], key=f"other-{n}")
    run(queue)
    assert applied() == [1, 3]
    assert rows(queue) == {0: "HOLD", 2: "PARKED"}
    release(queue, 0)
    run(queue)
    assert applied() == [1, 3, 0, 2]


def test_a_key_in_the_document_needs_a_topic_with_one_partition(broker):
    queue = a_brief_queue(broker, ordering="key", order_path="$.asset.num", max_retries=0)
    broker.admin.create_partitions([NewPartitions(queue.topic, 2)])[queue.topic].result(20)
    run(queue)
    where = QueuePartition.objects.get(queue=queue)
    assert (where.state, where.state_code) == ("BLOCKED", "MORE_PARTITIONS")
    Queue.objects.filter(pk=queue.pk).update(ordering="none", order_path="")
    run(queue)
    run(queue)
    assert QueuePartition.objects.filter(queue=queue, state="RUNNING").count() == 2


def test_more_parked_behind_one_failure_than_wanted_stop_the_queue(queue, send):
    Queue.objects.filter(pk=queue.pk).update(max_parked=2, batch_size=4)
    send("a:permanent", "a", "b", "a", "a", "a", "b")
    run(queue)
    where = QueuePartition.objects.get(queue=queue)
    assert (where.state, where.state_code) == ("BRAKED", "TOO_MANY_PARKED")
    assert MessageError.objects.filter(queue=queue, state="PARKED").count() >= 3


def test_a_partition_that_is_added_waits_for_what_the_others_hold(broker, queue, send):
    send("a", "a")
    broker.admin.create_partitions([NewPartitions(queue.topic, 2)])[queue.topic].result(20)
    run(queue)
    places = QueuePartition.objects.filter(queue=queue).order_by("partition")
    assert [place.begins_after for place in places] == [None, {"0": 2}]
    run(queue)
    assert [place.begins_after for place in places.all()] == [None, {"0": 2}]
    producers_know(queue)
    run(queue)
    assert [place.begins_after for place in places.all()] == [None, None]
    assert applied() == [0, 1]


def test_a_number_of_partitions_that_is_not_multiplied_blocks_until_no_key_has_an_order(broker):
    """From three to four half of the keys go to another old partition, which may be far behind."""
    queue = a_brief_queue(broker, partitions=3, ordering="key")
    broker.send(queue.topic, [{"n": 0}], key="a")
    run(queue)
    broker.admin.create_partitions([NewPartitions(queue.topic, 4)])[queue.topic].result(20)
    broker.send(queue.topic, [{"n": 1}], key="a")
    run(queue)
    places = QueuePartition.objects.filter(queue=queue)
    assert {(place.state, place.state_code) for place in places} == {("BLOCKED", "KEYS_REMAPPED")}
    assert (applied(), places.count()) == ([0], 3)
    Queue.objects.filter(pk=queue.pk).update(ordering="none")
    run(queue)
    run(queue)
    assert (applied(), places.filter(state="RUNNING").count()) == ([0, 1], 4)


@pytest.mark.parametrize(
    "key", [b"", b"\xff\x00\xfe", b"k" * 2**20], ids=["empty", "bytes", "1 MiB"]
)
def test_a_key_of_any_bytes_keeps_its_order_and_a_message_without_one_has_none(broker, key):
    topic = broker.topic(**{"max.message.bytes": str(2**22)})
    queue = a_brief_queue(broker, topic=topic, ordering="key", max_retries=0)
    large = Producer({"bootstrap.servers": broker.bootstrap, "message.max.bytes": 2**22})
    for n, (of, do) in enumerate(
        [(key, "permanent"), (None, "permanent"), (key, "ok"), (None, "ok"), (b"other", "ok")]
    ):
        large.produce(topic, json.dumps({"n": n, "do": do}), of)
    assert large.flush(20) == 0
    run(queue)
    assert applied() == [3, 4]
    assert rows(queue) == {0: "HOLD", 1: "HOLD", 2: "PARKED"}
    release(queue, 0)
    run(queue)
    assert applied() == [3, 4, 0, 2]


MANY, ROWS = 500, 12_000
# Of an earlier topic of that name, which no position of this one lies before; and most are closed.
ADD_MANY = """
INSERT INTO integration_messageerror (id, queue_id, topic_uuid, partition, "offset", message_id,
  interface, sender, key, order_key, headers, payload, edited_by, state, failure_class, code, text,
  detail, fingerprint, attempts, retry_no, spent, crashes, carrier, arrival_batch, arrival_index,
  late, apply_as_newest, version, parked_at, first_failed_at, last_failed_at, ended)
SELECT gen_random_uuid(), %s, 'earlier', 0, n, 'many-' || n, 'OBEY', '',
  'a', %s, '[]', convert_to('{"n": ' || n || '}', 'UTF8'), '',
  CASE WHEN n <= %s THEN 'PARKED' ELSE 'RESOLVED' END, 'dependency', 'PARKED', '', '', '',
  0, 0, 0, 0, 'row', nextval('integration_arrival'), n, false, false, 1,
  clock_timestamp(), clock_timestamp(), clock_timestamp(), ''
FROM generate_series(1, %s) n"""
SCANS = "SELECT seq_scan FROM pg_stat_user_tables WHERE relname = 'integration_messageerror'"


def scans() -> int:
    """How often somebody has read through all failures."""
    fetch_all("SELECT pg_stat_force_next_flush()")
    return int(fetch_all(SCANS)[0][0])


def test_however_many_wait_behind_one_failure_nobody_reads_through_them(queue, send):
    """One more is parked and the limit noticed; then the first goes, and all others follow."""
    send("a:permanent")
    run(queue)
    execute(ADD_MANY, [queue.pk, order_key(b"a"), MANY, ROWS])
    execute("VACUUM ANALYZE integration_messageerror")
    Queue.objects.filter(pk=queue.pk).update(max_parked=MANY)
    head = MessageError.objects.get(queue=queue, state="HOLD")
    before = scans()

    send("a")
    run(queue)
    where = QueuePartition.objects.get(queue=queue)
    assert (where.state, where.state_code) == ("BRAKED", "TOO_MANY_PARKED")
    failures.delete(head.pk, version=head.version, actor="anna", reason="not wanted")
    assert scans() == before

    for _ in range(MANY // queue.batch_size + 1):
        run(queue)
    assert applied() == [*range(1, MANY + 1), 1]


@pytest.fixture
def sequential(broker) -> Queue:
    return a_brief_queue(broker, "sequential", max_retries=0)


def park(queue: Queue, offset: int) -> None:
    row = MessageError.objects.get(queue=queue, offset=offset)
    failures.park(row.pk, version=row.version, actor="anna", reason="the others may go on")


def send_to(broker: Kafka, queue: Queue, *messages: str, begin: int = 0) -> None:
    for n, message in enumerate(messages, begin):
        key, _, do = message.partition(":")
        broker.send(queue.topic, [{"n": n, "do": do or "ok"}], key=key or None)


def test_the_head_of_a_sequential_queue_may_be_parked_and_its_key_follows_it(broker, sequential):
    send_to(broker, sequential, "a:permanent", "b", "a", "")
    run(sequential)
    assert applied() == []
    park(sequential, 0)
    run(sequential)
    assert applied() == [1, 3]
    assert rows(sequential) == {0: "HOLD", 2: "PARKED"}
    send_to(broker, sequential, "a", "b", begin=4)
    run(sequential)
    assert rows(sequential) == {0: "HOLD", 2: "PARKED", 4: "PARKED"}
    release(sequential, 0)
    run(sequential)
    assert applied() == [1, 3, 5, 0, 2, 4]


def test_all_that_is_deleted_at_once_is_deleted_and_none_of_it_tried(queue, send):
    """The last of a key goes first: the first one's end would let the others be tried."""
    send("a:permanent", *["a"] * 6, "b")
    run(queue)
    planned = bulk.started(bulk.plan("delete"), reason="not wanted")
    errors_of_key = list(planned.items.order_by("place").values_list("error__offset", flat=True))
    assert errors_of_key == [6, 5, 4, 3, 2, 1, 0]
    bulk.run(planned)
    run(queue)
    assert applied() == [7]
    assert set(rows(queue).values()) == {"DELETED"}


def test_a_queue_that_keeps_no_order_any_more_tries_what_was_parked(queue, send):
    send("a:permanent", "a", "a")
    run(queue)
    Queue.objects.filter(pk=queue.pk).update(ordering="none")
    send("a")
    run(queue)
    run(queue)
    assert sorted(applied()) == [1, 2, 3]
    assert rows(queue)[0] == "HOLD"


def test_a_restored_message_is_late_although_it_was_parked(broker, sequential):
    send_to(broker, sequential, "a:permanent", "a", "a")
    run(sequential)
    park(sequential, 0)
    run(sequential)
    delete(sequential, 1)
    row = MessageError.objects.get(queue=sequential, offset=1)
    failures.restore(row.pk, version=row.version, actor="anna")
    row.refresh_from_db()
    assert row.parked_at is None
    with pytest.raises(LateReleaseError):
        failures.release(row.pk, version=row.version, actor="anna")


def test_only_what_a_sequential_queue_stops_at_is_parked_by_a_person(
    broker, sequential, queue, send
):
    send("a:permanent")
    run(queue)
    with pytest.raises(NotHeadError):
        park(queue, 0)
    send_to(broker, sequential, ":permanent", "a")
    run(sequential)
    park(sequential, 0)
    run(sequential)
    assert applied() == [1]
    with pytest.raises(NotHeadError):
        park(sequential, 0)
