"""The list's newer filters: system, key, and a text in payloads within a time."""

import re
from datetime import timedelta
from typing import Any

import pytest
from django.test import Client
from django.urls import reverse
from django.utils import timezone

from console.layout.access import Right
from console.models import Limit
from integration.models import ExternalSystem, MessageError, Queue
from integration.selectors.failures import payload_search
from integration.selectors.failures.cause_ids import cause_id
from integration.selectors.failures.failures import Cursor, FailureFilter, matching
from integration.selectors.failures.payload_search import search
from integration.selectors.scope import EVERYTHING
from tests.support.rows import a_held, a_person, a_queue_row, an_envelope

pytestmark = [pytest.mark.servers, pytest.mark.django_db]
ROW = re.compile(r'name="chosen" value="([0-9a-f-]{36}):\d+"')


@pytest.fixture
def client() -> Client:
    client = Client()
    client.force_login(a_person("Editors", "edda"))
    return client


def offsets(client: Client, **query: str) -> set[int]:
    found = ROW.findall(client.get(reverse("failure-list"), query).text)
    return set(MessageError.objects.filter(pk__in=found).values_list("offset", flat=True))


class TestFilters:
    def test_system_and_key(self, client: Client) -> None:
        eam = ExternalSystem.objects.create(name="EAM")
        a_held(a_queue_row("continuous", system=eam), 1, key=b"A1")
        a_held(a_queue_row("continuous"), 2, key=b"\x00\xff")
        assert offsets(client, system="EAM") == {1}
        assert offsets(client, system="-") == {2}
        assert offsets(client, key="A1") == {1}
        assert offsets(client, key="0x00ff") == {2}
        assert offsets(client, key="0x00f") == set()

    def test_key_and_text_are_for_people_who_may_see_payloads(self) -> None:
        a_held(a_queue_row("continuous"), 1)
        client = Client()
        client.force_login(a_person("Operators"))
        page = client.get(reverse("failure-list"), {"key": "nothing", "text": "nothing"}).text
        assert len(ROW.findall(page)) == 1, "the filter is not there: nothing can be learnt by it"
        assert 'name="text"' not in page
        assert Right.VIEW_PAYLOAD.missing in page
        form = {"verb": "release", "scope": "matching", "query": "key=P-1"}
        assert client.post(reverse("review"), form).status_code == 400

    def test_a_cause_among_closed_failures_needs_its_code(self, client: Client) -> None:
        a_held(a_queue_row("continuous"), 1, state="RESOLVED")
        query = {"state": "", "fingerprint": cause_id("0123456789abcdef")}
        page = client.get(reverse("failure-list"), query)
        assert list(page.context["form"].errors) == ["fingerprint"]
        assert offsets(client, **query, code="BAD_VALUE") == {1}

    def test_a_cause_is_not_found_by_what_anybody_can_work_out(self, client: Client) -> None:
        a_held(a_queue_row("continuous"), 1)
        page = client.get(reverse("failure-list"), {"fingerprint": "0123456789abcdef"})
        assert list(page.context["form"].errors) == ["fingerprint"]

    def test_who_is_limited_finds_only_their_own(self) -> None:
        mine, other = (ExternalSystem.objects.create(name=name) for name in ("EAM", "LAB"))
        a_held(a_queue_row("continuous", system=mine), 1)
        foreign = a_held(a_queue_row("continuous", system=other), 2)
        person = a_person("Editors")
        limit = Limit.objects.create(person=person)
        limit.systems.add(mine)
        client = Client()
        client.force_login(person)
        assert offsets(client) == {1}
        assert offsets(client, message_id=foreign.message_id, state="") == set()
        assert offsets(client, text="assetnum") == {1}
        names = ("failure", "record", "document", "edit")
        for name in names:
            address = reverse(name, args=[foreign.pk])
            answer = (
                client.post(address, {"version": 1}) if name == "check" else client.get(address)
            )
            assert answer.status_code == 404, name
        for name in ("release", "hold", "delete", "restore", "edit"):
            address = reverse(name, args=[foreign.pk])
            form = {"version": 1, "reason": "x", "text": "{}"}
            assert client.post(address, form).status_code == 404, name
        foreign.refresh_from_db()
        assert foreign.version == 1


def some(queue: Queue, payloads: dict[int, Any], **fields: Any) -> None:
    now = timezone.now()
    for offset, payload in payloads.items():
        at = now - timedelta(minutes=offset)
        a_held(queue, offset, payload=payload, last_failed_at=at, **fields)


class TestText:
    def test_it_is_found_however_the_envelope_wraps_it(self, client: Client) -> None:
        some(
            a_queue_row("continuous"),
            {
                1: b'{"name": "pump \xc3\xa9 7"}',
                2: b'{"name": "pump \\u00e9 7"}',
                3: an_envelope({"name": "pump é 7"}, compressed=True),
                4: an_envelope({"name": "pump é 7"}, compressed=False),
                5: an_envelope({"name": "pump é 8"}, compressed=True),
                6: None,
                7: b"\x80\x81",
                8: b'{"name": "PUMP"}',
            },
        )
        assert offsets(client, text="pump é 7") == {1, 2, 3, 4}
        assert offsets(client, text="pump ") == {1, 2, 3, 4, 5}
        assert offsets(client, text="nowhere") == set()

    def test_the_edited_text_counts_not_the_original(self, client: Client) -> None:
        some(a_queue_row("continuous"), {1: b'{"a": "old"}'}, edited_payload=b'{"a": "new"}')
        assert offsets(client, text="new") == {1}
        assert offsets(client, text="old") == set()

    def test_the_time_is_a_day_unless_it_is_said(self, client: Client) -> None:
        queue = a_queue_row("continuous")
        a_held(queue, 1, payload=b'{"a": "x1"}')
        day_before = timezone.now() - timedelta(days=2)
        a_held(queue, 2, payload=b'{"a": "x1"}', last_failed_at=day_before)
        assert offsets(client, text="x1") == {1}
        since = f"{timezone.now() - timedelta(days=3):%Y-%m-%dT%H:%M}"
        assert offsets(client, text="x1", since=since) == {1, 2}

    def test_it_stops_after_bounded_work_says_so_and_goes_on(
        self, client: Client, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        monkeypatch.setattr(payload_search, "SCAN_SECONDS", 60)
        monkeypatch.setattr(payload_search, "SCAN_ROWS", 4)
        monkeypatch.setattr(payload_search, "LOT_ROWS", 3)
        monkeypatch.setattr(payload_search, "CHUNK_ROWS", 2)
        rows = dict.fromkeys(range(10), b'{"a": "hay"}')
        some(a_queue_row("continuous"), {**rows, 3: b'{"a": "needle"}', 8: b'{"a": "needle"}'})
        page = client.get(reverse("failure-list"), {"text": "needle"}).text
        assert "Searched <strong>4</strong> payloads" in page
        assert "older ones in this period have not been searched" in page
        seen: list[int] = []
        cursor = None
        wanted = FailureFilter(text="needle")
        for _ in range(5):
            found = search(wanted, EVERYTHING, cursor)
            seen += [row.offset for row in found.rows]
            cursor = Cursor.read(str(found.next_after)) if found.next_after else None
            if cursor is None:
                break
        assert seen == [3, 8]
        assert cursor is None

    def test_time_that_is_over_stops_it_after_the_first_look(
        self, client: Client, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        monkeypatch.setattr(payload_search, "SCAN_SECONDS", 0)
        monkeypatch.setattr(payload_search, "CHUNK_ROWS", 2)
        some(a_queue_row("continuous"), dict.fromkeys(range(5), b'{"a": "hay"}'))
        wanted = FailureFilter(text="needle")
        looked = []
        cursor = None
        for _ in range(5):
            found = search(wanted, EVERYTHING, cursor)
            looked.append(found.looked)
            cursor = Cursor.read(str(found.next_after)) if found.next_after else None
            if cursor is None:
                break
        assert looked == [2, 2, 1]
        page = client.get(reverse("failure-list"), {"text": "needle"}).text
        assert 'hx-trigger="load delay:100ms"' in page, "it goes on by itself"

    def test_a_full_page_leads_to_the_next(self) -> None:
        some(a_queue_row("continuous"), dict.fromkeys(range(7), b'{"a": "x"}'))
        wanted = FailureFilter(text='"x"')
        first = search(wanted, EVERYTHING, size=3)
        assert [row.offset for row in first.rows] == [0, 1, 2]
        assert first.reached is None, "it did not stop early: the page was full"
        second = search(wanted, EVERYTHING, Cursor.read(str(first.next_after)), size=3)
        assert [row.offset for row in second.rows] == [3, 4, 5]

    def test_no_action_goes_by_it(self, client: Client) -> None:
        some(a_queue_row("continuous"), {1: b'{"a": "x"}', 2: b"{}"})
        page = client.get(reverse("failure-list"), {"text": "x"}).text
        assert 'name="scope" value="matching" disabled' in page
        form = {"verb": "release", "scope": "matching", "query": "text=x"}
        assert client.post(reverse("review"), form).status_code == 400
        with pytest.raises(ValueError, match="no condition"):
            matching(FailureFilter(text="x"), EVERYTHING)
