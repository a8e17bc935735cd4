"""Notices in the console: what is open, who sees to it; rules and recipients, tried and set up."""

from collections.abc import Iterator
from datetime import timedelta
from typing import Any

import pytest
from django.core import mail
from django.db import connection
from django.test import Client
from django.test.utils import CaptureQueriesContext
from django.urls import reverse

from console.layout.access import Right
from crontasks.models import (
    CronInstance,
    LagSample,
    Notice,
    NoticeDelivery,
    NoticeRecipient,
    NoticeRule,
)
from integration.models import ConfigurationChange, ExternalSystem
from integration.store.sessions import database_time
from tests.support.http_api import problem
from tests.support.http_partner import HttpPartner
from tests.support.operator_api import a_program, facts
from tests.support.rows import a_place, a_queue_row
from tests.support.set_up import limited_to, logged_in

pytestmark = [pytest.mark.servers, pytest.mark.django_db]
LIST = reverse("notices")
ADDRESS = "https://chat.example/T0/s3cret-word"


@pytest.fixture
def client() -> Client:
    return logged_in(name="anna")


@pytest.fixture
def partner() -> Iterator[HttpPartner]:
    made = HttpPartner()
    yield made
    made.close()


def a_notice(kind: str = "BLOCKED", subject: str = "assets[0]", **fields: Any) -> Notice:
    values = {"opened_at": database_time(), "text": "HEAD_HELD: `Bad` date.", **fields}
    return Notice.objects.create(kind=kind, subject=subject, **values)


class TestList:
    def test_urgent_ones_stand_first_with_who_was_told(self, client: Client) -> None:
        hook = NoticeRecipient.objects.create(name="hook", way="webhook", url=ADDRESS)
        now = database_time()
        blocked = a_notice(opened_at=now - timedelta(hours=2), decided_at=now)
        a_notice("EXPIRING", "orders", opened_at=now - timedelta(days=1))
        deliveries = blocked.deliveries
        deliveries.create(event="BEGUN", created_at=now, sent_at=now)
        deliveries.create(
            event="BEGUN", created_at=now, recipient=hook, next_at=now, problem="HTTP_FAILED: 500"
        )
        page = client.get(LIST).text
        assert page.index("about to expire unread") < page.index("Queue blocked</strong>")
        for word in ("SLUICE_NOTIFY_EMAILS", "not", "sent yet", "hook", "HTTP_FAILED: 500", "Bad"):
            assert word in page
        for word in ("NO_RELAY", "100 messages that failed within 10 min", "no default"):
            assert word in page
        only = client.get(LIST, {"kind": "EXPIRING"}).text
        assert "assets[0]" not in only
        assert client.get(LIST, {"kind": "NONSENSE"}).status_code == 200

    def test_ten_thousand_are_one_page_in_as_many_statements(self, client: Client) -> None:
        def statements() -> int:
            with CaptureQueriesContext(connection) as captured:
                assert client.get(LIST).status_code == 200
            return len(captured)

        a_notice()
        few = statements()
        now = database_time()
        Notice.objects.bulk_create(
            Notice(kind="BLOCKED", subject=f"q{n}[0]", text="x", opened_at=now)
            for n in range(1_000)
        )
        assert statements() == few
        assert "And 901 more." in client.get(LIST).text

    def test_people_with_a_limit_see_those_about_their_queues(self) -> None:
        mine = ExternalSystem.objects.create(name="mine")
        a_notice(subject="ours[0]", queue=a_queue_row(name="ours", system=mine))
        theirs = a_notice(subject="theirs[0]", queue=a_queue_row(name="theirs"))
        a_notice("NO_BEAT", "sluice", text="Of the whole installation.")
        client = limited_to(mine)
        page = client.get(LIST).text
        assert "ours[0]" in page
        assert "theirs[0]" not in page
        assert "Of the whole installation." not in page
        address = reverse("acknowledge-notice", args=[theirs.pk])
        assert client.post(address).status_code == 404


class TestAttention:
    def test_it_is_acknowledged_once_with_a_note_and_taken_back(self, client: Client) -> None:
        notice = a_notice()
        address = reverse("acknowledge-notice", args=[notice.pk])
        answer = client.post(address, {"reason": "I call them"}, follow=True)
        assert "Acknowledged." in answer.text
        assert "I call them" in answer.text
        assert "already" in client.post(address, follow=True).text
        notice.refresh_from_db()
        assert notice.acknowledged_by == "anna"
        assert ConfigurationChange.objects.get(kind="notice").reason == "I call them"
        client.post(reverse("take-back-notice", args=[notice.pk]))
        notice.refresh_from_db()
        assert (notice.acknowledged_at, notice.note) == (None, "")

    def test_it_is_snoozed_for_so_long(self, client: Client) -> None:
        notice = a_notice()
        address = reverse("snooze-notice", args=[notice.pk])
        for mistake in ("", "soon", "10 s", "31 d"):
            answer = client.post(address, {"length": mistake})
            assert answer.status_code == 422
            assert "Nothing was changed" in answer.text
        client.post(address, {"length": "2 h", "reason": "planned"})
        notice.refresh_from_db()
        assert notice.snoozed_until is not None
        left = notice.snoozed_until - database_time()
        assert timedelta(minutes=119) < left <= timedelta(hours=2)
        assert "snoozed by anna" in client.get(LIST).text

    def test_what_is_over_is_an_answer(self, client: Client) -> None:
        notice = a_notice(closed_at=database_time())
        answer = client.post(reverse("acknowledge-notice", args=[notice.pk]))
        assert (answer.status_code, "is over" in answer.text) == (409, True)

    def test_a_viewer_is_told_which_right_is_missing(self) -> None:
        notice = a_notice()
        client = logged_in("Viewers")
        assert Right.OPERATE.missing in client.get(LIST).text
        address = reverse("acknowledge-notice", args=[notice.pk])
        assert client.post(address).status_code == 403

    def test_programs_do_so_too(self) -> None:
        notice, program = a_notice(), a_program("Operators")
        [line] = facts(program.get("/notices"))["open"]
        assert (line["kind"], line["subject"], line["told"]) == ("BLOCKED", "assets[0]", [])
        one = f"/notices/{notice.pk}"
        done = facts(program.post(f"{one}/acknowledgements", {"reason": "I call them"}))
        assert (done["note"], done["acknowledged_by"] != "") == ("I call them", True)
        done = facts(program.post(f"{one}/snoozes", {"seconds": 600}))
        assert (done["acknowledged_at"], done["snoozed_until"] is None) == (None, False)
        assert facts(program.post(f"{one}/withdrawals"))["snoozed_until"] is None
        assert facts(program.get(one)) == facts(program.get("/notices"))["open"][0]
        problem(program.post(f"{one}/snoozes", {"seconds": 5}), 422, "BAD_INPUT")
        problem(program.get("/notices", kind="NONSENSE"), 422, "BAD_INPUT")
        problem(program.get(f"/notices/{2**70}"), 404, "NOT_THERE")
        Notice.objects.update(closed_at=database_time())
        problem(program.post(f"{one}/acknowledgements"), 409, "NOTICE_OVER")


class TestRules:
    def entered(self, **fields: Any) -> dict[str, Any]:
        return {"name": "lag", "enabled": "on", "kind": "LAG", "time_zone": "UTC", **fields}

    def test_a_rule_is_tried_before_it_is_saved(self, client: Client) -> None:
        queue = a_queue_row(name="assets")
        a_place(queue)
        now = database_time()
        for at in (now, now - timedelta(hours=5)):
            LagSample.objects.create(queue=queue, at=at, lag=500)
            LagSample.objects.create(queue=None, at=at)
        entered = self.entered(at_least="500")
        answer = client.post(reverse("notice-rule-new"), {**entered, "show": "1"})
        assert "It would have been noticed <strong>2 times</strong>" in " ".join(
            answer.text.split()
        )
        assert "Less than seven days" in answer.text
        assert not NoticeRule.objects.exists()
        answer = client.post(reverse("notice-rule-new"), entered)
        assert answer.status_code == 303
        page = client.get(answer["Location"]).text
        assert "at least 500" in page
        assert "2 times" in page
        assert "at least 500" in client.get(reverse("notice-rules")).text
        [change] = ConfigurationChange.objects.filter(kind="noticerule")
        assert change.after["at_least"] == 500

    @pytest.mark.parametrize(
        ("fields", "mistaken"),
        [
            ({"longer_than_seconds": "5 min"}, "longer_than_seconds"),
            ({"window_seconds": "5 min"}, "window_seconds"),
            ({"code": "X"}, "code"),
            ({"kind": "", "at_least": "5"}, "at_least"),
            ({"quiet_hours": "late"}, "quiet_hours"),
            ({"quiet_hours": "22:00-06:00", "time_zone": "Mars"}, "quiet_hours"),
            ({"repeat_seconds": "10 s"}, "repeat_seconds"),
            ({"recipients": ["nobody"]}, "recipients"),
            ({"at_least": "0"}, "at_least"),
        ],
    )
    def test_what_makes_no_sense_is_refused_beside_its_field(
        self, client: Client, fields: dict[str, Any], mistaken: str
    ) -> None:
        answer = client.post(reverse("notice-rule-new"), self.entered(**fields))
        assert answer.status_code == 422
        assert list(answer.context["form"].errors) == [mistaken]

    def test_one_scope_has_one_rule_of_a_kind_and_no_two_scopes(self, client: Client) -> None:
        queue = a_queue_row(system=ExternalSystem.objects.create(name="eam"))
        new = reverse("notice-rule-new")
        assert client.post(new, self.entered(queue=queue.pk)).status_code == 303
        answer = client.post(new, self.entered(name="other", queue=queue.pk))
        assert "There is a rule for this kind and scope already." in answer.text
        both = self.entered(name="other", queue=queue.pk, system=queue.system_id)
        assert "not both" in client.post(new, both).text
        whole = self.entered(name="other", kind="NO_BEAT", queue=queue.pk)
        assert list(client.post(new, whole).context["form"].errors) == ["queue"]

    def test_people_with_a_limit_see_rules_of_theirs_and_change_none(self) -> None:
        mine = ExternalSystem.objects.create(name="mine")
        rule = NoticeRule.objects.create(name="mine", system=mine)
        NoticeRule.objects.create(name="everybodys")
        client = limited_to(mine)
        page = client.get(reverse("notice-rules")).text
        assert "everybodys" not in page
        address = reverse("notice-rule-change", args=[rule.pk])
        assert client.post(address, self.entered()).status_code == 403


class TestRecipients:
    def test_an_address_is_stored_encrypted_and_never_shown(self, client: Client) -> None:
        entered = {"name": "chat", "enabled": "on", "way": "slack", "url": ADDRESS}
        answer = client.post(reverse("notice-recipient-new"), entered)
        assert answer.status_code == 303
        chat = NoticeRecipient.objects.get()
        assert chat.url == ADDRESS
        with connection.cursor() as cursor:
            cursor.execute("SELECT url FROM crontasks_noticerecipient")
            assert "s3cret-word" not in cursor.fetchone()[0]
        change = reverse("notice-recipient-change", args=[chat.pk])
        for page in (answer["Location"], change, reverse("notice-recipients"), reverse("changes")):
            assert "s3cret-word" not in client.get(page).text
        assert "chat.example" in client.get(answer["Location"]).text

    @pytest.mark.parametrize(
        ("fields", "mistaken"),
        [
            ({"way": "mail"}, "addresses"),
            ({"way": "mail", "addresses": "ops@example.org\nnobody"}, "addresses"),
            ({"way": "webhook"}, "url"),
            ({"way": "webhook", "url": "ftp://x.example"}, "url"),
            ({"way": "slack", "url": "https://x.example/{key}"}, "url"),
        ],
    )
    def test_what_cannot_be_told_is_refused(
        self, client: Client, fields: dict[str, Any], mistaken: str
    ) -> None:
        answer = client.post(reverse("notice-recipient-new"), {"name": "x", **fields})
        assert answer.status_code == 422
        assert list(answer.context["form"].errors) == [mistaken]

    def test_a_test_says_how_it_was_answered(self, client: Client, partner: HttpPartner) -> None:
        hook = NoticeRecipient.objects.create(
            name="hook", way="webhook", url=f"{partner.address}/take", private_network=True
        )
        address = reverse("notice-recipient-test", args=[hook.pk])
        assert "A test was sent to hook." in client.post(address, follow=True).text
        assert len(partner.requests) == 1
        NoticeRecipient.objects.update(private_network=False)
        assert "ADDRESS_REFUSED" in client.post(address, follow=True).text
        team = NoticeRecipient.objects.create(name="team", addresses=["team@example.org"])
        client.post(reverse("notice-recipient-test", args=[team.pk]))
        assert mail.outbox[0].to == ["team@example.org"]
        assert logged_in("Operators").post(address).status_code == 403

    def test_one_that_a_rule_names_stays(self, client: Client) -> None:
        team = NoticeRecipient.objects.create(name="team", addresses=["team@example.org"])
        rule = NoticeRule.objects.create(name="all", recipients=["team"])
        page = client.get(reverse("notice-recipient-delete", args=[team.pk])).text
        assert reverse("notice-rule", args=[rule.pk]) in page
        address = reverse("notice-recipient-delete", args=[team.pk])
        assert client.post(address, {"reason": "x"}).status_code == 409
        entered = {"name": "crew", "way": "mail", "addresses": "team@example.org"}
        answer = client.post(reverse("notice-recipient-change", args=[team.pk]), entered)
        assert "name" in answer.context["form"].errors
        rule.delete()
        assert client.post(address, {"reason": "x"}).status_code == 303
        assert not NoticeDelivery.objects.exists()


def test_a_schedule_that_failed_stands_on_the_overview(client: Client) -> None:
    system = ExternalSystem.objects.create(name="mine")
    a_place(a_queue_row(system=system))
    instance = CronInstance.objects.get(task="errors_cleanup")
    a_notice("CRON_FAILED", instance.name, text="Its last run failed: X. Its page has it.")
    page = client.get(reverse("overview")).text
    assert f"{instance.name} failed" in page
    assert reverse("cron-instance", args=[instance.pk]) in page
    assert f"{instance.name} failed" not in limited_to(system).get(reverse("overview")).text
