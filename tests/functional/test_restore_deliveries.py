"""A restore of a database that delivers: what may have reached the partner waits for people."""

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Final, NamedTuple
from weakref import WeakSet

import pytest
from django.db import connection
from django.test.utils import CaptureQueriesContext
from django.utils import timezone

from integration.actions import failures
from integration.delivery.report import RunEnding
from integration.endpoints.port import Later
from integration.kafka.aftermath import records_between
from integration.models import (
    Delivery,
    ErrorChange,
    Gap,
    MessageError,
    Queue,
    QueueChange,
    QueuePartition,
    Restore,
    RestoreFinding,
)
from integration.restore import examining, options
from integration.restore.deciding import NoSuchDecisionError, decide
from integration.values import Record
from tests.support import restored
from tests.support.kafka_world import Kafka
from tests.support.memory.endpoint import MemoryDeliverer
from tests.support.partners import an_endpoint, an_outbound_queue, numbers, post, send
from tests.support.rows import a_held

pytestmark = [pytest.mark.servers, pytest.mark.django_db(transaction=True)]

# What a person may decide, and what each kind of finding counts.
WORDS: Final = (options.HOLD, options.DELIVER)
COUNTED: Final = {"failed": {"waiting": 1, "calls": 0}, "called": {"waiting": 0, "calls": 1}}


@pytest.fixture
def broker(servers) -> Kafka:
    return Kafka(servers.kafka_bootstrap)


@pytest.fixture(autouse=True)
def owned() -> Iterator[None]:
    restored.own()
    yield
    restored.drop_backup()


def look() -> Restore:
    restore = examining.noticed()
    assert restore is not None
    return examining.look(restore)


def only_finding(kind: str) -> RestoreFinding:
    return RestoreFinding.objects.get(kind=kind, decided_at__isnull=True)


def words(finding: RestoreFinding) -> list[str]:
    return [option.word for option in options.card(finding).options]


def interrupted(queue: Queue, offset: int) -> Delivery:
    """A call that was on its way when the backup was made."""
    place = QueuePartition.objects.get(queue=queue)
    return Delivery.objects.create(
        queue=queue,
        endpoint=queue.endpoint,
        topic_uuid=place.topic_uuid,
        partition=0,
        offset=offset,
        message_id=f"m{offset}",
        state="SENDING",
        epoch=place.epoch,
        started_at=timezone.now(),
    )


def send_and_stay(queue: Queue, partner: MemoryDeliverer) -> None:
    """Attached until the position for lag tools is written."""
    Queue.objects.filter(pk=queue.pk).update(stay_seconds=20.0)
    send(queue, partner, stop=restored.once_noted(queue))


def test_what_was_delivered_since_is_held_for_review_and_each_can_be_settled(broker):
    queue = an_outbound_queue(broker, "sequential", stay_seconds=0.1)
    partner = MemoryDeliverer()
    post(broker, queue, 3)
    send(queue, partner)
    restored.back_up()
    post(broker, queue, 3, first=3)
    send_and_stay(queue, partner)
    restored.restore()
    assert send(queue, partner).ending is RunEnding.STOPPED

    look()
    finding = only_finding("position")
    assert (finding.facts["from"], finding.facts["to"]) == (3, 6)
    advised = [o.word for o in options.card(finding).options if o.is_advised]
    assert advised == [options.REVIEW]
    decide(finding.pk, options.REVIEW, actor="anna")

    assert queue.partitions.get().next_offset == 6
    rows = list(MessageError.objects.order_by("offset"))
    assert [(r.offset, r.state, r.code, r.message_id, bytes(r.payload)) for r in rows] == [
        (n, "HOLD", "RESTORED_REVIEW", f"m{n}", b'{"n": %d}' % n) for n in (3, 4, 5)
    ]
    assert QueueChange.objects.get(queue=queue).actor == "anna"
    # Held messages lie behind the position and stop nothing; what comes now goes out.
    post(broker, queue, 1, first=6)
    send(queue, partner)
    assert numbers(partner.shelf.ids) == [0, 1, 2, 3, 4, 5, 6]

    failures.release(rows[0].pk, version=rows[0].version, actor="anna", late=True)
    failures.arrived(rows[1].pk, version=rows[1].version, actor="anna", reason="seen there")
    failures.delete(rows[2].pk, version=rows[2].version, actor="anna", reason="old")
    send(queue, partner)
    # Released alone, and with the id it had.
    assert [p.message_id for p in partner.shelf.messages[7:]] == ["m3"]
    states = MessageError.objects.order_by("offset").values_list("state", flat=True)
    assert list(states) == ["RESOLVED", "RESOLVED", "DELETED"]


def test_what_has_expired_of_it_is_a_gap_and_the_rest_is_held_for_review(broker):
    queue = an_outbound_queue(broker, "sequential", stay_seconds=0.1)
    partner = MemoryDeliverer()
    restored.back_up()
    post(broker, queue, 5)
    send_and_stay(queue, partner)
    restored.restore()
    broker.delete_records(queue.topic, 2)
    look()
    finding = only_finding("position")
    assert finding.facts["expired"] == 2
    [review] = [o for o in options.card(finding).options if o.is_advised]
    assert (review.word, review.label) == (options.REVIEW, "Hold up to 3 for review")
    # More may expire until it is decided.
    broker.delete_records(queue.topic, 3)
    said = decide(finding.pk, options.REVIEW, actor="anna")

    assert "2 messages from offset 3 on. 3 offsets before are no longer in Kafka" in said
    rows = MessageError.objects.order_by("offset").values_list("offset", "state")
    assert list(rows) == [(3, "HOLD"), (4, "HOLD")]
    gap = Gap.objects.get()
    assert (gap.from_offset, gap.to_offset, gap.acknowledged_by) == (0, 3, "anna")
    assert (queue.partitions.get().next_offset, examining.current()) == (5, None)


class Counted(Record):
    """One that can be referred to weakly."""


def test_a_review_holds_no_more_than_a_portion_of_the_messages(broker, monkeypatch):
    queue = an_outbound_queue(broker, "sequential", stay_seconds=0.1)
    partner = MemoryDeliverer()
    restored.back_up()
    post(broker, queue, 30)
    send_and_stay(queue, partner)
    restored.restore()
    look()
    alive: WeakSet[Record] = WeakSet()
    most = [0]

    def counted(*where: object) -> Iterator[Record]:
        for record in records_between(*where):
            place = record.partition, record.offset, record.timestamp_ms
            copied = Counted(*place, record.key, record.value, record.headers)
            alive.add(copied)
            most[0] = max(most[0], len(alive))
            yield copied

    monkeypatch.setattr("integration.kafka.aftermath.records_between", counted)
    monkeypatch.setattr("integration.restore.reviewing.PORTION_BYTES", 50, raising=False)
    with CaptureQueriesContext(connection) as queries:
        said = decide(only_finding("position").pk, options.REVIEW, actor="anna")
    assert "30 messages" in said
    written = [q for q in queries if q["sql"].startswith('INSERT INTO "integration_messageerror"')]
    assert len(written) > 3
    held = MessageError.objects.order_by("offset").values_list("offset", "payload")
    assert [(n, bytes(payload)) for n, payload in held] == [
        (n, b'{"n": %d}' % n) for n in range(30)
    ]
    assert most[0] < 15


def test_what_had_failed_among_the_reviewed_ones_waits_for_the_review_too(broker):
    queue = an_outbound_queue(broker, "sequential", stay_seconds=0.1)
    partner = MemoryDeliverer()
    post(broker, queue, 1)
    send(queue, partner)
    restored.back_up()
    post(broker, queue, 2, first=1)
    send_and_stay(queue, partner)
    restored.restore()
    # Retried in the backup, and delivered after it.
    known = {"topic_uuid": queue.partitions.get().topic_uuid, "message_id": "m1"}
    a_held(queue, 1, state="RETRY", not_before=timezone.now(), **known)
    look()
    decide(only_finding("position").pk, options.REVIEW, actor="anna")
    decide(only_finding("delivery").pk, options.DELIVER, actor="anna")

    send(queue, partner)

    assert numbers(partner.shelf.ids) == [0, 1, 2]
    rows = MessageError.objects.order_by("offset")
    assert list(rows.values_list("offset", "state")) == [(1, "HOLD"), (2, "HOLD")]


class Sent(NamedTuple):
    """A queue, and the partner that it sends to."""

    queue: Queue
    partner: MemoryDeliverer

    def again(self) -> RunEnding:
        return send(self.queue, self.partner).ending


def failed(broker: Kafka, name: str) -> Sent:
    """Its message waits for another try."""
    queue = an_outbound_queue(broker, "continuous", name=name, max_retries=5)
    sent = Sent(queue, MemoryDeliverer(script=lambda _: Later(status=500, text="Busy.")))
    post(broker, queue, 1)
    sent.again()
    assert MessageError.objects.get(queue=queue).state == "RETRY"
    return sent


def called(broker: Kafka, name: str, *, idempotent: bool) -> Sent:
    """Its second message is under way to a partner which drops repeats, or does not."""
    endpoint = an_endpoint(idempotent=idempotent)
    queue = an_outbound_queue(broker, "continuous", name=name, endpoint=endpoint)
    sent = Sent(queue, MemoryDeliverer())
    post(broker, queue, 1)
    sent.again()
    post(broker, queue, 1, first=1)
    interrupted(queue, 1)
    return sent


def state_of(sent: Sent) -> str:
    return MessageError.objects.get(queue=sent.queue).state


@dataclass
class Restored:
    """Failures, and calls to partners that drop repeats, by what will be decided of them."""

    failures: dict[str, Sent]
    calls: dict[str, Sent]
    kept: Sent

    @property
    def every(self) -> list[Sent]:
        return [*self.failures.values(), *self.calls.values(), self.kept]


@pytest.fixture
def flows(broker: Kafka) -> Restored:
    """What failed in the backup was delivered after it."""
    made = Restored(
        {word: failed(broker, f"failed-{word}") for word in WORDS},
        {word: called(broker, f"called-{word}", idempotent=True) for word in WORDS},
        called(broker, "keeps-repeats", idempotent=False),
    )
    restored.back_up()
    for sent in made.failures.values():
        sent.partner.script = lambda _: None
        sent.again()
        assert sent.partner.shelf.ids == ["m0"]
    restored.restore()
    return made


def test_what_waits_and_what_was_under_way_goes_out_only_where_a_person_says_so(
    flows: Restored,
) -> None:
    assert {sent.again() for sent in flows.every} == {RunEnding.STOPPED}
    restore = look()
    assert any("1 call was under way" in remark for remark in restore.remarks)
    every_finding_is_decided_by_its_word(restore)
    assert examining.current() is None

    what_failed_is_held_or_goes_out(flows.failures)
    for sent in (*flows.calls.values(), flows.kept):
        sent.again()
    at_hold = flows.calls[options.HOLD]
    assert at_hold.partner.shelf.ids == flows.kept.partner.shelf.ids == ["m0"]
    assert flows.calls[options.DELIVER].partner.shelf.ids == ["m0", "m1"]
    held = MessageError.objects.filter(state="HOLD", code="DELIVERY_UNKNOWN")
    assert {row.queue for row in held} == {at_hold.queue, flows.kept.queue}
    ended = Delivery.objects.filter(offset=1).values_list("queue__name", "state")
    assert set(ended) >= {("called-hold", "UNKNOWN"), ("called-deliver", "FAILED")}

    # Who restores once more forgets what was said about it.
    examining.declare("the disk of last night", "anna")
    assert any("may have arrived" in remark for remark in look().remarks)


def every_finding_is_decided_by_its_word(restore: Restore) -> None:
    found = {one.facts["name"]: one for one in restore.findings.all()}
    assert {name: one.facts for name, one in found.items()} == {
        f"{what}-{word}": {"name": f"{what}-{word}", **counted}
        for what, counted in COUNTED.items()
        for word in WORDS
    }
    for name, one in found.items():
        assert words(one) == list(WORDS)
        assert ("1 call " in options.card(one).what) is name.startswith("called")
        with pytest.raises(NoSuchDecisionError):
            decide(one.pk, options.REVIEW, actor="anna")
        assert examining.current() is not None
        decide(one.pk, name.partition("-")[2], actor="anna", reason="I ask them")


def what_failed_is_held_or_goes_out(failures: dict[str, Sent]) -> None:
    at_hold, delivered = failures[options.HOLD], failures[options.DELIVER]
    assert state_of(at_hold) == "HOLD"
    change = ErrorChange.objects.filter(error__queue=at_hold.queue).latest("pk")
    assert (change.actor, change.action, change.reason) == ("anna", "hold", "I ask them")
    calls = at_hold.partner.calls
    at_hold.again()
    assert at_hold.partner.calls == calls
    calls = delivered.partner.calls
    delivered.again()
    assert (state_of(delivered), delivered.partner.calls) == ("RESOLVED", calls + 1)
    assert [p.message_id for p in delivered.partner.shelf.messages] == ["m0", "m0"]
