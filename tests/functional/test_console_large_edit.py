"""A message too long for a text field is edited as a file: downloaded, corrected, uploaded."""

import json
import re
from html import unescape

import pytest
from django.core.files.uploadedfile import SimpleUploadedFile
from django.test import Client
from django.urls import reverse

from console.failures.edits import NO_FILE, UNCHANGED
from integration.envelope import DEFAULT
from integration.models import MessageError
from integration.selectors.failures.text_fields import FIELD_CHARACTERS
from tests.support.rows import a_held, a_person, a_queue_row, an_envelope

pytestmark = [pytest.mark.servers, pytest.mark.django_db]
LONG = "x" * (FIELD_CHARACTERS + 1)
DOCUMENT = {"assetnum": "P-1", "note": LONG}
WRAPPED = an_envelope(DOCUMENT, compressed=False)


@pytest.fixture
def client() -> Client:
    client = Client()
    client.force_login(a_person("Editors", "edda"))
    return client


def held(payload: bytes) -> MessageError:
    return a_held(a_queue_row("continuous"), payload=payload)


def a_file(content: bytes) -> SimpleUploadedFile:
    return SimpleUploadedFile("corrected.json", content)


def kept(error: MessageError) -> bytes:
    error.refresh_from_db()
    return error.current_payload or b""


def test_a_long_document_is_a_file_to_download_and_to_upload(client: Client) -> None:
    error = held(WRAPPED)
    address = reverse("edit", args=[error.pk])
    page = client.get(address).text
    assert "<textarea" not in page
    assert len(page) < 20_000, "the message itself is not on the page"
    download = reverse("document", args=[error.pk])
    assert download in page
    answer = client.get(download)
    assert answer.content == json.dumps(DOCUMENT).encode()
    assert answer["Content-Type"] == "application/octet-stream"
    assert answer["Content-Disposition"].startswith("attachment")
    corrected = answer.content.replace(b"P-1", b"P-2")
    form = {"version": 1, "part": "document", "document": a_file(corrected)}
    assert client.post(address, form).status_code == 303
    envelope = json.loads(kept(error))
    assert json.loads(envelope["payload"])["assetnum"] == "P-2"
    assert envelope["MEAMessageID"] == "m-1", "its envelope stays"


def test_a_long_record_is_a_file_too_and_replaces_the_whole(client: Client) -> None:
    error = held(WRAPPED)
    address = reverse("edit", args=[error.pk])
    page = client.get(address, {"part": "record"}).text
    assert "<textarea" not in page
    assert reverse("record", args=[error.pk]) in page
    form = {"version": 1, "part": "record", "file": a_file(b'{"a":\r\n1}')}
    assert client.post(address, form).status_code == 303
    assert kept(error) == b'{"a":\r\n1}'


class TestFileBesideText:
    """A message with a text field, replaced by a file: browsers send the text, too."""

    def beside(self, content: bytes, **more: object) -> dict[str, object]:
        return {"version": 1, "part": "record", "text": '{"a": 1}', "file": a_file(content), **more}

    def sent_on(self, page: str, **more: object) -> dict[str, object]:
        """What a browser sends of the page that answered, with no file chosen."""
        fields = re.findall(r'<input type="hidden" name="(\w+)" value="([^"]*)"', page)
        fields = [(name, value) for name, value in fields if name != "csrfmiddlewaretoken"]
        return {**dict(fields), "text": '{"a": 1}', **more}

    @pytest.mark.parametrize("verb", ["check", "edit"])
    def test_a_file_that_was_looked_at_is_not_exchanged_for_the_text(
        self, client: Client, verb: str
    ) -> None:
        error = held(b'{"a": 1}')
        content = b'{"a": 2}' if verb == "check" else b'{"a": }'
        page = client.post(reverse(verb, args=[error.pk]), self.beside(content)).text
        told = self.sent_on(page, anyway="1", then="release")
        answer = client.post(reverse("edit", args=[error.pk]), told)
        assert answer.status_code == 422
        error.refresh_from_db()
        assert (error.state, error.version) == ("HOLD", 1)
        # Whoever means the text says so once more.
        again = client.post(reverse("edit", args=[error.pk]), self.sent_on(answer.text))
        assert again.status_code == 303

    def test_a_text_of_somebody_else_is_not_replaced_by_an_older_one(self, client: Client) -> None:
        error = held(b'{"a": 1}')
        address = reverse("edit", args=[error.pk])
        client.post(address, {"version": 1, "part": "record", "text": '{"by": "emil"}'})
        lost = client.post(address, self.beside(b'{"a": 2}'))
        assert lost.status_code == 409
        answer = client.post(address, self.sent_on(lost.text, over="2"))
        assert answer.status_code == 422
        assert kept(error) == b'{"by": "emil"}'
        with_file = {**self.sent_on(lost.text, over="2"), "file": a_file(b'{"a": 2}')}
        assert client.post(address, with_file).status_code == 303
        assert kept(error) == b'{"a": 2}'


def test_a_file_uploaded_as_it_was_downloaded_is_no_edit(client: Client) -> None:
    error = held(WRAPPED)
    address = reverse("edit", args=[error.pk])
    document = client.get(reverse("document", args=[error.pk])).content
    form = {"version": 1, "part": "document", "document": a_file(document)}
    told = client.post(address, form, follow=True).content.decode()
    assert UNCHANGED.saved in told
    error.refresh_from_db()
    assert error.edited_payload is None


@pytest.mark.parametrize("part", ["document", "record"])
def test_saving_without_a_file_is_told_and_empties_nothing(client: Client, part: str) -> None:
    error = held(WRAPPED)
    form = {"version": 1, "part": part, "anyway": "1"}
    answer = client.post(reverse("edit", args=[error.pk]), form)
    assert answer.status_code == 422
    assert "No file was chosen" in answer.text
    assert kept(error) == WRAPPED


def test_bytes_that_are_no_text_are_not_emptied_either(client: Client) -> None:
    error = held(b"\xff\xfe\x00\x01")
    form = {"version": 1, "part": "record", "anyway": "1"}
    answer = client.post(reverse("edit", args=[error.pk]), form)
    assert answer.status_code == 422
    assert NO_FILE in answer.text


def test_a_document_that_is_not_utf_8_is_refused_in_words(client: Client) -> None:
    error = held(WRAPPED)
    form = {"version": 1, "part": "document", "document": a_file(b'{"a": "\xe9"}'), "anyway": "1"}
    answer = client.post(reverse("edit", args=[error.pk]), form)
    assert answer.status_code == 422
    assert "not UTF-8" in answer.text
    assert kept(error) == WRAPPED


def test_the_mark_that_some_editors_put_in_front_is_no_part_of_the_document(client: Client) -> None:
    error = held(WRAPPED)
    form = {"version": 1, "part": "document", "document": a_file(b'\xef\xbb\xbf{"a": 1}')}
    assert client.post(reverse("edit", args=[error.pk]), form).status_code == 303
    assert json.loads(kept(error))["payload"] == '{"a": 1}'


@pytest.mark.parametrize("name", ["document", "file"])
def test_a_file_beyond_what_the_engine_reads_is_refused_unread(client: Client, name: str) -> None:
    error = held(WRAPPED)
    form = {"version": 1, name: a_file(b"x" * (DEFAULT.max_bytes + 1)), "anyway": "1"}
    answer = client.post(reverse("edit", args=[error.pk]), form)
    assert answer.status_code == 422
    assert f"{DEFAULT.max_bytes:,}" in answer.text
    assert kept(error) == WRAPPED


def test_a_request_beyond_any_form_is_refused_before_it_is_read(client: Client) -> None:
    error = held(b"{}")
    answer = client.post(reverse("edit", args=[error.pk]), {}, CONTENT_LENGTH=str(10**9))
    assert answer.status_code == 413
    assert "at most" in answer.text
    assert "Nothing was changed" in answer.text


def test_what_is_spoilt_can_be_saved_all_the_same_with_its_file_chosen_again(
    client: Client,
) -> None:
    error = held(WRAPPED)
    address = reverse("edit", args=[error.pk])
    refused = client.post(address, {"version": 1, "document": a_file(b'{"a": }')})
    assert refused.status_code == 422
    assert "Save it anyway" in refused.text
    assert "Choose the file again" in unescape(refused.text)
    again = {"version": 1, "document": a_file(b'{"a": }'), "anyway": "1"}
    assert client.post(address, again).status_code == 303


def test_what_just_fits_is_still_a_text(client: Client) -> None:
    text = "[\n" + "x" * (FIELD_CHARACTERS - 4) + "\n]"
    page = client.get(reverse("edit", args=[held(text.encode()).pk])).text
    assert "<textarea" in page
    longer = held(f"{text} ".encode())
    assert "<textarea" not in client.get(reverse("edit", args=[longer.pk])).text


def test_the_document_needs_the_right_to_see_payloads_and_an_envelope(client: Client) -> None:
    error = held(WRAPPED)
    viewer = Client()
    viewer.force_login(a_person("Operators"))
    assert viewer.get(reverse("document", args=[error.pk])).status_code == 403
    bare = reverse("document", args=[held(b'{"a": 1}').pk])
    assert client.get(bare).status_code == 404
