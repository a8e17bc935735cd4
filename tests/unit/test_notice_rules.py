"""Which rule holds for a notice, and when people are left alone. Without a database."""

from datetime import UTC, datetime
from typing import Any

import pytest

from crontasks.models import NoticeRule
from crontasks.models.notice import NoticeKind
from crontasks.models.notice_kinds import FACTS
from crontasks.notices.condition import code_of, queue_of
from crontasks.notices.rules import RuleBook
from crontasks.schedule.quiet import quiet_hours
from integration.models import Queue

pytestmark = pytest.mark.fast
EAM = 7
BLOCKED, LAG, FAILURES = NoticeKind.BLOCKED, NoticeKind.LAG, NoticeKind.FAILURES


def a_rule(name: str, queue: str = "", **fields: Any) -> NoticeRule:
    if queue:
        fields["queue"] = Queue(pk=1, name=queue)
    return NoticeRule(name=name, **fields)


def book(*rules: NoticeRule) -> RuleBook:
    return RuleBook(rules, {"assets": EAM, "orders": EAM})


def test_every_kind_has_facts_and_the_defaults_hold_without_a_rule():
    assert set(FACTS) == set(NoticeKind)
    for kind in NoticeKind:
        setting = book().of(kind)
        assert (setting.is_on, setting.recipients, setting.repeat_seconds) == (True, (), 0)
        assert setting.at_least == FACTS[kind].count
    assert book().of(LAG).at_least is None, "how many are too many is for a rule to say"
    assert book().of(NoticeKind.OUTAGE, "provider plant").after_seconds == 30


def test_the_narrowest_rule_that_says_something_says_it():
    rules = book(
        a_rule("all", repeat_seconds=3_600, recipients=["ops"]),
        a_rule("all-lag", kind="LAG", at_least=1_000),
        a_rule("eam", system_id=EAM, recipients=["eam-team"]),
        a_rule("assets-lag", queue="assets", kind="LAG", at_least=50),
    )
    assets, orders, others = (rules.of(LAG, queue=name) for name in ("assets", "orders", "other"))
    assert (assets.at_least, orders.at_least, others.at_least) == (50, 1_000, 1_000)
    assert (assets.recipients, others.recipients) == (("eam-team",), ("ops",))
    assert {one.repeat_seconds for one in (assets, orders, others)} == {3_600}
    assert assets.rules == ("assets-lag", "eam", "all-lag", "all")
    assert rules.of(BLOCKED, queue="assets").recipients == ("eam-team",)
    assert rules.most_count(LAG) == 1_000


def test_a_rule_that_is_off_silences_its_scope_and_a_narrower_one_speaks_again():
    rules = book(
        a_rule("eam", system_id=EAM, enabled=False),
        a_rule("assets", queue="assets"),
    )
    assert not rules.of(BLOCKED, queue="orders").is_on
    assert rules.of(BLOCKED, queue="assets").is_on
    assert rules.of(BLOCKED, queue="other").is_on


def test_a_rule_about_one_cause_counts_that_alone():
    rules = book(
        a_rule("refused", kind="FAILURES", code="HTTP_REFUSED", at_least=3),
        a_rule("assets", queue="assets", kind="FAILURES", at_least=900),
    )
    assert rules.of(FAILURES, queue="assets").at_least == 900
    assert rules.of(FAILURES, queue="assets", code="HTTP_REFUSED").at_least == 3
    assert rules.of(FAILURES, queue="assets", code="OTHER").at_least is None
    assert rules.codes() == {"HTTP_REFUSED"}


@pytest.mark.parametrize(
    ("kind", "subject", "queue", "code"),
    [
        (BLOCKED, "assets[3]", "assets", ""),
        (BLOCKED, "relay of plant", "", ""),
        (NoticeKind.OUTAGE, "provider plant", "", ""),
        (NoticeKind.NO_RELAY, "plant", "", ""),
        (NoticeKind.CRON_FAILED, "assets", "", ""),
        (FAILURES, "assets", "assets", ""),
        (FAILURES, "assets HTTP_REFUSED", "", "HTTP_REFUSED"),
    ],
)
def test_what_a_subject_names(kind: NoticeKind, subject: str, queue: str, code: str):
    assert (queue_of(kind, subject), code_of(kind, subject)) == (queue, code)


def quiet(text: str, at: str, zone: str = "UTC") -> bool:
    return quiet_hours(text, zone).holds(datetime.fromisoformat(at).replace(tzinfo=UTC))


@pytest.mark.parametrize(
    ("text", "at", "is_quiet"),
    [
        ("22:00-06:00", "2026-03-04T21:59", False),
        ("22:00-06:00", "2026-03-04T22:00", True),
        ("22:00-06:00", "2026-03-05T05:59", True),
        ("22:00-06:00", "2026-03-05T06:00", False),
        # The night that begins on Friday belongs to Friday.
        ("fri 22:00-06:00", "2026-03-07T05:00", True),
        ("fri 22:00-06:00", "2026-03-06T05:00", False),
        ("sat-sun 00:00-24:00", "2026-03-08T23:59", True),
        ("sat-sun 00:00-24:00", "2026-03-09T00:00", False),
        ("fri-mon 00:00-24:00", "2026-03-05T12:00", False),
        ("12:00-13:00, 15:00-16:00", "2026-03-04T15:30", True),
        ("none", "2026-03-04T15:30", False),
    ],
)
def test_quiet_hours(text: str, at: str, is_quiet: bool):
    assert quiet(text, at) is is_quiet


def test_quiet_hours_follow_the_clocks_of_their_zone():
    # 06:30 in Berlin, before and after its clocks go forward.
    assert not quiet("22:00-06:00", "2026-03-28T05:30", "Europe/Berlin")
    assert not quiet("22:00-06:00", "2026-03-29T04:30", "Europe/Berlin")
    assert quiet("22:00-06:00", "2026-03-28T04:30", "Europe/Berlin")


@pytest.mark.parametrize(
    "text",
    ["", "22-6", "25:00-06:00", "22:60-06:00", "06:00-06:00", "24:00-06:00", "foo 08:00-09:00"],
)
def test_what_is_no_span_is_refused_with_a_sentence(text: str):
    with pytest.raises(ValueError, match=r"\.$"):
        quiet_hours(text, "UTC")


def test_what_is_urgent_comes_in_quiet_hours_unless_a_rule_says_otherwise():
    night = datetime(2026, 3, 4, 23, tzinfo=UTC)
    hours = {"quiet_hours": "22:00-06:00", "time_zone": "UTC"}
    rules = book(a_rule("nights", **hours))
    assert rules.of(BLOCKED).is_quiet(night)
    assert not rules.of(NoticeKind.EXPIRING).is_quiet(night)
    rules = book(a_rule("nights", **hours, quiet_for_urgent=True))
    assert rules.of(NoticeKind.EXPIRING).is_quiet(night)
    rules = book(a_rule("nights", **hours), a_rule("assets", queue="assets", quiet_hours="none"))
    assert not rules.of(BLOCKED, queue="assets").is_quiet(night)
