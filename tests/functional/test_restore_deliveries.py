"""A restore of a database that delivers: what may have reached the partner waits for people."""

from collections.abc import Iterator

import pytest
from django.utils import timezone

from integration.actions import failures
from integration.delivery.report import RunEnding
from integration.endpoints.port import Later
from integration.models import (
    Delivery,
    ErrorChange,
    MessageError,
    Queue,
    QueueChange,
    QueuePartition,
    Restore,
    RestoreFinding,
)
from integration.restore import examining, options
from integration.restore.deciding import NoSuchDecisionError, decide
from tests.support import restored
from tests.support.kafka_world import Kafka
from tests.support.memory.endpoint import MemoryDeliverer
from tests.support.partners import an_endpoint, an_outbound_queue, numbers, post, send

pytestmark = [pytest.mark.servers, pytest.mark.django_db(transaction=True)]


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
    """Attached for long enough to write the position for lag tools."""
    Queue.objects.filter(pk=queue.pk).update(stay_seconds=1.3)
    send(queue, partner)


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


@pytest.fixture
def waiting(broker) -> tuple[Queue, MemoryDeliverer]:
    """A failure waits for another try in the backup; after it, it was delivered."""
    queue = an_outbound_queue(broker, "continuous", max_retries=5)
    partner = MemoryDeliverer(script=lambda _: Later(status=500, text="Busy."))
    post(broker, queue, 1)
    send(queue, partner)
    assert MessageError.objects.get().state == "RETRY"
    restored.back_up()
    partner.script = lambda _: None
    send(queue, partner)
    assert partner.shelf.ids == ["m0"]
    restored.restore()
    return queue, partner


def test_failures_that_wait_are_held_for_review_and_not_sent(waiting):
    queue, partner = waiting
    assert send(queue, partner).ending is RunEnding.STOPPED
    look()
    finding = only_finding("delivery")
    assert finding.facts == {"name": queue.name, "waiting": 1, "calls": 0}
    assert words(finding) == [options.HOLD, options.DELIVER]
    with pytest.raises(NoSuchDecisionError):
        decide(finding.pk, options.REVIEW, actor="anna")

    decide(finding.pk, options.HOLD, actor="anna", reason="I ask them")

    assert examining.current() is None
    assert MessageError.objects.get().state == "HOLD"
    change = ErrorChange.objects.latest("pk")
    assert (change.actor, change.action, change.reason) == ("anna", "hold", "I ask them")
    calls = partner.calls
    send(queue, partner)
    assert partner.calls == calls


def test_failures_that_wait_are_delivered_where_a_person_says_so(waiting):
    queue, partner = waiting
    send(queue, partner)
    look()
    decide(only_finding("delivery").pk, options.DELIVER, actor="anna")

    send(queue, partner)

    assert MessageError.objects.get().state == "RESOLVED"
    assert [p.message_id for p in partner.shelf.messages][-1] == "m0"
    assert examining.current() is None


@pytest.mark.parametrize(
    ("word", "sent_again", "code"),
    [(options.HOLD, [], "DELIVERY_UNKNOWN"), (options.DELIVER, ["m1"], None)],
)
def test_a_call_under_way_at_the_backup_is_decided_even_where_repeats_are_dropped(
    broker, word, sent_again, code
):
    queue = an_outbound_queue(broker, "continuous", endpoint=an_endpoint(idempotent=True))
    partner = MemoryDeliverer()
    post(broker, queue, 1)
    send(queue, partner)
    post(broker, queue, 1, first=1)
    call = interrupted(queue, 1)
    restored.back_up()
    restored.restore()
    send(queue, partner)

    look()
    finding = only_finding("delivery")
    assert (finding.facts["waiting"], finding.facts["calls"]) == (0, 1)
    assert "1 call " in options.card(finding).what
    decide(finding.pk, word, actor="anna")
    send(queue, partner)

    assert partner.shelf.ids == ["m0", *sent_again]
    held = MessageError.objects.filter(state="HOLD").values_list("code", flat=True)
    assert list(held) == ([code] if code else [])
    call.refresh_from_db()
    assert call.state == ("UNKNOWN" if code else "FAILED")


def test_a_call_to_a_partner_that_keeps_repeats_is_told_and_held_by_itself(broker):
    queue = an_outbound_queue(broker, "continuous")
    partner = MemoryDeliverer()
    post(broker, queue, 1)
    send(queue, partner)
    post(broker, queue, 1, first=1)
    interrupted(queue, 1)
    restored.back_up()
    restored.restore()
    send(queue, partner)

    restore = look()

    assert restore.closed_at is not None
    assert any("1 call was under way" in remark for remark in restore.remarks)
    send(queue, partner)
    assert partner.shelf.ids == ["m0"]
    assert MessageError.objects.get().code == "DELIVERY_UNKNOWN"

    # Who restores once more forgets what was said about it.
    examining.declare("the disk of last night", "anna")
    assert any("may have arrived" in remark for remark in look().remarks)
