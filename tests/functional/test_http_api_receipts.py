"""How long receipts are kept, so that a sender's repetitions stay harmless for that time."""

from datetime import timedelta

import pytest
from django.utils import timezone

from crontasks.cleanup import removing
from crontasks.cleanup.pasts import RECEIPTS
from integration.models import Queue, Receipt
from tests.support.http_api import a_partner

pytestmark = [pytest.mark.servers, pytest.mark.django_db]


def removed(days: float) -> int:
    Receipt.objects.update(received_at=timezone.now() - timedelta(days=days))
    said = {"at": removing.database_time(), "chunk": 100}
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
