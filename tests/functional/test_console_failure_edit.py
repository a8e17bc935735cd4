"""Editing the payload of a failure over HTTP: what is shown, what is kept, who is slower."""

import re
from html import unescape

import pytest
from django.core.files.uploadedfile import SimpleUploadedFile
from django.test import Client
from django.urls import reverse

from console.failures.edits import UNCHANGED
from tests.support.rows import a_blocked_queue, a_held, a_person, a_queue_row, an_envelope

pytestmark = [pytest.mark.servers, pytest.mark.django_db]


@pytest.fixture
def client() -> Client:
    client = Client()
    client.force_login(a_person("Editors", "edda"))
    return client


def textarea(page: str) -> str:
    """What a browser puts into the field: the line end after the tag is not part of it."""
    found = re.search(r"<textarea[^>]*>\n(.*?)</textarea>", page, re.DOTALL)
    assert found is not None
    return unescape(found[1])


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

    def test_who_came_from_a_list_finds_it_again_after_saving(self, client: Client) -> None:
        _, _, error = a_blocked_queue()
        place = f"{reverse('failure', args=[error.pk])}?from=list&state=HOLD"
        link = re.search(r'href="([^"]*/edit[^"]*)"', client.get(place).text)
        assert link is not None
        form = client.get(unescape(link[1])).text
        assert f'name="next" value="{place.replace("&", "&amp;")}"' in form
        told = {"version": 1, "part": "document", "text": '{"assetnum": "P-1"}', "next": place}
        answer = client.post(reverse("edit", args=[error.pk]), told)
        assert (answer.status_code, answer["Location"]) == (303, place)

    def test_no_form_leads_to_another_site(self, client: Client) -> None:
        _, _, error = a_blocked_queue()
        address = reverse("edit", args=[error.pk])
        page = client.get(f"{address}?next=//evil.example/").text
        assert 'name="next" value="//evil' not in page
        assert 'href="//evil' not in page

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
        [b'{"a": 1,}', b'{"a": "x', b"plain, text", b'"a, b"', b"<a>x<b/></a>", b'{"a":1,\n"b":2}'],
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
        assert (UNCHANGED.released if then == "release" else UNCHANGED.saved) in told
        assert "Saved" not in told

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
        assert 'class="btn btn-primary" disabled' in client.get(address).text
        form = {"version": 1, "part": "record", "text": "{}"}
        assert client.post(address, form).status_code == 409
