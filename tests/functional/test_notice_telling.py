"""Who is told, how often and when: rules, recipients, retries, storms. With real receivers."""

import json
import time
from collections.abc import Iterator
from datetime import timedelta
from typing import Any

import pytest
from django.core import mail
from django.db import connection
from django.db.models import Q
from django.test.utils import CaptureQueriesContext

from console.setup.notice_recipients import RecipientForm
from crontasks.errors import NoticeOverError
from crontasks.models import Notice, NoticeDelivery
from crontasks.models.notice import NoticeKind
from crontasks.notices import actions, book, sending
from crontasks.notices.condition import Condition
from crontasks.notices.courier import Courier
from integration.actions.configuration import Author
from integration.endpoint_types.http.signing import signature
from integration.models import ConfigurationChange, ExternalSystem
from integration.store.sessions import database_time
from tests.support.http_partner import HttpPartner
from tests.support.notices import (
    BLOCKED,
    KINDS,
    a_recipient,
    a_rule,
    a_webhook,
    bodies,
    later,
    look,
)
from tests.support.rows import a_queue_row

pytestmark = [pytest.mark.servers, pytest.mark.django_db]
MINUTE = timedelta(minutes=1)
ADA = Author("ada", "I am on it")


@pytest.fixture(autouse=True)
def addresses(settings: Any) -> None:
    settings.SLUICE_NOTIFY_EMAILS = ["ops@example.org"]


@pytest.fixture
def partner() -> Iterator[HttpPartner]:
    made = HttpPartner()
    yield made
    made.close()


def subjects() -> list[str]:
    return [message.subject.removeprefix("[sluice] ") for message in mail.outbox]


def test_a_webhook_gets_signed_json_with_an_id_and_the_end_goes_to_whoever_heard(
    partner: HttpPartner,
) -> None:
    hook = a_webhook(partner)
    a_recipient("team", addresses=["team@example.org", "lead@example.org"])
    rule = a_rule(recipients=["hook", "team"])
    look(BLOCKED)
    [request] = partner.requests
    body = json.loads(request.body)
    assert request.headers["webhook-id"] == body["id"]
    moment = request.headers["webhook-timestamp"]
    made = signature("s3cret", body["id"], moment, request.body)
    assert request.headers["webhook-signature"] == made
    [told] = body["notices"]
    assert (told["event"], told["kind"], told["subject"]) == ("begun", "BLOCKED", "assets[0]")
    assert [message.to for message in mail.outbox] == [["team@example.org", "lead@example.org"]]

    # Who is named now did not hear of the beginning.
    rule.recipients = []
    rule.save()
    look()
    assert [body["notices"][0]["event"] for body in bodies(partner)] == ["begun", "over"]
    assert subjects() == ["Queue blocked: assets[0]", "Over: Queue blocked: assets[0]"]
    assert hook.deliveries.filter(sent_at__isnull=True).count() == 0


def test_a_mail_has_the_same_id_at_each_try(settings: Any) -> None:
    settings.EMAIL_BACKEND = "django.core.mail.backends.smtp.EmailBackend"
    settings.EMAIL_HOST, settings.EMAIL_PORT = "127.0.0.1", 1
    look(BLOCKED)
    [waiting] = NoticeDelivery.objects.all()
    settings.EMAIL_BACKEND = "django.core.mail.backends.locmem.EmailBackend"
    later(MINUTE)
    sending.send_due()
    [sent] = mail.outbox
    assert sent.extra_headers["Message-ID"].startswith(f"<{waiting.message}@")


def test_a_chat_gets_text(partner: HttpPartner) -> None:
    a_recipient("chat", way="slack", url=f"{partner.address}/take/T0/B0")
    a_rule(recipients=["chat"])
    look(BLOCKED)
    [body] = bodies(partner)
    text = "*[sluice] Queue blocked: assets[0]*\nHEAD_HELD: Bad date."
    assert body == {"text": text}
    assert mail.outbox == []


def test_what_a_webhook_did_not_take_is_sent_again_under_the_same_id(partner: HttpPartner) -> None:
    hook = a_webhook(partner, "/status-503")
    a_rule(recipients=["hook"])
    look(BLOCKED)
    look(BLOCKED, Condition(NoticeKind.BLOCKED, "orders[0]", "x"))
    assert len(partner.requests) == 1, "what is new waits behind what is tried again"
    [problem] = {one.problem for one in NoticeDelivery.objects.exclude(problem="")}
    assert problem.startswith("HTTP_UNAVAILABLE: ")
    assert Notice.objects.get(subject="assets[0]").told_at is None

    hook.url = f"{partner.address}/take"
    hook.save()
    later(MINUTE)
    sending.send_due()
    sending.send_due()
    first, again, new = bodies(partner)
    assert first["id"] == again["id"] != new["id"]
    assert [one["subject"] for one in new["notices"]] == ["orders[0]"]
    assert not Notice.objects.filter(told_at__isnull=True).exists()


def test_who_dies_between_decision_and_answer_leaves_it_to_the_next_under_the_same_id(
    partner: HttpPartner,
) -> None:
    hook = a_webhook(partner)
    a_rule(recipients=["hook"])
    # Decided, and dead before anything was sent.
    book.settle([BLOCKED], KINDS, send=lambda: None)
    # Sent, and dead before that was written down.
    batch = sending.take(hook.pk)
    assert batch is not None
    sending.send_due()
    assert partner.requests == [], "another may still be sending it"
    later(sending.LEASE)
    sending.send_due()
    assert [body["id"] for body in bodies(partner)] == [str(batch.message)]
    sending.send_due()
    assert len(partner.requests) == 1


def test_an_end_is_told_though_the_beginning_was_being_sent_meanwhile(partner: HttpPartner) -> None:
    hook = a_webhook(partner)
    a_rule(recipients=["hook"])
    book.settle([BLOCKED], KINDS, send=lambda: None)
    batch = sending.take(hook.pk)
    assert batch is not None
    book.settle([], KINDS, send=lambda: None)
    sending.settle(batch)
    assert Notice.objects.get().told_at is None, "the end is still to be told"
    sending.send_due()
    assert [one["event"] for one in bodies(partner)[0]["notices"]] == ["over"]


@pytest.mark.django_db(transaction=True)
def test_a_receiver_that_never_answers_holds_up_nobody(
    partner: HttpPartner, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("crontasks.notices.ways.TOTAL_SECONDS", 3.0)
    a_webhook(partner, "/hang")
    a_recipient("other", way="webhook", url=f"{partner.address}/take")
    a_rule(recipients=["hook", "other"])
    courier = Courier()
    book.settle([BLOCKED], KINDS, courier.wake)
    assert courier.is_busy, "it has not waited for the one that hangs"
    _until(lambda: NoticeDelivery.objects.filter(sent_at__isnull=False).count() == 1)
    _until(lambda: NoticeDelivery.objects.exclude(problem="").count() == 1)
    assert "HTTP_NO_ANSWER" in NoticeDelivery.objects.exclude(problem="").get().problem
    courier.wake()
    assert len(partner.requests) == 2, "it is not asked again before its pause is over"
    _until(lambda: not courier.is_busy)


def _until(is_so: Any, seconds: float = 60) -> None:
    ends = time.monotonic() + seconds
    while not is_so():
        assert time.monotonic() < ends
        time.sleep(0.02)


def test_a_webhook_in_a_private_network_has_to_be_permitted(partner: HttpPartner) -> None:
    hook = a_webhook(partner, private_network=False)
    refused = sending.send_test(hook)
    label = RecipientForm.Meta.labels["private_network"]
    assert "ADDRESS_REFUSED" in refused
    assert label in refused, "the switch is the recipient's"
    assert "endpoint" not in refused
    hook.private_network = True
    assert sending.send_test(hook) == ""
    [body] = bodies(partner)
    assert (body["is_test"], body["notices"]) == (True, [])


def storm(count: int) -> list[Condition]:
    return [Condition(NoticeKind.BLOCKED, f"q-{n}[0]", "HEAD_HELD: x") for n in range(count)]


def test_a_storm_is_one_message_a_minute_and_so_is_its_end(partner: HttpPartner) -> None:
    a_webhook(partner)
    a_recipient("team", addresses=["team@example.org"])
    a_rule(recipients=["hook", "team"])
    look(*storm(100))
    look(*storm(200))
    look(*storm(300))
    assert [body["count"] for body in bodies(partner)] == [100]
    assert subjects() == ["100 notices: Queue blocked (100)"]
    assert len(mail.outbox[0].body) < 10_000
    later(MINUTE)
    look(*storm(300))
    assert [body["count"] for body in bodies(partner)] == [100, 200]
    later(MINUTE)
    look()
    assert [body["count"] for body in bodies(partner)] == [100, 200, 300]
    assert len(mail.outbox) == 3


def test_a_storm_of_twice_the_size_takes_as_many_statements() -> None:
    def statements(count: int) -> int:
        with CaptureQueriesContext(connection) as captured:
            look(*storm(count))
            look()
        Notice.objects.all().delete()
        return len(captured)

    statements(10)
    assert statements(100) == statements(200) < 72


def test_few_notices_after_each_other_are_told_at_once_up_to_five_a_minute() -> None:
    for number in range(1, 9):
        look(*storm(number))
    assert len(mail.outbox) == 5
    later(MINUTE)
    look(*storm(8))
    assert subjects()[-1] == "3 notices: Queue blocked (3)"


def test_reminders_come_until_somebody_acknowledges_it() -> None:
    a_rule(repeat_seconds=3_600)
    look(BLOCKED)
    later(59 * MINUTE)
    look(BLOCKED)
    assert len(mail.outbox) == 1
    later(MINUTE)
    look(BLOCKED)
    look(BLOCKED)
    assert subjects() == ["Queue blocked: assets[0]", "Still: Queue blocked: assets[0]"]

    assert actions.acknowledge(Notice.objects.get().pk, ADA)
    assert not actions.acknowledge(Notice.objects.get().pk, Author("otto"))
    later(120 * MINUTE)
    look(BLOCKED)
    assert len(mail.outbox) == 2
    notice = Notice.objects.get()
    assert (notice.acknowledged_by, notice.note) == ("ada", "I am on it")
    change = ConfigurationChange.objects.get(kind="notice")
    assert (change.actor, change.after) == ("ada", {"acknowledged": True})
    look()
    assert subjects()[-1] == "Over: Queue blocked: assets[0]"


def test_a_snoozed_notice_comes_again_if_it_lasts_and_its_end_at_once() -> None:
    look(BLOCKED)
    notice = Notice.objects.get()
    actions.snooze(notice.pk, database_time() + 30 * MINUTE, ADA)
    later(29 * MINUTE)
    look(BLOCKED)
    assert len(mail.outbox) == 1
    later(MINUTE)
    look(BLOCKED)
    assert subjects()[-1] == "Still: Queue blocked: assets[0]"
    actions.snooze(notice.pk, database_time() + 30 * MINUTE, ADA)
    look()
    assert subjects()[-1] == "Over: Queue blocked: assets[0]"


def test_taking_back_an_acknowledgement_tells_people_again() -> None:
    look(BLOCKED)
    number = Notice.objects.get().pk
    assert not actions.take_back(number, ADA)
    actions.acknowledge(number, ADA)
    assert actions.take_back(number, ADA)
    look(BLOCKED)
    assert subjects()[-1] == "Still: Queue blocked: assets[0]"


def test_what_is_over_cannot_be_acknowledged() -> None:
    look(BLOCKED)
    look()
    with pytest.raises(NoticeOverError, match="is over"):
        actions.acknowledge(Notice.objects.get().pk, ADA)


def test_quiet_hours_hold_back_what_is_not_urgent() -> None:
    rule = a_rule(quiet_hours="mon-sun 00:00-24:00")
    urgent = Condition(NoticeKind.EXPIRING, "assets", "soon")
    look(BLOCKED, urgent)
    assert subjects() == ["Messages are about to expire unread: assets"]
    look(urgent)
    assert len(mail.outbox) == 1, "what was over before it was told is not told"
    look(BLOCKED, urgent)
    rule.quiet_hours = "none"
    rule.save()
    look(BLOCKED, urgent)
    assert subjects()[1:] == ["Queue blocked: assets[0]"]


def test_what_lasts_too_short_is_nobodys_message() -> None:
    a_rule(kind="BLOCKED", after_seconds=600)
    look(BLOCKED)
    later(9 * MINUTE)
    look(BLOCKED)
    look()
    assert mail.outbox == []
    look(BLOCKED)
    later(10 * MINUTE)
    look(BLOCKED)
    assert len(mail.outbox) == 1


def test_a_rule_of_a_system_tells_its_own_people(caplog: pytest.LogCaptureFixture) -> None:
    system = ExternalSystem.objects.create(name="eam")
    a_queue_row(name="assets", system=system)
    a_queue_row(name="orders")
    a_recipient("team", addresses=["team@example.org"])
    rule = a_rule(system=system, recipients=["team"])
    look(BLOCKED, Condition(NoticeKind.BLOCKED, "orders[0]", "x"))
    told = {message.to[0]: message.subject for message in mail.outbox}
    assert told == {
        "team@example.org": "[sluice] Queue blocked: assets[0]",
        "ops@example.org": "[sluice] Queue blocked: orders[0]",
    }
    look()
    mail.outbox.clear()
    rule.enabled = False
    rule.save()
    look(BLOCKED)
    assert mail.outbox == []
    notice = Notice.objects.get(closed_at=None)
    assert notice.told_at is not None, "the log has it"
    assert [r.subject for r in caplog.records if r.getMessage() == "notice"][-1] == "assets[0]"


def test_a_recipient_that_is_switched_off_gets_nothing(partner: HttpPartner) -> None:
    hook = a_webhook(partner)
    a_rule(recipients=["hook"])
    book.settle([BLOCKED], KINDS, send=lambda: None)
    hook.enabled = False
    hook.save()
    sending.send_due()
    look(BLOCKED, Condition(NoticeKind.BLOCKED, "orders[0]", "x"))
    assert partner.requests == []
    assert not NoticeDelivery.objects.filter(Q(next_at__isnull=False) | Q(sent_at__isnull=False))
