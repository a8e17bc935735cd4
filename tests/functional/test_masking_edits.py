"""Edits of a text that was made while values were masked, saved when they no longer are."""

import base64
import json
from collections.abc import Callable
from typing import Any

import pytest
from django.core.files.uploadedfile import SimpleUploadedFile
from django.test import Client
from django.urls import reverse

from integration.models import MaskingRule, MessageError
from tests.functional.test_console_failure_edit import textarea
from tests.functional.test_masking import DOCUMENT, SECRET, a_failure, a_rule, revealing
from tests.support.http_api import problem
from tests.support.operator_api import a_program
from tests.support.rows import a_queue_row, an_envelope

pytestmark = [pytest.mark.servers, pytest.mark.django_db]
EDITED = {**DOCUMENT, "order": 2}


def opened(client: Client, error: MessageError) -> str:
    """The editor's text, with another order."""
    text = textarea(client.get(reverse("edit", args=[error.pk])).text)
    assert "⟦masked 1⟧" in text
    return text.replace('"order": 1', '"order": 2')


def reveal(client: Client, error: MessageError) -> None:
    client.post(reverse("reveal", args=[error.pk]), {"reason": "which card it was"})


def document_of(error: MessageError) -> Any:
    error.refresh_from_db()
    record = json.loads(error.current_payload or b"")
    return json.loads(record["payload"]) if "payload" in record else record


@pytest.mark.parametrize("record", [json.dumps(DOCUMENT).encode(), an_envelope(DOCUMENT)])
def test_a_reveal_in_between_changes_no_value(record: bytes) -> None:
    a_rule()
    error, client = a_failure(record), revealing()
    text = opened(client, error)
    reveal(client, error)
    part = "document" if record == an_envelope(DOCUMENT) else "record"
    form = {"version": 1, "part": part, "text": text}
    assert client.post(reverse("edit", args=[error.pk]), form).status_code == 303
    assert document_of(error) == EDITED


def test_nor_does_a_file_that_was_downloaded_masked() -> None:
    a_rule()
    error, client = a_failure(an_envelope(DOCUMENT)), revealing()
    file = client.get(reverse("document", args=[error.pk])).content
    assert "⟦masked 1⟧".encode() in file
    reveal(client, error)
    changed = SimpleUploadedFile("d.txt", file.replace(b'"order": 1', b'"order": 2'))
    form = {"version": 1, "part": "record", "document": changed}
    assert client.post(reverse("edit", args=[error.pk]), form).status_code == 303
    assert document_of(error) == EDITED
    whole = SimpleUploadedFile("r.txt", '{"card": "⟦masked 1⟧"}'.encode())
    answer = client.post(reverse("edit", args=[error.pk]), {"version": 2, "file": whole})
    assert answer.status_code == 422
    assert "MASK_MOVED" in answer.text


@pytest.mark.parametrize(
    "loosen",
    [
        lambda: MaskingRule.objects.update(enabled=False),
        lambda: MaskingRule.objects.update(path="$.elsewhere"),
    ],
)
def test_a_rule_that_no_longer_hides_the_value_refuses_its_placeholder(
    loosen: Callable[[], int],
) -> None:
    a_rule()
    error, client, program = a_failure(), revealing(), a_program()
    text = opened(client, error)
    loosen()
    form = {"version": 1, "part": "record", "text": text, "anyway": "1"}
    answer = client.post(reverse("edit", args=[error.pk]), form)
    assert answer.status_code == 422
    assert "MASK_MOVED" in answer.text
    path = f"/failures/{error.pk}/payload"
    problem(program.put(path, {"version": 1, "text": text, "anyway": True}), 422, "MASK_MOVED")
    whole = {"version": 1, "record": base64.b64encode(text.encode()).decode(), "anyway": True}
    problem(program.put(path, whole), 422, "MASK_MOVED")
    assert document_of(error) == DOCUMENT


def test_a_message_that_came_with_such_a_text_can_be_edited() -> None:
    error, client = a_failure('{"order": 1, "card": "⟦masked 1⟧"}'.encode()), revealing()
    form = {"version": 1, "part": "record", "text": opened(client, error)}
    assert client.post(reverse("edit", args=[error.pk]), form).status_code == 303
    assert document_of(error) == {"order": 2, "card": "⟦masked 1⟧"}
    a_rule("$.order")
    reveal(client, error)
    form = {"version": 2, "part": "record", "text": '{"order": 3, "card": "⟦masked 1⟧"}'}
    assert client.post(reverse("edit", args=[error.pk]), form).status_code == 303
    assert document_of(error) == {"order": 3, "card": "⟦masked 1⟧"}


def test_placeholders_may_come_back_as_serializers_escape_them() -> None:
    a_rule(style="last-four")
    error, program = a_failure(), a_program()
    path = f"/failures/{error.pk}/payload"
    document = json.loads(program.get(path).json()["text"])
    assert document["card"] == "⟦masked 1: …9999⟧"
    text = json.dumps({**document, "order": 2})
    assert "\\u27e6masked" in text
    answer = program.put(path, {"version": 1, "text": text, "anyway": True})
    assert answer.status_code == 200, answer.content
    assert document_of(error) == EDITED


@pytest.mark.parametrize("path", ["$.card", "$..card"])
@pytest.mark.parametrize("is_wrapped", [False, True])
def test_a_record_that_was_opened_revealed_is_not_put_into_itself_masked(
    path: str, *, is_wrapped: bool
) -> None:
    a_rule(path)
    inside = {"retryCount": 1, "message": DOCUMENT}
    record = json.dumps(inside if is_wrapped else {"INTERFACE": "X", "payload": DOCUMENT}).encode()
    error = a_failure(record, queue=a_queue_row("continuous", retry_wrapper=is_wrapped))
    client, address = revealing(), reverse("edit", args=[error.pk])
    reveal(client, error)
    text = textarea(client.get(address, {"part": "record"}).text)
    assert SECRET in text
    client.post(reverse("reveal", args=[error.pk]), {"to": "mask"})
    form = {"version": 1, "part": "record", "text": text.replace('"order": 1', '"order": 2')}
    for part in ("record", "document"):
        answer = client.post(address, {**form, "part": part, "anyway": "1"})
        assert answer.status_code == 422, part
        assert "MASK_MOVED" in answer.text
    assert 'name="part" value="document"' in answer.text
    broken = {**form, "text": text.replace("{", "{{", 1), "anyway": "1"}
    answer = client.post(address, broken)
    assert answer.status_code == 422
    assert 'name="part" value="record"' in answer.text
    asked = {**form, "anyway": True}
    problem(a_program().put(f"/failures/{error.pk}/payload", asked), 422, "MASK_MOVED")
    error.refresh_from_db()
    assert error.current_payload == record


def test_a_program_may_name_the_record_and_write_the_document_it_was_shown() -> None:
    a_rule()
    error, program = a_failure(an_envelope(DOCUMENT)), a_program()
    path = f"/failures/{error.pk}/payload"
    text = program.get(path, part="record").json()["text"].replace('"order": 1', '"order": 2')
    asked = {"version": 1, "part": "record", "text": text, "anyway": True}
    answer = program.put(path, asked)
    assert answer.status_code == 200, answer.content
    assert document_of(error) == EDITED
