"""The list of failures and the page of one, over HTTP."""

import re
from datetime import timedelta
from html import unescape
from uuid import uuid4

import pytest
from django.test import Client
from django.urls import reverse
from django.utils import timezone

from integration.models import (
    EnterpriseService,
    ExternalSystem,
    MessageError,
    ObjectStructure,
    Queue,
)
from integration.selectors.failures import failures
from integration.selectors.failures.cause_ids import cause_id
from integration.selectors.failures.failures import Cursor, FailureFilter
from integration.selectors.scope import EVERYTHING
from tests.support.rows import (
    a_blocked_queue,
    a_held,
    a_person,
    a_place,
    a_queue_row,
    several_held,
    some_live_processes,
)

pytestmark = [pytest.mark.servers, pytest.mark.django_db]
ROW = re.compile(r'name="chosen" value="([0-9a-f-]{36}):(\d+)"')


@pytest.fixture
def client() -> Client:
    client = Client()
    client.force_login(a_person("Editors", "edda"))
    return client


def shown(page: str) -> list[str]:
    return [found[0] for found in ROW.findall(page)]


def failed_at_once(queue: Queue, count: int) -> list[MessageError]:
    """Failures of one and the same moment: only their ids tell them apart."""
    at = timezone.now()
    return several_held(queue, range(count), last_failed_at=at)


class TestList:
    def test_pages_by_key_show_every_row_once_in_both_directions(self, client: Client) -> None:
        queue = a_queue_row("continuous")
        rows = failed_at_once(queue, 75)
        now = timezone.now()
        older = several_held(
            queue,
            range(100, 145),
            lambda offset: {"last_failed_at": now - timedelta(hours=offset - 99)},
        )
        expected = sorted(str(row.pk) for row in rows) + [str(row.pk) for row in older]
        seen: list[str] = []
        pages: list[str] = []
        address = reverse("failure-list")
        while address:
            page = client.get(address).text
            pages.append(page)
            seen += shown(page)
            link = re.search(r'href="(\?[^"]*)"\s+rel="next"', page)
            address = reverse("failure-list") + link[1].replace("&amp;", "&") if link else ""
        assert seen == expected
        assert len(pages) == 3
        link = re.search(r'href="(\?[^"]*)"\s+rel="prev"', pages[2])
        assert link is not None
        back = client.get(reverse("failure-list") + link[1].replace("&amp;", "&")).text
        assert shown(back) == expected[50:100]

    def test_a_row_that_arrives_meanwhile_does_not_shift_the_next_page(self) -> None:
        queue = a_queue_row("continuous")
        failed_at_once(queue, 6)
        first = failures.page(FailureFilter(), EVERYTHING, size=3)
        a_held(queue, 99, last_failed_at=timezone.now() + timedelta(seconds=1))
        second = failures.page(
            FailureFilter(), EVERYTHING, Cursor.read(str(first.next_after)), size=3
        )
        assert not {row.id for row in first.rows} & {row.id for row in second.rows}
        assert len(second.rows) == 3

    @pytest.mark.parametrize("mark", ["", "x", "%00", "YXxub3x4", "YXwyMDI2LTAxLTAxfHg"])
    def test_a_spoilt_cursor_is_the_first_page(self, client: Client, mark: str) -> None:
        a_held(a_queue_row("continuous"))
        assert len(shown(client.get(reverse("failure-list"), {"at": mark}).text)) == 1

    @pytest.mark.parametrize(
        ("query", "offsets"),
        [
            ({}, {1, 2, 3}),
            ({"state": "HOLD"}, {1, 2}),
            ({"state": "RETRY"}, {3}),
            ({"state": ""}, {1, 2, 3, 4}),
            ({"state": "DELETED"}, {4}),
            ({"code": "OTHER"}, {2}),
            ({"interface": "MXPO"}, {2}),
            ({"fingerprint": cause_id("f" * 16)}, {3}),
            ({"message_id": "plant/EAM/1"}, {1}),
            ({"queue": "elsewhere"}, set()),
            ({"since": "2020-01-01T00:00", "until": "2020-01-02T00:00"}, {5}),
        ],
    )
    def test_filters(self, client: Client, query: dict[str, str], offsets: set[int]) -> None:
        queue = a_queue_row("continuous")
        now = timezone.now()
        a_held(queue, 1)
        a_held(queue, 2, code="OTHER", interface="MXPO")
        a_held(queue, 3, state="RETRY", not_before=now, fingerprint="f" * 16)
        a_held(queue, 4, state="DELETED")
        if "since" in query:
            a_held(queue, 5, last_failed_at=now.replace(year=2020, month=1, day=1))
        found = shown(client.get(reverse("failure-list"), query).text)
        rows = MessageError.objects.filter(pk__in=found)
        assert set(rows.values_list("offset", flat=True)) == offsets

    def test_a_filter_that_cannot_be_read_is_told_and_left_out(self, client: Client) -> None:
        a_held(a_queue_row("continuous"))
        page = client.get(reverse("failure-list"), {"since": "yesterday"}).text
        assert "This filter was ignored" in page
        assert len(shown(page)) == 1

    @pytest.mark.parametrize(
        ("given", "shown_as"),
        [
            ("2020-01-02", "2020-01-02T00:00"),
            ("2020-01-02T03:04", "2020-01-02T03:04"),
            ("2020-01-02T03:04:05Z", "2020-01-02T03:04:05"),
            ("2020-01-02T03:04:05.678+02:00", "2020-01-02T01:04:05.678"),
            ("0001-01-01T00:00+12:00", "0001-01-01T00:00+12:00"),
        ],
    )
    def test_a_moment_is_shown_as_it_was_understood(
        self, client: Client, given: str, shown_as: str
    ) -> None:
        answer = client.get(reverse("failure-list"), {"until": given})
        assert f'value="{shown_as}"' in str(answer.context["form"]["until"])
        assert answer.context["form"].words()["until"] == given, "links keep what was asked"

    def test_counts_are_capped(self, client: Client, monkeypatch: pytest.MonkeyPatch) -> None:
        monkeypatch.setattr(failures, "COUNT_CAP", 3)
        failed_at_once(a_queue_row("continuous"), 5)
        assert "<strong>3+</strong>" in client.get(reverse("failure-list")).text

    def test_good_news_and_nothing_found_are_different(self, client: Client) -> None:
        assert "Good news" in client.get(reverse("failure-list")).text
        filtered = client.get(reverse("failure-list"), {"code": "NO_SUCH"}).text
        assert "Nothing matches" in filtered
        assert "Clear filters" in filtered

    def test_the_number_of_statements_does_not_grow_with_the_rows(
        self, client: Client, django_assert_max_num_queries: object
    ) -> None:
        for count in (1, 20):
            failed_at_once(a_queue_row("continuous"), count)
            # The frame (person, rights, limit, deployment, counts of the menu), four of the list.
            with django_assert_max_num_queries(18):  # type: ignore[operator] # pytest-django's
                assert client.get(reverse("failure-list")).status_code == 200


class TestPage:
    def test_it_tells_what_happened_what_to_do_and_shows_the_payload(self, client: Client) -> None:
        _, _, error = a_blocked_queue()
        page = client.get(reverse("failure", args=[error.pk])).text
        assert "MXASSETInterface was tried 4 times and failed" in page
        assert "If the message is wrong, correct it under Edit and release it" in page
        assert "4 messages wait" in page
        assert "&quot;priority&quot;: &quot;abc&quot;" in page
        assert "offset 10" in page

    @pytest.mark.parametrize(
        ("payload", "expected"),
        [
            (None, "tombstone"),
            (b"", "EMPTY_BODY"),
            (b"\x80\x81", "NOT_UTF8"),
            (b'{"a": ', "TRUNCATED_JSON"),
            (b"<a><b>1</b></a>", "&lt;b&gt;1&lt;/b&gt;"),
            (b'{"n": 12345678901234567890.10}', "12345678901234567890.10"),
            (b'{"s": "<script>alert(1)</script>"}', "&lt;script&gt;alert(1)"),
            ('{"INTERFACE": “X”}'.encode(), "CURLY_QUOTES"),
        ],
    )
    def test_any_bytes_can_be_looked_at(
        self, client: Client, payload: bytes | None, expected: str
    ) -> None:
        error = a_held(a_queue_row("continuous"), payload=payload)
        page = client.get(reverse("failure", args=[error.pk]))
        assert page.status_code == 200
        assert expected in page.text
        assert "<script>alert" not in page.text

    @pytest.mark.parametrize(
        ("code", "link"),
        [
            ("UNKNOWN_SERVICE", "/services/new/?interface=MXPO"),
            ("SERVICE_DISABLED", "Open the service"),
            ("SYSTEM_DISABLED", "Open the system"),
        ],
    )
    def test_what_the_configuration_refused_is_mended_there(
        self, admin_client: Client, code: str, link: str
    ) -> None:
        system = ExternalSystem.objects.create(name="EAM", enabled=code != "SYSTEM_DISABLED")
        if code == "SERVICE_DISABLED":
            orders = ObjectStructure.objects.create(name="po", key_paths=["$.ponum"])
            EnterpriseService.objects.create(interface="MXPO", structure=orders, enabled=False)
        queue = a_queue_row("continuous", system=system)
        error = a_held(queue, code=code, interface="MXPO", failure_class="disabled")
        assert link in admin_client.get(reverse("failure", args=[error.pk])).text

    def test_an_operator_gets_no_link_into_the_configuration(self, client: Client) -> None:
        error = a_held(a_queue_row("continuous"), code="UNKNOWN_SERVICE")
        assert reverse("service-new") not in client.get(reverse("failure", args=[error.pk])).text

    def test_an_id_that_names_a_record_is_explained(self, client: Client) -> None:
        error = a_held(a_queue_row("continuous"), message_id="hub~assets.in~0~4242")
        page = unescape(client.get(reverse("failure", args=[error.pk])).text)
        said = "names a record: provider hub, topic assets.in, partition 0, offset 4,242."
        assert said in page
        MessageError.objects.update(message_id="hub~assets.in~0~x")
        assert "names a record" not in client.get(reverse("failure", args=[error.pk])).text

    def test_a_message_without_an_id_is_said_to_have_none(self, client: Client) -> None:
        queue = a_queue_row("continuous")
        own = f"{queue.provider.name}~{queue.topic}~0~10"
        error = a_held(queue, offset=10, message_id=own)
        a_place(queue, generation=2)
        again = own.replace(queue.topic, f"{queue.topic}@2")
        MessageError.objects.update(message_id=again)
        assert "has no id of its own" in client.get(reverse("failure", args=[error.pk])).text
        MessageError.objects.update(message_id=own)
        page = client.get(reverse("failure", args=[error.pk])).text
        assert "has no id of its own" in page
        assert "names a record" not in page
        MessageError.objects.update(message_id=own.replace("~10", "~11"))
        page = client.get(reverse("failure", args=[error.pk])).text
        assert "has no id of its own" not in page
        assert "names a record" in page

    def test_where_its_copy_stands_on_the_error_queue_is_told(self, client: Client) -> None:
        errors = a_queue_row(name="plant-errors", is_error_queue=True)
        queue = a_queue_row("continuous", error_queue=errors)
        error = a_held(queue)
        address = reverse("failure", args=[error.pk])
        assert "<dt>Copy</dt>" not in client.get(address).text
        MessageError.objects.update(copied_at=timezone.now())
        assert "<dt>Copy</dt>" in client.get(address).text
        MessageError.objects.update(copy_offset=1_234)
        page = client.get(address).text
        assert "plant-errors</a>, at offset 1,234" in page

    def test_what_a_released_one_waits_for_on_a_strict_error_queue_is_told(
        self, client: Client
    ) -> None:
        strict = a_queue_row(name="plant-errors", is_error_queue=True, strict_order=True)
        queue = a_queue_row("continuous", name="assets", error_queue=strict)
        now = timezone.now()
        first = a_held(queue, 10, copied_at=now)
        second = a_held(queue, 11, copied_at=now + timedelta(seconds=1), state="READY")
        page = client.get(reverse("failure", args=[second.pk])).text
        assert reverse("failure", args=[first.pk]) in page
        assert "Before it" not in client.get(reverse("failure", args=[first.pk])).text
        MessageError.objects.filter(pk=first.pk).update(state="DELETED")
        some_live_processes()
        page = client.get(reverse("failure", args=[second.pk])).text
        assert "will be tried within seconds" in page
        assert "Before it" not in page

    def test_one_that_is_not_there_is_a_page_of_its_own(self, client: Client) -> None:
        answer = client.get(reverse("failure", args=[uuid4()]))
        assert answer.status_code == 404
        assert "not in the error table" in answer.text

    def test_the_number_of_statements_is_fixed(
        self, client: Client, django_assert_max_num_queries: object
    ) -> None:
        queue, _, error = a_blocked_queue()
        for offset in range(11, 20):
            a_held(queue, offset)
        # The frame (person, rights, limit, deployment, counts of the menu) and nine of the page.
        with django_assert_max_num_queries(22):  # type: ignore[operator] # pytest-django's
            client.get(reverse("failure", args=[error.pk]), {"from": "list"})
