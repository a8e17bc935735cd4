"""How long receipts are kept, so that a sender's repetitions stay harmless for that time."""

from datetime import timedelta

import pytest
from django.utils import timezone

from crontasks.builtin.history_cleanup import HistoryCleanup, HistoryParameters
from crontasks.cleanup import removing
from crontasks.cleanup.pasts import RECEIPTS
from crontasks.outcome import Context
from integration.models import OutboxRow, Queue, Receipt
from integration.store.sessions import database_time
from tests.support.http_api import a_partner

pytestmark = [pytest.mark.servers, pytest.mark.django_db]


def removed(days: float) -> int:
    Receipt.objects.update(received_at=timezone.now() - timedelta(days=days))
    said = {"at": database_time(), "chunk": 100}
    return sum(removing.remove(RECEIPTS, said, lambda: False).values())


def test_they_live_as_long_as_their_queue_keeps_its_failures() -> None:
    partner = a_partner()
    Queue.objects.update(retention_seconds=20 * 86_400)
    partner.post({"n": 1})
    assert removed(19) == 0
    assert removed(21) == 1


def test_seven_days_are_the_least_also_without_a_queue() -> None:
    partner = a_partner()
    Queue.objects.update(retention_seconds=3_600)
    partner.post({"n": 1})
    partner.post({"n": 1}, address="es")
    assert removed(6.9) == 0
    assert removed(7.1) == 2


def test_a_removed_queue_keeps_nobody() -> None:
    partner = a_partner()
    partner.post({"n": 1})
    partner.queue.delete()
    assert removed(8) == 1


KEY = {"headers": {"Idempotency-Key": "order-4711"}}


def cleaned(days: float, **parameters: int) -> dict[str, int]:
    """Let the whole cleanup run, as if the receipts were so many days old."""
    Receipt.objects.update(received_at=timezone.now() - timedelta(days=days))
    context = Context(instance_id=1, scheduled_at=timezone.now(), actor="nightly")
    return dict(HistoryCleanup().run(HistoryParameters(**parameters), context).counts)


@pytest.mark.parametrize("retention_days", [1, 90])
def test_a_key_is_known_for_its_own_days_whatever_its_queue_keeps(retention_days: int) -> None:
    partner = a_partner()
    Queue.objects.update(retention_seconds=retention_days * 86_400)
    first = partner.post({"n": 1}, **KEY).json()
    assert cleaned(39, keys_days=40)["idempotency_keys"] == 0
    again = partner.post({"n": 1}, **KEY).json()
    assert (again["message_id"], again["repeated"]) == (first["message_id"], True)
    assert cleaned(41, keys_days=40)["idempotency_keys"] == 1
    assert partner.post({"n": 1}, **KEY).json()["repeated"] is False


def test_a_key_outlives_its_messages_tracking_and_says_what_it_knows() -> None:
    partner = a_partner()
    id_ = partner.post({"n": 1}, **KEY).json()["message_id"]
    OutboxRow.objects.all().delete()
    assert partner.ask(id_).json()["state"] == "in_kafka"
    cleaned(20, tracking_days=0, keys_days=30)
    assert partner.ask(id_).json()["state"] == "no_longer_tracked"
    assert partner.post({"n": 1}, **KEY).json()["repeated"] is True
    assert not OutboxRow.objects.exists()


def test_keys_are_removed_in_portions_and_leave_posts_without_one_alone() -> None:
    partner = a_partner()
    Queue.objects.update(retention_seconds=60 * 86_400)
    partner.post({"n": 0})
    for n in range(3):
        partner.post({"n": n}, headers={"Idempotency-Key": f"order-{n}"})
    assert cleaned(10, keys_days=9, chunk_rows=2)["idempotency_keys"] == 3
    assert Receipt.objects.get().sender_id is None
