"""On a queue with the retry wrapper the document is what is wrapped, wherever it is read."""

import json
from html import unescape
from typing import Any

import pytest
from django.urls import reverse
from django.utils import timezone

from console.layout.access import Right
from integration.models import (
    EnterpriseService,
    MessageError,
    ObjectStructure,
    OutboxRow,
    StoredObject,
)
from integration.policy.states import OutboxKind
from integration.recipe_rules import rules_now
from integration.recipe_use import Changed, Refused, Subject, use
from integration.recipes import compile_recipe
from integration.selectors.failures.edits import Part, editable
from integration.selectors.failures.failures import FailureFilter
from integration.selectors.failures.lateness import newer_data
from integration.selectors.failures.payload_search import search
from integration.selectors.masking.errors import MaskMovedError
from integration.selectors.masking.rules import masked_queues
from integration.selectors.masking.tryout import try_out
from integration.selectors.scope import EVERYTHING
from tests.functional.test_console_failure_edit import textarea
from tests.functional.test_masking import DOCUMENT, SECRET, a_failure, a_rule, page_of
from tests.functional.test_masking_planted import somebody
from tests.support.rows import a_queue_row, an_envelope

pytestmark = [pytest.mark.servers, pytest.mark.django_db]
TEXT = json.dumps(DOCUMENT)
WRAPPED_XML = f"<PO><card>{SECRET}</card><n>1</n></PO>"


def wrapped(message: object, count: int = 1) -> bytes:
    return json.dumps({"retryCount": count, "message": message}).encode()


SHAPES = [
    wrapped(DOCUMENT),
    wrapped(TEXT),
    wrapped(WRAPPED_XML),
    wrapped(json.loads(an_envelope(DOCUMENT))),
    wrapped(an_envelope(DOCUMENT).decode()),
]


def a_wrapped_failure(record: bytes, **fields: Any) -> MessageError:
    return a_failure(record, queue=a_queue_row("continuous", retry_wrapper=True), **fields)


@pytest.mark.parametrize("record", SHAPES)
def test_no_page_shows_and_no_download_hands_out_a_masked_value(record: bytes) -> None:
    a_rule()
    a_rule("/PO/card")
    error = a_wrapped_failure(record, text=f"no customer has {SECRET}")
    client = somebody(Right.REVEAL)
    for view in ("", "?view=raw"):
        page = unescape(client.get(reverse("failure", args=[error.pk]) + view).text)
        assert "⟦masked 1⟧" in page
        assert SECRET not in page
    assert SECRET not in client.get(reverse("edit", args=[error.pk])).text
    assert client.get(reverse("record", args=[error.pk])).status_code == 403


def test_a_message_that_cannot_be_read_is_hidden_whole() -> None:
    a_rule()
    error = a_wrapped_failure(wrapped(f'{{"card": "{SECRET}"'))
    assert SECRET not in page_of(somebody(Right.REVEAL), error)


@pytest.mark.parametrize("message", [DOCUMENT, TEXT])
def test_a_path_that_begins_at_the_wrapper_hides_too(message: object) -> None:
    """Another queue may read the same topic without opening it."""
    a_rule("$.message.card")
    error = a_wrapped_failure(wrapped(message))
    client = somebody(Right.REVEAL)
    assert SECRET not in page_of(client, error)
    shown = editable(error.pk, EVERYTHING)
    assert shown is not None
    made = shown.composed((shown.text or "").replace('"order": 1', '"order": 2'))
    new = json.loads(made)["message"]
    assert (json.loads(new) if message is TEXT else new) == {**DOCUMENT, "order": 2}
    assert client.get(reverse("record", args=[error.pk])).status_code == 403


@pytest.mark.parametrize("record", SHAPES)
def test_so_does_a_path_of_all_that_is_wrapped(record: bytes) -> None:
    a_rule("$.message")
    assert SECRET not in page_of(somebody(Right.REVEAL), a_wrapped_failure(record))


def test_a_path_into_an_envelope_in_a_wrapper_hides_too() -> None:
    a_rule("$.message.payload.card")
    record = wrapped({"INTERFACE": "ORDERS", "payload": DOCUMENT})
    assert SECRET not in page_of(somebody(Right.REVEAL), a_wrapped_failure(record))


def test_a_masked_text_is_not_found_and_another_is_however_it_is_wrapped() -> None:
    a_rule()
    errors = {a_wrapped_failure(wrapped({**DOCUMENT, "why": 'so "it" is'})).pk}
    errors.add(a_wrapped_failure(wrapped(json.dumps({**DOCUMENT, "why": 'so "it" is'}))).pk)

    def found(text: str) -> set[Any]:
        return {row.id for row in search(FailureFilter(text=text), EVERYTHING).rows}

    assert found('so "it" is') == errors
    assert found(SECRET) == set()


@pytest.mark.parametrize("record", SHAPES[:2])
def test_an_edit_keeps_the_wrapper_its_form_and_what_is_hidden(record: bytes) -> None:
    a_rule()
    error = a_wrapped_failure(record)
    client, address = somebody(Right.REVEAL), reverse("edit", args=[error.pk])
    text = textarea(client.get(address).text)
    assert "retryCount" not in text
    form = {"version": 1, "part": "document", "text": text.replace('"order": 1', '"order": 2')}
    assert client.post(address, form).status_code == 303
    error.refresh_from_db()
    new = json.loads(error.current_payload or b"")
    assert new["retryCount"] == 1
    was_text = isinstance(json.loads(record)["message"], str)
    assert isinstance(new["message"], str) is was_text
    document = json.loads(new["message"]) if was_text else new["message"]
    assert document == {**DOCUMENT, "order": 2}


def test_an_edit_puts_no_envelope_into_the_wrapper_beside_hidden_values() -> None:
    a_rule()
    message = editable(a_wrapped_failure(wrapped(DOCUMENT)).pk, EVERYTHING)
    assert message is not None
    assert message.part is Part.DOCUMENT
    text = json.loads(message.text or "")
    moved = json.dumps({**text, "INTERFACE": "X", "payload": text}, ensure_ascii=False)
    with pytest.raises(MaskMovedError):
        message.composed(moved)


def test_a_bulk_edit_changes_what_is_wrapped() -> None:
    queue = a_queue_row("continuous", retry_wrapper=True)
    subject = Subject(queue.pk, "ORDERS", wrapped(DOCUMENT, 3), [])
    status = compile_recipe('[{"op": "add", "path": "/status", "value": "NEW"}]')
    made = use(status, subject, rules_now(masked_queues()))
    assert isinstance(made, Changed)
    assert json.loads(made.record) == {"retryCount": 3, "message": {**DOCUMENT, "status": "NEW"}}
    a_rule(queue=queue)
    wrapping = '[{"op": "add", "path": "/INTERFACE", "value": "X"}, '
    wrapping += '{"op": "add", "path": "/payload", "value": "{}"}]'
    refused = use(compile_recipe(wrapping), subject, rules_now(masked_queues()))
    assert isinstance(refused, Refused)


@pytest.mark.parametrize("wraps", [True, None])
def test_the_outbox_shows_no_masked_value_of_what_is_wrapped(wraps: bool | None) -> None:
    """Without a queue nobody knows what the topic's readers open."""
    queue = a_queue_row("continuous", retry_wrapper=True)
    a_rule()
    row = OutboxRow.objects.create(
        topic=queue.topic if wraps else "elsewhere",
        provider=queue.provider,
        value=wrapped(TEXT),
        kind=OutboxKind.MESSAGE,
        created_at=timezone.now(),
    )
    page = somebody(Right.REVEAL).get(reverse("outbox-row", args=[row.pk]))
    assert page.status_code == 200
    assert "⟦masked 1⟧" in unescape(page.text)
    assert SECRET not in page.text


def test_newer_data_of_a_wrapped_message_is_named() -> None:
    structure = ObjectStructure.objects.create(name="order", key_paths=["$.order"])
    EnterpriseService.objects.create(interface="ORDERS", structure=structure)
    stored = {"structure": structure, "key": "1", "document": {}, "updated_at": timezone.now()}
    StoredObject.objects.create(**stored, arrival_batch=6, arrival_index=0)
    error = a_wrapped_failure(wrapped(TEXT), key=None, arrival_batch=5, arrival_index=0)
    assert newer_data(error) is not None


@pytest.mark.parametrize(("wraps", "masked"), [(True, 1), (False, 0), (None, 1)])
def test_a_rule_is_tried_on_a_wrapped_sample_as_its_queue_reads_it(
    wraps: bool | None, masked: int
) -> None:
    queue = None if wraps is None else a_queue_row(retry_wrapper=wraps)
    tried = try_out(wrapped(TEXT).decode(), a_rule(queue=queue))
    assert tried.view is not None
    assert tried.view.masked == masked
