"""What is sent again, what is given up, and who is told of an end that nobody confirmed hearing."""

from collections.abc import Iterator
from datetime import timedelta

import pytest

from crontasks.models import Notice, NoticeDelivery, NoticeRecipient
from crontasks.models.notice import NoticeKind
from crontasks.notices import selectors, sending
from crontasks.notices.condition import Condition
from tests.support.http_partner import HttpPartner
from tests.support.notices import BLOCKED, a_rule, a_webhook, bodies, later, look

pytestmark = [pytest.mark.servers, pytest.mark.django_db]


@pytest.fixture
def partner() -> Iterator[HttpPartner]:
    made = HttpPartner()
    yield made
    made.close()


def now_at(hook: NoticeRecipient, partner: HttpPartner, path: str) -> None:
    hook.url = f"{partner.address}{path}"
    hook.save()


def test_what_nobody_takes_for_a_day_is_given_up(partner: HttpPartner) -> None:
    a_webhook(partner, "/status-404")
    a_rule(recipients=["hook"])
    look(BLOCKED)
    for _ in range(3):
        later(timedelta(hours=12, minutes=1))
        sending.send_due()
    assert len(partner.requests) == 3, "the third try was the last"
    assert NoticeDelivery.objects.get().next_at is None
    [row] = selectors.rows(list(Notice.objects.select_related("queue")))
    assert (row.told, row.waiting, row.given_up) == ((), (), ("hook",))


def test_what_is_young_is_not_given_up_with_the_old_beside_it(partner: HttpPartner) -> None:
    hook = a_webhook(partner, "/status-503")
    a_rule(recipients=["hook"])
    orders = Condition(NoticeKind.BLOCKED, "orders[0]", "x")
    young = Condition(NoticeKind.BLOCKED, "young[0]", "x")
    look(BLOCKED)
    later(timedelta(minutes=10))
    look(BLOCKED, orders)
    later(timedelta(days=1))
    look(BLOCKED, orders, young)
    sending.send_due()
    sending.send_due()
    sending.send_due()
    waiting = NoticeDelivery.objects.filter(next_at__isnull=False)
    assert list(waiting.values_list("notice__subject", flat=True)) == ["young[0]"]
    asked = len(partner.requests)

    now_at(hook, partner, "/take")
    later(timedelta(minutes=15))
    sending.send_due()
    [body] = bodies(partner)[asked:]
    assert [one["subject"] for one in body["notices"]] == ["young[0]"]
    assert body["id"] not in {one["id"] for one in bodies(partner)[:asked]}, "it says less"
