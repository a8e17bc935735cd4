"""The list of failures, the page of one, and deciding about it, over HTTP."""

import re
from datetime import timedelta
from html import unescape
from uuid import uuid4

import pytest
from django.core.files.uploadedfile import SimpleUploadedFile
from django.test import Client
from django.urls import reverse
from django.utils import timezone

from integration.models import ExternalSystem, MessageError, Queue, QueuePartition
from integration.selectors import failures
from integration.selectors.failures import Cursor, FailureFilter
from tests.support.rows import a_blocked_queue, a_held, a_person, a_place, a_queue_row, an_envelope

pytestmark = [pytest.mark.servers, pytest.mark.django_db]
ROW = re.compile(r'name="chosen" value="([0-9a-f-]{36}):(\d+)"')


@pytest.fixture
def client() -> Client:
    client = Client()
    client.force_login(a_person("Editors", "edda"))
    return client


def shown(page: str) -> list[str]:
    return [found[0] for found in ROW.findall(page)]


def textarea(page: str) -> str:
    """What a browser puts into the field: the line end after the tag is not part of it."""
    found = re.search(r"<textarea[^>]*>\n(.*?)</textarea>", page, re.DOTALL)
    assert found is not None
    return unescape(found[1])


def failed_at_once(queue: Queue, count: int) -> list[MessageError]:
    """Failures of one and the same moment: only their ids tell them apart."""
    at = timezone.now()
    return [a_held(queue, offset, last_failed_at=at) for offset in range(count)]


class TestList:
    def test_pages_by_key_show_every_row_once_in_both_directions(self, client: Client) -> None:
        queue = a_queue_row("continuous")
        rows = failed_at_once(queue, 75)
        older = [
            a_held(queue, 100 + n, last_failed_at=timezone.now() - timedelta(hours=n + 1))
            for n in range(45)
        ]
        expected = sorted(str(row.pk) for row in rows) + [str(row.pk) for row in older]
        seen: list[str] = []
        pages: list[str] = []
        address = reverse("failures")
        while address:
            page = client.get(address).text
            pages.append(page)
            seen += shown(page)
            link = re.search(r'href="(\?[^"]*)" rel="next"', page)
            address = reverse("failures") + link[1].replace("&amp;", "&") if link else ""
        assert seen == expected
        assert len(pages) == 3
        link = re.search(r'href="(\?[^"]*)" rel="prev"', pages[2])
        assert link is not None
        back = client.get(reverse("failures") + link[1].replace("&amp;", "&")).text
        assert shown(back) == expected[50:100]

    def test_a_row_that_arrives_meanwhile_does_not_shift_the_next_page(self) -> None:
        queue = a_queue_row("continuous")
        failed_at_once(queue, 6)
        first = failures.page(FailureFilter(), size=3)
        a_held(queue, 99, last_failed_at=timezone.now() + timedelta(seconds=1))
        second = failures.page(FailureFilter(), Cursor.read(first.older), size=3)
        assert not {row.id for row in first.rows} & {row.id for row in second.rows}
        assert len(second.rows) == 3

    @pytest.mark.parametrize("mark", ["", "x", "%00", "YXxub3x4", "YXwyMDI2LTAxLTAxfHg"])
    def test_a_spoilt_cursor_is_the_first_page(self, client: Client, mark: str) -> None:
        a_held(a_queue_row("continuous"))
        assert len(shown(client.get(reverse("failures"), {"at": mark}).text)) == 1

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
            ({"fingerprint": "ffff"}, {3}),
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
        a_held(queue, 3, state="RETRY", not_before=now, fingerprint="ffff")
        a_held(queue, 4, state="DELETED")
        if "since" in query:
            a_held(queue, 5, last_failed_at=now.replace(year=2020, month=1, day=1))
        found = shown(client.get(reverse("failures"), query).text)
        rows = MessageError.objects.filter(pk__in=found)
        assert set(rows.values_list("offset", flat=True)) == offsets

    def test_a_filter_that_cannot_be_read_is_told_and_left_out(self, client: Client) -> None:
        a_held(a_queue_row("continuous"))
        page = client.get(reverse("failures"), {"since": "yesterday"}).text
        assert "It was left out" in page
        assert len(shown(page)) == 1

    def test_counts_are_capped(self, client: Client, monkeypatch: pytest.MonkeyPatch) -> None:
        monkeypatch.setattr(failures, "COUNT_CAP", 3)
        failed_at_once(a_queue_row("continuous"), 5)
        assert "<strong>3+</strong>" in client.get(reverse("failures")).text

    def test_good_news_and_nothing_found_are_different(self, client: Client) -> None:
        assert "Good news" in client.get(reverse("failures")).text
        filtered = client.get(reverse("failures"), {"code": "NO_SUCH"}).text
        assert "Nothing matches" in filtered
        assert "Clear filters" in filtered

    def test_the_number_of_statements_does_not_grow_with_the_rows(
        self, client: Client, django_assert_num_queries: object
    ) -> None:
        for count in (1, 20):
            failed_at_once(a_queue_row("continuous"), count)
            # The session, the person and their rights (4), the deployment, and four of the list.
            with django_assert_num_queries(9):  # type: ignore[operator] # pytest-django's fixture
                assert client.get(reverse("failures")).status_code == 200


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
        ("code", "advice", "link"),
        [
            (
                "UNKNOWN_SERVICE",
                "Register the enterprise service MXPO under Configuration",
                "/admin/integration/enterpriseservice/add/?interface=MXPO",
            ),
            (
                "SERVICE_DISABLED",
                "Switch the enterprise service MXPO on under Configuration, then release it.",
                "/admin/integration/enterpriseservice/?q=MXPO",
            ),
            (
                "SYSTEM_DISABLED",
                "Switch the external system EAM on under Configuration, then release it.",
                "/admin/integration/externalsystem/",
            ),
        ],
    )
    def test_what_the_configuration_refused_is_mended_there(
        self, admin_client: Client, code: str, advice: str, link: str
    ) -> None:
        system = ExternalSystem.objects.create(name="EAM")
        queue = a_queue_row("continuous", system=system)
        error = a_held(queue, code=code, interface="MXPO", failure_class="disabled")
        page = admin_client.get(reverse("failure", args=[error.pk])).text
        assert advice in page
        assert link in page

    def test_an_operator_gets_no_link_into_the_configuration(self, client: Client) -> None:
        error = a_held(a_queue_row("continuous"), code="UNKNOWN_SERVICE")
        assert "/admin/" not in client.get(reverse("failure", args=[error.pk])).text

    def test_an_id_that_names_a_record_is_explained(self, client: Client) -> None:
        error = a_held(a_queue_row("continuous"), message_id="hub~assets.in~0~4242")
        page = unescape(client.get(reverse("failure", args=[error.pk])).text)
        said = "names a record: provider hub, topic assets.in, partition 0, offset 4,242."
        assert said in page
        MessageError.objects.update(message_id="hub~assets.in~0~x")
        assert "names a record" not in client.get(reverse("failure", args=[error.pk])).text

    def test_where_its_copy_stands_on_the_error_queue_is_told(self, client: Client) -> None:
        errors = a_queue_row(name="plant-errors", is_error_queue=True)
        queue = a_queue_row("continuous", error_queue=errors)
        error = a_held(queue)
        address = reverse("failure", args=[error.pk])
        assert "Copy" not in client.get(address).text
        MessageError.objects.update(mirrored_at=timezone.now())
        assert "it has not been read there yet" in client.get(address).text
        MessageError.objects.update(mirror_offset=1_234)
        page = client.get(address).text
        assert "plant-errors</a>, at offset 1,234" in page

    def test_what_a_released_one_waits_for_on_a_strict_error_queue_is_told(
        self, client: Client
    ) -> None:
        strict = a_queue_row(name="plant-errors", is_error_queue=True, strict_order=True)
        queue = a_queue_row("continuous", name="assets", error_queue=strict)
        now = timezone.now()
        first = a_held(queue, 10, mirrored_at=now)
        second = a_held(queue, 11, mirrored_at=now + timedelta(seconds=1), state="READY")
        page = client.get(reverse("failure", args=[second.pk])).text
        assert "It waits behind MXASSETInterface at offset 10 of assets" in page
        assert reverse("failure", args=[first.pk]) in page
        assert "Before it" not in client.get(reverse("failure", args=[first.pk])).text
        MessageError.objects.filter(pk=first.pk).update(state="DELETED")
        page = client.get(reverse("failure", args=[second.pk])).text
        assert "will be tried within seconds" in page
        assert "Before it" not in page

    def test_one_that_is_not_there_is_a_page_of_its_own(self, client: Client) -> None:
        answer = client.get(reverse("failure", args=[uuid4()]))
        assert answer.status_code == 404
        assert "not in the error table" in answer.text

    def test_the_number_of_statements_is_fixed(
        self, client: Client, django_assert_num_queries: object
    ) -> None:
        queue, _, error = a_blocked_queue()
        for offset in range(11, 20):
            a_held(queue, offset)
        # The session, the person and their rights (4), the deployment, and five of the page.
        with django_assert_num_queries(10):  # type: ignore[operator] # pytest-django's fixture
            client.get(reverse("failure", args=[error.pk]))


class TestDecisions:
    def test_release_answers_303_and_a_double_click_is_harmless(self, client: Client) -> None:
        _, _, error = a_blocked_queue()
        address = reverse("release", args=[error.pk])
        first = client.post(address, {"version": 1})
        assert (first.status_code, first["Location"]) == (
            303,
            reverse("failure", args=[error.pk]),
        )
        second = client.post(address, {"version": 1}, follow=True)
        assert second.redirect_chain[0][1] == 303
        assert "You already did this" in second.content.decode()
        assert error.changes.count() == 1

    def test_the_loser_of_a_race_sees_the_page_as_it_is_now(self, client: Client) -> None:
        _, _, error = a_blocked_queue()
        other = Client()
        other.force_login(a_person("Operators", "otto"))
        other.post(reverse("delete", args=[error.pk]), {"version": 1, "reason": "obsolete"})
        answer = client.post(reverse("release", args=[error.pk]), {"version": 1})
        assert answer.status_code == 409
        assert "It has moved on: otto changed it" in answer.text
        assert "Restore" in answer.text

    def test_a_late_release_asks_first(self, client: Client) -> None:
        _, place, error = a_blocked_queue()
        QueuePartition.objects.filter(pk=place.pk).update(next_offset=12)
        address = reverse("release", args=[error.pk])
        asked = client.post(address, {"version": 1})
        assert asked.status_code == 409
        assert "Apply it late" in asked.text
        assert client.post(address, {"version": 1, "late": "1"}).status_code == 303
        error.refresh_from_db()
        assert (error.state, error.late) == ("READY", True)

    @pytest.mark.parametrize("version", ["", "x", "-1", "9" * 40, "\u0661"])
    @pytest.mark.parametrize("verb", ["release", "edit"])
    def test_a_spoilt_version_is_told_as_such_and_changes_nothing(
        self, client: Client, verb: str, version: str
    ) -> None:
        _, _, error = a_blocked_queue()
        form = {"version": version, "part": "document", "text": "{}"}
        answer = client.post(reverse(verb, args=[error.pk]), form)
        assert answer.status_code == 400
        assert "its field “version” is missing or is no number" in answer.text
        assert "Nothing was changed" in answer.text
        assert "moved on" not in answer.text
        error.refresh_from_db()
        assert (error.state, error.version) == ("HOLD", 1)

    def test_a_deletion_without_a_reason_is_asked_for_one(self, client: Client) -> None:
        _, _, error = a_blocked_queue()
        answer = client.post(reverse("delete", args=[error.pk]), {"version": 1, "reason": ""})
        assert answer.status_code == 409
        assert "a reason is needed" in answer.text


class TestEdit:
    def test_the_document_is_edited_and_goes_back_into_its_envelope(self, client: Client) -> None:
        _, _, error = a_blocked_queue()
        address = reverse("edit", args=[error.pk])
        page = client.get(address).text
        assert "The document inside the envelope" in page
        assert "&quot;priority&quot;: &quot;abc&quot;" in page
        # A browser sends line ends as CR LF.
        text = '{\r\n  "assetnum": "P-1",\r\n  "cost": 1.10,\r\n  "priority": 3\r\n}'
        answer = client.post(address, {"version": 1, "part": "document", "text": text})
        assert answer.status_code == 303
        error.refresh_from_db()
        wanted = an_envelope({}, compressed=False)
        record = error.current_payload
        assert record is not None
        assert b"\\r" not in record
        assert b'\\"cost\\": 1.10' in record
        assert b'"MEAMessageID":"m-1"' in record
        assert b"compressed" not in record
        assert wanted[:20].split(b":")[0] in record
        assert bytes(error.payload) == an_envelope({"assetnum": "P-1", "priority": "abc"})

    def test_what_the_engine_could_not_read_is_told_before_it_is_kept(self, client: Client) -> None:
        _, _, error = a_blocked_queue()
        address = reverse("edit", args=[error.pk])
        form = {"version": 1, "part": "document", "text": '{"a": }'}
        refused = client.post(address, form)
        assert refused.status_code == 422
        assert "{&quot;a&quot;: }" in refused.text, "the text is not lost"
        assert client.post(address, {**form, "anyway": "1"}).status_code == 303

    def test_the_slower_editor_keeps_the_text_and_overwrites_nothing(self, client: Client) -> None:
        _, _, error = a_blocked_queue()
        address = reverse("edit", args=[error.pk])
        other = Client()
        other.force_login(a_person("Editors", "emil"))
        other.post(address, {"version": 1, "part": "document", "text": '{"by": "emil"}'})
        answer = client.post(address, {"version": 1, "part": "document", "text": '{"by": "edda"}'})
        assert answer.status_code == 409
        assert "emil" in answer.text
        assert "{&quot;by&quot;: &quot;edda&quot;}" in answer.text
        again = client.post(address, {"version": 1, "part": "document", "text": '{"by": "edda"}'})
        assert again.status_code == 409, "the form keeps the version it was opened with"
        error.refresh_from_db()
        assert b"emil" in (error.current_payload or b"")

    def test_a_record_without_envelope_is_laid_out_and_kept_exactly(self, client: Client) -> None:
        record = b'{"a":1.10,"big":12345678901234567890.50,"s":"x, {y}\\u00e9","l":[1,{}]}\n'
        error = a_held(a_queue_row("continuous"), payload=record)
        address = reverse("edit", args=[error.pk])
        page = client.get(address).text
        assert ">The message</label>" in page
        text = textarea(page)
        assert text.splitlines()[:3] == ["{", '  "a": 1.10,', '  "big": 12345678901234567890.50,']
        assert '"s": "x, {y}\\u00e9"' in text
        form = {"version": 1, "part": "record", "text": text.replace("1.10", "1.20")}
        client.post(address, form)
        error.refresh_from_db()
        assert error.current_payload == text.replace("1.10", "1.20").encode()

    @pytest.mark.parametrize(
        "record",
        [b'{"a": 1,}', b'{"a": "x', b"plain, text", b'"a, b"', b"<a><b/></a>", b'{"a":1,\n"b":2}'],
    )
    def test_what_cannot_be_laid_out_without_loss_is_shown_as_it_is(
        self, client: Client, record: bytes
    ) -> None:
        error = a_held(a_queue_row("continuous"), payload=record)
        page = client.get(reverse("edit", args=[error.pk])).text
        assert textarea(page) == record.decode()

    def test_an_envelope_that_cannot_be_opened_is_not_said_to_be_missing(
        self, client: Client
    ) -> None:
        record = b'{"INTERFACE":"X","compressed":"1","payload":"%%%"}'
        error = a_held(a_queue_row("continuous"), payload=record, code="BAD_BASE64")
        page = client.get(reverse("edit", args=[error.pk])).text
        assert "with its envelope if it came in one" in page
        assert textarea(page).splitlines()[1] == '  "INTERFACE": "X",'

    @pytest.mark.parametrize(
        ("payload", "part"),
        [
            (an_envelope({"a": 1}), "document"),
            (an_envelope({"a": 1}), "record"),
            (b'{"a":1,"b":[1,2]}', "record"),
            (b'{"a":1,\r\n"b":2}\n', "record"),
        ],
    )
    @pytest.mark.parametrize(("then", "state"), [("", "HOLD"), ("release", "READY")])
    def test_a_text_that_was_not_touched_is_no_edit(
        self, client: Client, payload: bytes, part: str, then: str, state: str
    ) -> None:
        error = a_held(a_queue_row("continuous"), payload=payload)
        address = reverse("edit", args=[error.pk])
        page = client.get(address, {"part": part}).text
        shown = textarea(page).replace("\r\n", "\n").replace("\n", "\r\n")
        form = {"version": 1, "part": part, "text": shown, "then": then}
        told = client.post(address, form, follow=True).content.decode()
        error.refresh_from_db()
        assert (error.state, error.edited_payload) == (state, None)
        assert "the text is the same as before" in told
        assert "Saved" not in told
        assert ("Released as it was" in told) is (then == "release")

    def test_numbers_of_the_envelope_stay_exact(self, client: Client) -> None:
        record = b'{"INTERFACE":"X","rate":1.10,"n":12345678901234567890.5,"payload":"{}"}'
        error = a_held(a_queue_row("continuous"), payload=record)
        form = {"version": 1, "part": "document", "text": '{"a":1}'}
        client.post(reverse("edit", args=[error.pk]), form)
        error.refresh_from_db()
        assert b'"rate":1.10,"n":12345678901234567890.5' in (error.current_payload or b"")

    def test_save_and_release_in_one_step(self, client: Client) -> None:
        _, _, error = a_blocked_queue()
        form = {"version": 1, "part": "document", "text": '{"a": 1}', "then": "release"}
        client.post(reverse("edit", args=[error.pk]), form)
        error.refresh_from_db()
        assert (error.state, error.version) == ("READY", 3)
        assert list(error.changes.values_list("action", flat=True)) == ["edit", "release"]

    def test_bytes_that_are_no_text_are_replaced_by_a_file(self, client: Client) -> None:
        error = a_held(a_queue_row("continuous"), payload=b"\xff\xfe\x00\x01")
        address = reverse("edit", args=[error.pk])
        page = client.get(address).text
        assert "not text" in page
        assert "<textarea" not in page
        upload = SimpleUploadedFile("record.bin", b'{"a":\r\n1}')
        client.post(address, {"version": 1, "part": "record", "file": upload})
        error.refresh_from_db()
        assert error.current_payload == b'{"a":\r\n1}'

    def test_a_failure_that_is_not_on_hold_cannot_be_edited(self, client: Client) -> None:
        error = a_held(a_queue_row("continuous"), state="RESOLVED")
        address = reverse("edit", args=[error.pk])
        assert "Only messages on hold can be edited" in client.get(address).text
        form = {"version": 1, "part": "record", "text": "{}"}
        assert client.post(address, form).status_code == 409


class TestBulk:
    def test_ticked_rows_are_reviewed_then_released(self, client: Client) -> None:
        queue = a_queue_row("continuous")
        a_place(queue)
        rows = failed_at_once(queue, 3)
        MessageError.objects.filter(pk=rows[2].pk).update(state="RESOLVED")
        ticked = [f"{row.pk}:1" for row in rows]
        review = client.post(reverse("review"), {"verb": "release", "chosen": ticked})
        assert review.status_code == 200
        assert "Release 2 messages?" in review.text
        assert "Left alone" in review.text
        assert MessageError.objects.filter(state="READY").count() == 0, "nothing is done yet"
        chosen = " ".join(ticked)
        done = client.post(
            reverse("carry-out", args=["release"]),
            {"chosen": chosen, "reason": "up again", "query": "state=HOLD"},
            follow=True,
        )
        assert done.redirect_chain == [("/failures/?state=HOLD", 303)]
        assert "2 released; 1 had moved on" in done.content.decode()
        assert MessageError.objects.filter(state="READY").count() == 2

    def test_all_that_match_the_filter_are_frozen_at_the_review(self, client: Client) -> None:
        queue = a_queue_row("continuous")
        a_place(queue)
        failed_at_once(queue, 60)
        a_held(queue, 500, code="OTHER")
        form = {"verb": "release", "scope": "matching", "query": "code=BAD_VALUE"}
        review = client.post(reverse("review"), form)
        assert "Release 60 messages?" in review.text
        found = re.search(r'name="chosen" value="([^"]+)"', review.text)
        assert found is not None
        a_held(queue, 501)
        client.post(reverse("carry-out", args=["release"]), {"chosen": found[1]})
        assert MessageError.objects.filter(state="READY").count() == 60

    def test_a_deletion_without_a_reason_shows_the_review_again(self, client: Client) -> None:
        error = a_held(a_queue_row("continuous"))
        answer = client.post(
            reverse("carry-out", args=["delete"]), {"chosen": f"{error.pk}:1", "reason": " "}
        )
        assert answer.status_code == 422
        assert f"{error.pk}:1" in answer.text
        error.refresh_from_db()
        assert error.state == "HOLD"

    def test_nothing_ticked_is_said(self, client: Client) -> None:
        answer = client.post(reverse("review"), {"verb": "hold"}, follow=True)
        assert "Nothing was selected" in answer.content.decode()

    def test_spoilt_marks_and_unknown_verbs_are_nothing(self, client: Client) -> None:
        answer = client.post(
            reverse("carry-out", args=["release"]), {"chosen": "x :1 a:b"}, follow=True
        )
        assert "0 released" in answer.content.decode()
        assert client.post(reverse("carry-out", args=["explode"])).status_code == 404
