"""What is sent again, what is given up, and who is told of an end that nobody confirmed hearing."""

import socket
import threading
from collections.abc import Iterator
from datetime import timedelta
from typing import Any

import pytest
from django.core.mail import EmailMessage

from crontasks.models import CronInstance, Notice, NoticeDelivery, NoticeRecipient
from crontasks.models.notice import ABOUT_PROVIDERS, PROVIDER, NoticeKind
from crontasks.notices import book, selectors, sending
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


def test_who_missed_the_beginning_for_a_day_is_reminded(partner: HttpPartner) -> None:
    hook = a_webhook(partner, "/status-503")
    a_rule(recipients=["hook"], repeat_seconds=3_600)
    look(BLOCKED)
    later(timedelta(days=1, minutes=1))
    sending.send_due()
    assert NoticeDelivery.objects.get().next_at is None
    now_at(hook, partner, "/take")
    look(BLOCKED)
    sending.send_due()
    assert [one["event"] for one in bodies(partner)[-1]["notices"]] == ["again"]


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


@pytest.mark.parametrize("refuses_later", [False, True])
def test_who_may_have_heard_of_a_beginning_hears_of_its_end(
    partner: HttpPartner, monkeypatch: pytest.MonkeyPatch, refuses_later: bool
) -> None:
    monkeypatch.setattr("crontasks.notices.ways.TOTAL_SECONDS", 0.5)
    hook = a_webhook(partner, "/hang")
    a_rule(recipients=["hook"])
    look(BLOCKED)
    assert "HTTP_NO_ANSWER" in NoticeDelivery.objects.get().problem
    monkeypatch.setattr("crontasks.notices.ways.TOTAL_SECONDS", 10.0)
    if refuses_later:
        now_at(hook, partner, "/status-503")
        later(timedelta(minutes=1))
        look(BLOCKED)
    look()
    now_at(hook, partner, "/take")
    later(timedelta(minutes=1))
    sending.send_due()
    sending.send_due()
    events = [body["notices"][0]["event"] for body in bodies(partner)]
    assert events == ["begun"] * (3 if refuses_later else 2) + ["over"]


def test_who_may_have_heard_of_what_was_given_up_hears_of_its_end(
    partner: HttpPartner, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("crontasks.notices.ways.TOTAL_SECONDS", 0.5)
    hook = a_webhook(partner, "/hang")
    a_rule(recipients=["hook"])
    look(BLOCKED)
    monkeypatch.setattr("crontasks.notices.ways.TOTAL_SECONDS", 10.0)
    now_at(hook, partner, "/status-503")
    later(timedelta(days=1, minutes=1))
    sending.send_due()
    assert NoticeDelivery.objects.get().next_at is None, "given up"
    now_at(hook, partner, "/take")
    look()
    assert bodies(partner)[-1]["notices"][0]["event"] == "over"


def test_who_refused_a_beginning_hears_nothing_of_its_end(partner: HttpPartner) -> None:
    hook = a_webhook(partner, "/status-503")
    a_rule(recipients=["hook"])
    look(BLOCKED)
    look()
    now_at(hook, partner, "/take")
    later(timedelta(minutes=1))
    sending.send_due()
    assert len(partner.requests) == 1
    assert not NoticeDelivery.objects.exists()


class MailServer:
    """Takes a mail's envelope and content, and answers the content as it is told to."""

    def __init__(self, after_content: bytes) -> None:
        self._after_content = after_content
        self._listener = socket.create_server(("127.0.0.1", 0))
        self.port: int = self._listener.getsockname()[1]
        threading.Thread(target=self._serve, daemon=True).start()

    def _serve(self) -> None:
        taken, _ = self._listener.accept()
        with self._listener, taken, taken.makefile("rwb", buffering=0) as stream:
            stream.write(b"220 here\r\n")
            while line := stream.readline():
                if not line.upper().startswith(b"DATA"):
                    stream.write(b"250 ok\r\n")
                    continue
                stream.write(b"354 go on\r\n")
                while stream.readline() not in {b".\r\n", b""}:
                    pass
                if not self._after_content:
                    return
                stream.write(self._after_content)


@pytest.mark.parametrize(
    ("after_content", "is_told"),
    [(b"", True), (b"451 try again\r\n", False), (None, False)],
    ids=["no answer", "refused", "nobody there"],
)
def test_of_a_mail_it_is_known_whether_it_may_have_arrived(
    settings: Any, mailoutbox: list[EmailMessage], after_content: bytes | None, is_told: bool
) -> None:
    settings.EMAIL_BACKEND = "django.core.mail.backends.smtp.EmailBackend"
    settings.SLUICE_NOTIFY_EMAILS = ["ops@example.org"]
    settings.EMAIL_HOST, settings.EMAIL_PORT = "127.0.0.1", 1
    if after_content is not None:
        settings.EMAIL_PORT = MailServer(after_content).port
    look(BLOCKED)
    assert "The mail was not taken" in NoticeDelivery.objects.get().problem
    settings.EMAIL_BACKEND = "django.core.mail.backends.locmem.EmailBackend"
    look()
    later(timedelta(minutes=1))
    sending.send_due()
    sending.send_due()
    subjects = [one.subject.partition("] ")[2] for one in mailoutbox]
    told = ["Queue blocked: assets[0]", "Over: Queue blocked: assets[0]"]
    assert subjects == (told if is_told else [])


def test_without_a_mail_server_nobody_counts_as_told(settings: Any) -> None:
    settings.EMAIL_BACKEND = "django.core.mail.backends.console.EmailBackend"
    settings.SLUICE_NOTIFY_EMAILS = ["ops@example.org"]
    look(BLOCKED)
    unsent = NoticeDelivery.objects.get()
    assert "SLUICE_EMAIL_URL" in unsent.problem
    assert unsent.sent_at is None


def test_a_notice_about_which_nobody_asks_any_more_is_closed_in_silence(
    partner: HttpPartner,
) -> None:
    a_webhook(partner, "/take")
    a_rule(recipients=["hook"], after_seconds=0)
    kinds = {NoticeKind.OUTAGE}
    book.keep([Condition(NoticeKind.OUTAGE, f"{PROVIDER}main", "Away.")], kinds, ABOUT_PROVIDERS)
    book.settle([], kinds)
    told = len(partner.requests)
    assert Notice.objects.get().closed_at is None
    CronInstance.objects.filter(task="lag_monitor").update(active=False)
    book.settle([], kinds)
    assert Notice.objects.get().closed_at is not None
    assert (told, len(partner.requests)) == (1, 1), "that it is over is not known"
