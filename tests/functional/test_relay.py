"""The relay on a real database, with the publisher in memory."""

import os
import threading
import time
import uuid

import pytest
from django.db import connection, transaction
from django.utils import timezone

from integration.actions import outbox as decisions
from integration.delivery.relay import policy
from integration.delivery.relay.run import RelayEnd
from integration.delivery.relay.steps import RelayStep
from integration.models import MessageError, OutboxRow, Provider, Queue, RelayLease
from integration.runs.relay import run_relay
from integration.store import relay_rows
from tests.functional.relay_world import (
    a_provider,
    batch_of,
    nothing_left,
    put,
    relay,
    sent,
    states,
)
from tests.support.memory.relay import MemoryBroker, MemoryPublisher

pytestmark = [pytest.mark.servers, pytest.mark.django_db(transaction=True)]


@pytest.fixture
def provider() -> Provider:
    return a_provider()


@pytest.fixture
def broker() -> MemoryBroker:
    return MemoryBroker()


def a_queue(provider: Provider) -> Queue:
    return Queue.objects.create(
        name=f"q-{uuid.uuid4().hex[:8]}",
        provider=provider,
        topic=uuid.uuid4().hex,
        kind="continuous",
        start_from="end",
    )


def an_error(provider: Provider, retry_no: int = 1) -> MessageError:
    now = timezone.now()
    return MessageError.objects.create(
        queue=a_queue(provider),
        topic_uuid="u",
        partition=0,
        offset=1,
        state="RETRY",
        not_before=now,
        retry_no=retry_no,
        carrier="topic",
        failure_class="transient",
        code="X",
        first_failed_at=now,
        last_failed_at=now,
    )


def test_rows_go_out_once_in_their_order_and_are_marked(
    provider: Provider, broker: MemoryBroker
) -> None:
    other = a_provider(name="other")
    put(provider, b"1", b"2")
    elsewhere = put(other, b"not ours")
    put(provider, b"3", None, b"")

    def ours_out() -> bool:
        return not OutboxRow.objects.filter(provider=provider, state="PENDING").exists()

    assert relay(provider, broker, until=ours_out) is RelayEnd.STOPPED
    assert sent(broker) == [b"1", b"2", b"3", None, b""]
    assert states(*elsewhere) == ["PENDING"]
    published = OutboxRow.objects.filter(provider=provider)
    assert {row.state for row in published} == {"PUBLISHED"}
    assert all(row.published_at is not None for row in published)
    assert broker.watermarks["relay"] == str(published[0].batch)


def test_keys_headers_and_partitions_are_kept(provider: Provider, broker: MemoryBroker) -> None:
    headers = (("a", b"\xff\x00"), ("größe", None), ("a", b"2"))
    put(provider, b"v", key=b"\x00k", partition=3, headers=headers)
    relay(provider, broker)
    row = broker.records[0]
    assert (row.key, row.partition, tuple(row.headers)) == (b"\x00k", 3, headers)


def test_a_row_that_is_not_due_holds_nobody_and_goes_when_it_is(
    provider: Provider, broker: MemoryBroker
) -> None:
    put(provider, b"later", delay_seconds=2.0)
    put(provider, b"now")
    relay(provider, broker)
    assert sent(broker) == [b"now", b"later"]
    row = OutboxRow.objects.get(value=b"later")
    assert row.not_before is not None
    assert row.published_at is not None
    assert row.published_at >= row.not_before


def test_a_cancelled_retry_marker_is_not_sent(provider: Provider, broker: MemoryBroker) -> None:
    put(provider, b"ticket", kind="TICKET", delay_seconds=0.0)
    OutboxRow.objects.update(state="CANCELLED")
    put(provider, b"message")
    relay(provider, broker)
    assert sent(broker) == [b"message"]


def test_a_retry_marker_that_is_just_being_cancelled_stops_nobody(
    provider: Provider, broker: MemoryBroker
) -> None:
    marker = put(provider, b"ticket", kind="TICKET", delay_seconds=0.0)
    message = put(provider, b"message")
    with transaction.atomic():
        # An open transaction holds the retry marker's row; the relay works on sessions of its own.
        OutboxRow.objects.filter(pk__in=marker).update(state="CANCELLED")
        ended = threading.Event()
        thread = threading.Thread(target=_relay_for, args=(provider, broker, ended))
        thread.start()
        deadline = time.monotonic() + 10
        while not broker.records and time.monotonic() < deadline:
            time.sleep(0.01)
    ended.set()
    thread.join()
    assert sent(broker) == [b"message"]
    assert states(*marker, *message) == ["CANCELLED", "PUBLISHED"]


def test_a_batch_that_is_being_marked_is_not_sent_again(
    provider: Provider, broker: MemoryBroker
) -> None:
    broker.max_bytes = 10 * policy.MAX_BYTES
    # Each fills a batch.
    values = [digit * (policy.MAX_BYTES + 1) for digit in (b"1", b"2")]
    first, _ = put(provider, *values)
    steps: list[RelayStep] = []
    ended = threading.Event()
    with transaction.atomic():
        # Whoever holds the row keeps the database from marking it.
        OutboxRow.objects.select_for_update().get(pk=first)
        asked = {"until": ended.is_set, "observer": steps.append}
        thread = threading.Thread(target=relay, args=(provider, broker), kwargs=asked)
        thread.start()
        deadline = time.monotonic() + 10
        while steps.count(RelayStep.PRODUCED) < 2 and time.monotonic() < deadline:
            time.sleep(0.01)
        assert sent(broker) == values[:1]
    while steps.count(RelayStep.MARKED) < 2 and time.monotonic() < deadline:
        time.sleep(0.01)
    ended.set()
    thread.join()
    assert sent(broker) == values
    assert set(states()) == {"PUBLISHED"}


def _relay_for(provider: Provider, broker: MemoryBroker, ended: threading.Event) -> None:
    run_relay(provider.pk, 0, stop=ended.is_set, publisher_for=lambda *_: MemoryPublisher(broker))


def test_a_batch_is_bounded_in_rows_and_in_bytes(provider: Provider, broker: MemoryBroker) -> None:
    batches: list[int] = []

    def count(step: RelayStep) -> None:
        if step is RelayStep.MARKED:
            batches.append(len(broker.records) - sum(batches))

    broker.max_bytes = 10 * policy.MAX_BYTES
    put(provider, *[b"small"] * (policy.MAX_ROWS + 5))
    relay(provider, broker, observer=count)
    assert batches == [policy.MAX_ROWS, 5]
    batches.clear()
    broker.records.clear()
    put(provider, *[os.urandom(policy.MAX_BYTES // 3)] * 5, b"x" * (policy.MAX_BYTES + 1))
    relay(provider, broker, observer=count)
    # The limit is passed by one row at most; a row above it goes out all the same.
    assert batches == [3, 3]


def test_one_refused_row_is_dead_and_its_neighbours_go_out_once(
    provider: Provider, broker: MemoryBroker
) -> None:
    broker.max_bytes = 10
    before = put(provider, *[b"%d" % n for n in range(50)])
    bad = put(provider, b"far too large for it")
    after = put(provider, *[b"%d" % n for n in range(50, 120)])
    steps: list[RelayStep] = []
    relay(provider, broker, observer=steps.append)
    assert states(*bad) == ["DEAD"]
    assert set(states(*before, *after)) == {"PUBLISHED"}
    assert sent(broker) == [b"%d" % n for n in range(120)]
    dead = OutboxRow.objects.get(state="DEAD")
    assert dead.dead_code == "MSG_SIZE_TOO_LARGE"
    assert "MSG_SIZE_TOO_LARGE" in dead.dead_text
    # All of it, the part before, the row alone, the rest: no more transactions than that.
    assert steps.count(RelayStep.BEGUN) <= 6


def test_each_try_of_a_refused_batch_has_an_id_of_its_own(
    provider: Provider, broker: MemoryBroker
) -> None:
    broker.max_bytes = 10
    put(provider, b"a", b"far too large for it", b"b")
    seen: set[object] = set()

    def note(step: RelayStep) -> None:
        if step is RelayStep.STAMPED:
            batch = RelayLease.objects.get(provider=provider).batch
            assert batch is not None
            assert batch not in seen
            seen.add(batch)

    relay(provider, broker, observer=note)
    assert len(seen) >= 3


def test_a_dead_retry_marker_leaves_its_retry_to_the_row(
    provider: Provider, broker: MemoryBroker
) -> None:
    broker.topics = {"topic"}
    error, stale, copied = (an_error(provider) for _ in range(3))
    put(provider, b"", kind="TICKET", error=error.pk, retry_no=1, topic="gone")
    put(provider, b"", kind="TICKET", error=stale.pk, retry_no=0, topic="gone")
    put(provider, b"m", kind="MIRROR", error=copied.pk, retry_no=1, topic="gone")
    relay(provider, broker)
    assert states() == ["DEAD"] * 3
    carriers = [MessageError.objects.get(pk=e.pk).carrier for e in (error, stale, copied)]
    assert carriers == ["row", "topic", "topic"]


def test_a_dead_row_of_a_strict_queue_holds_back_what_follows_on_it(
    provider: Provider, broker: MemoryBroker
) -> None:
    queue = a_queue(provider).pk
    broker.max_bytes = 10
    first = put(provider, b"s1", strict_queue=queue)
    bad = put(provider, b"far too large for it", strict_queue=queue)
    held = put(provider, b"s3", b"s4", strict_queue=queue)
    free = put(provider, b"free")
    relay(provider, broker, until=lambda: states(*first, *free) == ["PUBLISHED"] * 2)
    assert states(*bad, *held) == ["DEAD", "PENDING", "PENDING"]
    relay(provider, broker, until=lambda: put(provider) == [] and "s3" not in str(sent(broker)))
    assert sent(broker) == [b"s1", b"free"]
    # The limit was raised: it goes out in its old place, and then what it held back.
    broker.max_bytes = 1_000
    decisions.send_again(*bad, batch=batch_of(*bad), actor="anna")
    relay(provider, broker)
    assert sent(broker) == [b"s1", b"free", b"far too large for it", b"s3", b"s4"]


def test_a_dead_row_holds_back_only_what_follows_it_on_its_topic(
    provider: Provider, broker: MemoryBroker
) -> None:
    """What a queue forwards to another topic is as strict as what is published to its own."""
    queue = a_queue(provider).pk
    broker.max_bytes = 10
    bad = put(provider, b"far too large for it", topic="partner", strict_queue=queue)
    held = put(provider, b"p2", topic="partner", strict_queue=queue)
    own = put(provider, b"s1", topic="own", strict_queue=queue)
    relay(provider, broker, until=lambda: states(*own) == ["PUBLISHED"])
    assert states(*bad, *held) == ["DEAD", "PENDING"]
    assert sent(broker) == [b"s1"]


def test_giving_a_dead_row_up_frees_its_strict_queue(
    provider: Provider, broker: MemoryBroker
) -> None:
    queue = a_queue(provider).pk
    broker.max_bytes = 10
    bad = put(provider, b"far too large for it", strict_queue=queue)
    put(provider, b"s2", strict_queue=queue)
    relay(provider, broker, until=lambda: states(*bad) == ["DEAD"])
    decisions.give_up(*bad, batch=batch_of(*bad), actor="anna", reason="sent by mail")
    relay(provider, broker)
    assert sent(broker) == [b"s2"]


def test_a_lost_answer_doubles_nothing(provider: Provider, broker: MemoryBroker) -> None:
    broker.lost_answers = 2
    put(provider, *[b"%d" % n for n in range(10)])
    relay(provider, broker)
    put(provider, b"next")
    relay(provider, broker)
    assert sent(broker) == [*[b"%d" % n for n in range(10)], b"next"]


def test_without_the_watermark_check_a_lost_answer_would_double(
    provider: Provider, broker: MemoryBroker
) -> None:
    """The check is what keeps the promise: without it the test above fails."""
    broker.lost_answers = 1
    put(provider, b"once")
    relay(provider, broker, judge=lambda *_: policy.Finding.NOT_SENT)
    assert sent(broker) == [b"once", b"once"]


def test_a_silent_broker_is_waited_for_and_nothing_is_dead(
    provider: Provider, broker: MemoryBroker
) -> None:
    broker.is_available = False
    rows = put(provider, b"patient")
    since = time.monotonic()
    relay(provider, broker, until=lambda: time.monotonic() - since > 1.0)
    assert states(*rows) == ["PENDING"]
    broker.is_available = True
    relay(provider, broker)
    assert sent(broker) == [b"patient"]


def _leave_in_doubt(provider: Provider, broker: MemoryBroker) -> RelayLease:
    rows = put(provider, b"1", b"2")
    # Whoever stamps has a lease.
    RelayLease.objects.create(provider=provider)
    OutboxRow.objects.filter(pk__in=rows).update(state="STAMPED", batch=uuid.uuid4())
    broker.watermarks.clear()
    doubtful = RelayLease.objects.filter(in_doubt_since__isnull=False)
    relay(provider, broker, until=doubtful.exists)
    assert sent(broker) == []
    assert states(*rows) == ["STAMPED"] * 2
    return doubtful.get()


def test_a_forgotten_watermark_leaves_the_batch_to_a_person(
    provider: Provider, broker: MemoryBroker
) -> None:
    lease = _leave_in_doubt(provider, broker)
    assert "2 messages" in lease.in_doubt_text
    put(provider, b"waits too")
    since = time.monotonic()
    relay(provider, broker, until=lambda: time.monotonic() - since > 0.5)
    assert sent(broker) == []
    batch = OutboxRow.objects.filter(state="STAMPED").values_list("batch", flat=True)[0]
    assert decisions.resolve_in_doubt(lease.pk, batch=batch, sent=False, actor="anna") == 2
    relay(provider, broker)
    assert sent(broker) == [b"1", b"2", b"waits too"]
    with pytest.raises(decisions.NotInDoubtError):
        decisions.resolve_in_doubt(lease.pk, batch=batch, sent=True, actor="bert")


def test_what_a_person_has_found_in_kafka_is_not_sent_again(
    provider: Provider, broker: MemoryBroker
) -> None:
    lease = _leave_in_doubt(provider, broker)
    batch = OutboxRow.objects.filter(state="STAMPED").values_list("batch", flat=True)[0]
    assert decisions.resolve_in_doubt(lease.pk, batch=batch, sent=True, actor="anna") == 2
    put(provider, b"3")
    relay(provider, broker)
    assert sent(broker) == [b"3"]
    assert set(states()) == {"PUBLISHED"}


def _many(provider: Provider, state: str, count: int, *, waits: bool) -> None:
    with connection.cursor() as cursor:
        cursor.execute(
            "INSERT INTO integration_outboxrow (provider_id, shard, topic, headers, kind, "
            "message_id, not_before, state, created_at, dead_code, dead_text) "
            "SELECT %s, 0, 't', '[]', 'TICKET', '', "
            "CASE WHEN %s THEN clock_timestamp() + interval '1 hour' END, "
            "%s, clock_timestamp(), '', '' FROM generate_series(1, %s)",
            [provider.pk, waits, state, count],
        )


@pytest.mark.parametrize("are_statistics_old", [True, False])
def test_neither_waiting_retry_markers_nor_history_are_read_to_find_what_is_due(
    provider: Provider, broker: MemoryBroker, *, are_statistics_old: bool
) -> None:
    _many(provider, "PENDING", 10_000, waits=False)
    with connection.cursor() as cursor:
        cursor.execute("ANALYZE integration_outboxrow")
        cursor.execute("UPDATE integration_outboxrow SET state = 'PUBLISHED'")
        _many(provider, "PENDING", 10_000, waits=True)
        if not are_statistics_old:
            cursor.execute("ANALYZE integration_outboxrow")
        cursor.execute(relay_rows.BY_INDEX)
        shard = {"provider": provider.pk, "first": 0, "end": 256}
        limits = {"rows": 1000, "bytes": 4_000_000, "marking": "{1,2}"}
        for statement in (relay_rows.HAS_DUE, relay_rows.DUE):
            cursor.execute("EXPLAIN " + statement, {**shard, **limits})
            plan = "\n".join(line for (line,) in cursor.fetchall())
            assert "Seq Scan on integration_outboxrow" not in plan
            assert plan.count("using outbox_due") == 2, plan
        cursor.execute("RESET enable_seqscan; RESET enable_bitmapscan")
    put(provider, b"now")
    relay(provider, broker, until=lambda: sent(broker) == [b"now"])
    assert not nothing_left()
