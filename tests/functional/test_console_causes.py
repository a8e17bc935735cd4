"""Failures in groups: what belongs together, what a group shows, and where it leads."""

import re
from datetime import timedelta
from html import unescape

import pytest
from django.contrib.auth.models import User
from django.test import Client
from django.urls import reverse
from django.utils import timezone

from console.failures.trends import trend_of
from console.layout.access import Right
from console.models import Limit
from integration.models import ExternalSystem, MessageError
from integration.selectors.failures import causes as selector
from integration.selectors.failures.cause_ids import cause_id
from integration.selectors.failures.causes import By, causes
from integration.selectors.failures.failures import FailureFilter
from integration.selectors.scope import EVERYTHING, Scope
from tests.support.rows import a_held, a_person, a_queue_row

pytestmark = [pytest.mark.servers, pytest.mark.django_db]


@pytest.fixture
def client() -> Client:
    client = Client()
    client.force_login(a_person("Editors", "edda"))
    return client


def limited_to(system: ExternalSystem) -> tuple[User, Client]:
    person = a_person("Editors")
    limit = Limit.objects.create(person=person)
    limit.systems.add(system)
    client = Client()
    client.force_login(person)
    return person, client


class TestGroups:
    def test_one_code_text_and_service_are_one_group_whatever_the_queue(self) -> None:
        eam, lab = (ExternalSystem.objects.create(name=name) for name in ("EAM", "LAB"))
        first = a_queue_row("continuous", system=eam, name="assets")
        second = a_queue_row("continuous", system=lab, name="orders")
        now = timezone.now()
        a_held(first, 1, text="No item 'A1' at 3.")
        a_held(second, 1, text="No item 'B2' at 4.")
        a_held(first, 2, state="RETRY", not_before=now, first_failed_at=now - timedelta(days=2))
        a_held(first, 3, state="READY")
        a_held(first, 4, interface="OTHER")
        a_held(first, 5, fingerprint="ffff", code="OTHER")
        a_held(first, 6, state="RESOLVED")
        found = causes(FailureFilter(), EVERYTHING)
        assert (found.total, found.has_more) == (6, False)
        group = found.groups[0]
        assert (group.count, group.held, group.retrying, group.released) == (4, 2, 1, 1)
        assert (group.queues, group.systems) == (("assets", "orders"), ("EAM", "LAB"))
        assert group.narrows == {
            "fingerprint": cause_id("0123456789abcdef"),
            "interface": "MXASSETInterface",
            "code": "BAD_VALUE",
        }
        assert now - group.first > timedelta(days=1)
        assert len(found.groups) == 3
        assert "A1" not in group.text, "the values are not part of the sentence"

    @pytest.mark.parametrize(
        ("by", "expected"),
        [
            (By.QUEUE, [("assets", 3), ("orders", 1)]),
            (By.SYSTEM, [("EAM", 3), ("", 1)]),
            (By.SERVICE, [("MXASSETInterface", 3), ("", 1)]),
            (By.CODE, [("BAD_VALUE", 3), ("OTHER", 1)]),
        ],
    )
    def test_regrouping(self, by: By, expected: list[tuple[str, int]]) -> None:
        eam = ExternalSystem.objects.create(name="EAM")
        assets = a_queue_row("continuous", name="assets", system=eam)
        for offset in range(3):
            a_held(assets, offset)
        a_held(a_queue_row("continuous", name="orders"), 9, interface="", code="OTHER")
        found = causes(FailureFilter(), EVERYTHING, by=by)
        shown = [(next(iter(g.narrows.values())).replace("-", ""), g.count) for g in found.groups]
        assert shown == expected

    def test_the_filter_of_a_group_finds_just_its_failures(self, client: Client) -> None:
        queue = a_queue_row("continuous")
        a_held(queue, 1, interface="", fingerprint="")
        a_held(queue, 2)
        page = client.get(reverse("failures")).text
        links = re.findall(r'fw-bold long" href="([^"]+)"', page)
        assert len(links) == 2
        for link in links:
            rows = re.findall(r'name="chosen" value="', client.get(unescape(link)).text)
            assert len(rows) == 1

    def test_the_largest_come_first_and_the_rest_is_said_to_be_there(self) -> None:
        queue = a_queue_row("continuous")
        for offset in range(6):
            a_held(queue, offset, code=f"C{offset // 2}", fingerprint=f"f{offset // 2}")
        a_held(queue, 9, code="C2", fingerprint="f2")
        found = causes(FailureFilter(), EVERYTHING, limit=2)
        assert [group.code for group in found.groups] == ["C2", "C0"]
        assert (found.has_more, found.total) == (True, 7)

    def test_the_hours_count_what_failed_first_in_each(self) -> None:
        queue = a_queue_row("continuous")
        now = timezone.now()
        for offset, hours in enumerate([0.5, 0.6, 5.5, 23.5, 30]):
            a_held(queue, offset, first_failed_at=now - timedelta(hours=hours))
        [group] = causes(FailureFilter(), EVERYTHING).groups
        assert len(group.trend) == 24
        assert (group.trend[-1], group.trend[-6], group.trend[0]) == (2, 1, 1)
        assert sum(group.trend) == 4

    def test_of_very_many_the_hours_are_left_out_and_that_is_said(
        self, client: Client, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        queue = a_queue_row("continuous")
        for offset in range(3):
            a_held(queue, offset)
        monkeypatch.setattr(selector, "TREND_ROWS", 2)
        assert causes(FailureFilter(), EVERYTHING).has_trend is False
        page = client.get(reverse("failures")).text
        assert "to show their trend" in page
        assert "<svg" not in page

    def test_nobody_sees_groups_of_a_system_outside_the_scope(self) -> None:
        eam, lab = (ExternalSystem.objects.create(name=name) for name in ("EAM", "LAB"))
        mine = a_queue_row("continuous", system=eam)
        a_held(mine, 1)
        theirs = a_queue_row("continuous", system=lab)
        a_held(theirs, 1)
        a_held(a_queue_row("continuous"), 1)
        for by in By:
            found = causes(FailureFilter(), Scope(frozenset({eam.pk})), by=by)
            assert found.total == 1
            assert found.groups[0].queues == (mine.name,)
        _, limited = limited_to(eam)
        page = limited.get(reverse("failures")).text
        assert "<strong>1</strong> open failure" in page
        assert theirs.name not in limited.get(reverse("failure-list")).text
        wanted = FailureFilter(queue=theirs.name)
        assert causes(wanted, Scope(frozenset({eam.pk}))).groups == ()


class TestPage:
    def test_it_offers_all_of_a_group_to_the_review(self, client: Client) -> None:
        a_held(a_queue_row("continuous"))
        page = client.get(reverse("failures")).text
        assert f'action="{reverse("review")}"' in page
        query = re.search(r'name="query" value="([^"]+)"', page)
        assert query is not None
        assert f"fingerprint={cause_id('0123456789abcdef')}" in query[1]
        assert 'name="scope" value="matching"' in page
        for verb in ("release", "edit", "delete"):
            assert f'name="verb" value="{verb}"' in page

    def test_a_filter_in_the_address_leads_to_the_list_as_it_always_did(
        self, client: Client
    ) -> None:
        a_held(a_queue_row("continuous"))
        for query in ("state=HOLD", "state=", "queue=x&state=RETRY", "message_id=a%2Fb"):
            answer = client.get(f"{reverse('failures')}?{query}")
            assert answer.status_code == 303
            assert answer["Location"] == f"{reverse('failure-list')}?{query}"

    def test_a_group_of_a_queue_leads_to_the_causes_within(self, client: Client) -> None:
        queue = a_queue_row("continuous", name="assets")
        a_held(queue, 1)
        a_held(a_queue_row("continuous"), 2, code="OTHER", fingerprint="ffff")
        page = client.get(reverse("failures"), {"by": "queue"}).text
        assert "?by=cause&amp;queue=assets" in page
        inside = client.get(reverse("failures"), {"by": "cause", "queue": "assets"}).text
        assert "BAD_VALUE" in inside
        assert ">OTHER<" not in inside
        assert "only queue" in inside

    @pytest.mark.parametrize("by", ["", "nonsense", "cause"])
    def test_an_unknown_grouping_is_by_cause(self, client: Client, by: str) -> None:
        a_held(a_queue_row("continuous"))
        assert "BAD_VALUE" in client.get(reverse("failures"), {"by": by}).text

    def test_a_filter_that_cannot_be_read_is_told_where_its_field_is(self, client: Client) -> None:
        a_held(a_queue_row("continuous"))
        for name, value in (("fingerprint", "0" * 32), ("run", "no-id"), ("state", "GONE")):
            answer = client.get(reverse("failures"), {"by": "cause", name: value}, follow=True)
            [(address, status)] = answer.redirect_chain
            assert (address.split("?")[0], status) == (reverse("failure-list"), 303)
            assert list(answer.context["form"].errors) == [name]

    def test_no_failure_is_good_news_and_nothing_found_is_not(self, client: Client) -> None:
        assert "Good news" in client.get(reverse("failures")).text
        page = client.get(reverse("failures"), {"by": "cause", "queue": "nowhere"})
        assert page.context["lines"] == []
        assert "Good news" not in page.text

    def test_buttons_say_which_right_is_missing(self) -> None:
        a_held(a_queue_row("continuous"))
        client = Client()
        client.force_login(a_person("Viewers"))
        page = client.get(reverse("failures")).text
        assert Right.OPERATE.missing in page
        assert 'value="release" disabled aria-describedby="no-right"' in page

    def test_the_number_of_statements_does_not_grow_with_the_groups(
        self, client: Client, django_assert_max_num_queries: object
    ) -> None:
        for count in (1, 30):
            for n in range(count):
                queue = a_queue_row("continuous")
                a_held(queue, n, code=f"C{n}", fingerprint=f"f{n}")
            # The frame (person, rights, limit, deployment, counts of the menu), five of the page.
            with django_assert_max_num_queries(20):  # type: ignore[operator] # pytest-django's
                assert client.get(reverse("failures")).status_code == 200


def test_a_trend_says_in_words_what_it_draws() -> None:
    hours = [0] * 24
    hours[20], hours[23] = 40, 3
    trend = trend_of(hours)
    assert trend is not None
    assert "43 of them failed for the first time in the last 24 hours" in trend.text
    assert "40, 3 h ago" in trend.text
    assert trend.path == "M100 26v-26h4v26zM115 26v-2h4v2z"
    assert trend_of(()) is None
    nothing = trend_of([0] * 24)
    assert nothing is not None
    assert nothing.path == ""


def test_a_sentence_of_several_failures_holds_no_values() -> None:
    queue, text = a_queue_row("continuous"), "Asset 'AZ163' has 4711 meters."
    for offset, told in ((1, text), (2, "Asset '…' has N meters.")):
        a_held(queue, offset, text=text)
        [group] = causes(FailureFilter(), EVERYTHING).groups
        assert group.text == told
    MessageError.objects.update(state="DELETED")
    assert causes(FailureFilter(), EVERYTHING).groups == ()
