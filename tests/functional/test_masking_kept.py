"""What is masked stays so: whatever is edited, named, moved or asked for by who may not reveal."""

import json
from datetime import timedelta
from typing import Any
from uuid import uuid4

import pytest
from django.db.models import Value
from django.urls import reverse

from console.failures.checks import Made, shown
from console.layout.access import Right
from crontasks.bulk.asking import Asker, ask_in_console
from crontasks.bulk.catalogue import CATALOGUE
from integration.actions import operations
from integration.actions.check import Check, DocumentChange, Ending
from integration.actions.failures import edit
from integration.actions.operation_trials import go_on_trying
from integration.masking.mask import HIDDEN, Part, Rule, mask_of
from integration.masking.matcher import Style
from integration.models import MessageError, ObjectStructure, OperationItem
from integration.recipe_rules import rules_now
from integration.recipe_use import Changed, Refused, Subject, use
from integration.recipes import compile_recipe
from integration.selectors.failures.edits import editable
from integration.selectors.failures.failures import FailureFilter, matching
from integration.selectors.failures.payloads import show
from integration.selectors.masking import covers
from integration.selectors.masking.covers import UNCOVERED, covers_of
from integration.selectors.masking.errors import MaskMovedError
from integration.selectors.masking.rules import any_rules, masked_queues, masks
from integration.selectors.scope import EVERYTHING
from integration.store.reads import reading_standby
from integration.values import Outgoing
from tests.functional.test_console_failure_edit import textarea
from tests.functional.test_masking import DOCUMENT, SECRET, a_failure, a_rule, page_of, revealing
from tests.functional.test_masking_planted import somebody
from tests.support.operations import plan, run, started
from tests.support.rows import a_place, a_queue_row, an_envelope
from tests.support.tracks import a_track_row

pytestmark = [pytest.mark.servers, pytest.mark.django_db]
WRAPPING = [
    {"op": "add", "path": "/INTERFACE", "value": "X"},
    {"op": "add", "path": "/payload", "value": "{}"},
]


class TestEnvelopes:
    def test_an_edit_puts_no_envelope_beside_hidden_values(self) -> None:
        a_rule()
        error, client = a_failure(), somebody(Right.REVEAL)
        address = reverse("edit", args=[error.pk])
        text = json.loads(textarea(client.get(address).text))
        wrapped = json.dumps({**text, "INTERFACE": "X", "payload": "{}"}, ensure_ascii=False)
        answer = client.post(address, {"version": 1, "text": wrapped, "anyway": "1"})
        assert answer.status_code == 422
        assert "MASK_MOVED" in answer.text
        error.refresh_from_db()
        assert error.edited_payload is None
        message = editable(error.pk, EVERYTHING)
        assert message is not None
        with pytest.raises(MaskMovedError):
            message.with_document(wrapped.encode())
        xml = f"<a/><!-- {json.dumps(text, ensure_ascii=False)} -->"
        with pytest.raises(MaskMovedError):
            message.composed(xml)

    def test_a_document_without_hidden_values_gets_its_envelope(self) -> None:
        a_rule()
        message = editable(a_failure().pk, EVERYTHING)
        assert message is not None
        envelope = an_envelope({"order": 1}).decode()
        assert message.composed(envelope) == envelope.encode()

    def test_a_recipe_leaves_out_what_it_would_wrap_where_a_rule_is(self) -> None:
        queue = a_queue_row("continuous")
        subject = Subject(queue.pk, "ORDERS", json.dumps(DOCUMENT).encode(), [])
        recipe = compile_recipe(json.dumps(WRAPPING))
        assert isinstance(use(recipe, subject, rules_now(masked_queues())), Changed)
        a_rule(queue=a_queue_row())
        assert isinstance(use(recipe, subject, rules_now(masked_queues())), Changed), (
            "of another queue"
        )
        a_rule(queue=queue)
        refused = use(recipe, subject, rules_now(masked_queues()))
        assert isinstance(refused, Refused)
        assert refused.why.startswith("MASK_MOVED")
        harmless = compile_recipe(json.dumps(WRAPPING[:1]))
        assert isinstance(use(harmless, subject, rules_now(masked_queues())), Changed)

    def test_an_envelope_with_a_masked_member_is_not_shown_as_it_came(self) -> None:
        record = json.dumps({**DOCUMENT, "INTERFACE": "X", "payload": '{"order": 1}'}).encode()
        mask = mask_of(frozenset({Rule(Part.PAYLOAD, "$.card", Style.WHOLE)}))
        view = show(record, [], mask=mask)
        assert (view.raw, view.is_wrapped) == ("", True)
        assert json.loads(view.pretty) == {"order": 1}
        a_rule()
        error, client = a_failure(record), somebody(Right.REVEAL)
        for address in ("edit", "failure"):
            for query in ("", "?view=raw", "?part=record"):
                page = client.get(reverse(address, args=[error.pk]) + query).text
                assert SECRET not in page, (address, query)
        assert client.get(reverse("record", args=[error.pk])).status_code == 403
        query = {"state": "", "text": SECRET, "since": "2020-01-01T00:00"}
        assert not client.get(reverse("failure-list"), query).context["page"].rows


class TestSentences:
    @pytest.mark.parametrize("code", ["BAD_FIELD", "NO_KEY", "CARD_REFUSED"])
    def test_a_handler_s_sentence_is_covered_whatever_it_calls_its_code(self, code: str) -> None:
        a_rule()
        error = a_failure(code=code, text=f"No card {SECRET}")
        page = page_of(somebody(Right.REVEAL), error)
        assert SECRET not in page
        assert "No card ⟦masked⟧" in page

    def test_the_engine_s_sentence_on_bytes_it_cannot_read_is_kept(self) -> None:
        a_rule()
        record = b'{"order": 1, "card": "4000-1234-9999"'
        flaw = show(record, [], mask=mask_of(frozenset())).flaw_code
        error = a_failure(record, code=flaw, text="The record ends too soon.")
        assert "The record ends too soon." in page_of(somebody(Right.REVEAL), error)
        other = a_failure(record, code="BAD_FIELD", text=f"It ends at {SECRET}.")
        assert SECRET not in page_of(somebody(Right.REVEAL), other), "no such flaw is in it"


class TestMade:
    def test_a_check_hides_what_is_stored_and_sent_by_the_rules_of_where_it_goes(self) -> None:
        structure = ObjectStructure.objects.create(name="order", key_paths=["$.order"])
        there = a_queue_row(topic="there")
        a_rule("$.pin", structure=structure)
        a_rule("$.token", queue=there)
        error = a_failure()
        text = json.dumps({"order": 1, "pin": "stored-pin", "token": "sent-token"})
        found = Check(
            ending=Ending.APPLIED,
            interface="ORDERS",
            document=DocumentChange("order", "1", "", text),
            sent=(Outgoing("there", text.encode(), provider_id=there.provider_id),),
        )
        page = shown(found, UNCOVERED, Made(error, masks()))
        assert page.document is not None
        assert "stored-pin" not in str(page.document)
        [(_, _, view)] = page.sent
        assert "sent-token" not in view.pretty + view.raw
        assert "stored-pin" in str(shown(found, UNCOVERED).document), "of a revealed message"

    def test_a_tracked_payload_is_masked_by_the_queue_that_kept_it(self) -> None:
        one, other = a_queue_row(), a_queue_row()
        a_rule(queue=one)
        keep = {"message_id": "twice", "payload": json.dumps(DOCUMENT).encode()}
        a_track_row(one, ago=timedelta(minutes=9), **keep)
        a_track_row(other, ago=timedelta(minutes=3), message_id="twice")
        page = somebody(Right.REVEAL).get(reverse("tracked-message"), {"id": "twice"}).text
        assert "⟦masked 1⟧" in page
        assert SECRET not in page


class TestRepairs:
    def test_who_may_reveal_leaves_no_message_out(self) -> None:
        queue = a_queue_row()
        a_rule(queue=queue)
        entry = CATALOGUE["repair"]
        wanted = {"queue": queue.name, "recipe": json.dumps(WRAPPING)}
        left = ask_in_console(entry, wanted, Asker(name="otto"), number=uuid4())
        assert left.parameters["masked"] == [queue.pk]
        taken = ask_in_console(entry, wanted, Asker(name="rita", may_reveal=True), number=uuid4())
        assert "masked" not in taken.parameters


class TestGuesses:
    """A bulk edit that sets a value does not tell whether it was that value before."""

    @pytest.mark.parametrize("is_masked", [True, False])
    def test_true_and_false_values_come_to_the_same(self, is_masked: bool) -> None:
        queue = a_queue_row("continuous")
        error = a_failure(queue=queue)
        if is_masked:
            a_rule(queue=queue)
        counts = []
        for guess in (SECRET, "1111-0000-2222"):
            operation = plan("edit")
            recipe = json.dumps([{"op": "replace", "path": "/card", "value": guess}])
            operations.set_recipe(operation.pk, recipe, version=operation.version)
            trial = go_on_trying(operation.pk)
            assert trial is not None
            counts.append((trial.fits, trial.same, trial.invalid))
        assert error.version == 1
        assert counts == [(1, 0, 0) if is_masked else (0, 1, 0), (1, 0, 0)]

    def test_the_operation_changes_what_it_said_it_would(self) -> None:
        queue = a_queue_row("continuous")
        error = a_failure(queue=queue)
        a_rule(queue=queue)
        operation = plan("edit")
        recipe = json.dumps([{"op": "replace", "path": "/card", "value": SECRET}])
        operations.set_recipe(operation.pk, recipe, version=operation.version)
        go_on_trying(operation.pk)
        operation.refresh_from_db()
        started(operation, reason="agreed")
        run(operation)
        [item] = OperationItem.objects.filter(operation=operation)
        error.refresh_from_db()
        assert (item.outcome, error.version > 1) == ("DONE", True)
        assert json.loads(bytes(error.current_payload or b"")) == DOCUMENT


class TestFormerEdits:
    """An error may quote what an edit wrote that another edit has replaced since."""

    FORMER = "5555-6666-7777"

    def edited(self, **fields: Any) -> MessageError:
        error = a_failure(text=f"No card {self.FORMER}.", **fields)
        for version, card in enumerate((self.FORMER, "1111-0000-2222"), 1):
            document = json.dumps({**DOCUMENT, "card": card}).encode()
            edit(error.pk, version=version, actor="rita", payload=document)
        return error

    def test_its_values_are_hidden_on_the_page_and_in_lists(self) -> None:
        error = self.edited()
        page, listed = page_of(somebody(Right.REVEAL), error), covers_of([error.pk])
        assert self.FORMER in page
        assert listed == {}
        a_rule()
        assert self.FORMER not in page_of(somebody(Right.REVEAL), error)
        assert self.FORMER not in covers_of([error.pk])[error.pk].text(error.text)

    def test_a_page_reads_so_many_bytes_of_them_and_no_text_where_there_are_more(
        self, monkeypatch: Any
    ) -> None:
        a_rule()
        error = self.edited()
        MessageError.objects.filter(pk=error.pk).update(text="No such order.")
        assert "No such order." in page_of(somebody(), error)
        replaced = len(json.dumps({**DOCUMENT, "card": self.FORMER}).encode())
        monkeypatch.setattr(covers, "MOST_FORMER_BYTES", replaced - 1)
        page = page_of(somebody(), error)
        assert HIDDEN in page
        assert "No such order." not in page

    def test_a_list_takes_no_query_for_each_and_counts_them_to_what_it_reads(
        self, monkeypatch: Any, django_assert_num_queries: Any
    ) -> None:
        a_rule()
        queue = a_queue_row()
        errors = [self.edited(queue=queue, offset=n).pk for n in range(3)]
        # The rules, the limits, the sizes, the failures and their former versions.
        with django_assert_num_queries(5):
            told = [cover.text("No such order.") for cover in covers_of(errors).values()]
        assert told == ["No such order."] * 3
        error = MessageError.objects.get(pk=errors[0])
        size = sum(len(bytes(one or b"")) for one in (error.payload, error.edited_payload))
        monkeypatch.setattr(covers, "MOST_BYTES", size + 10)
        told = [cover.text("No such order.") for cover in covers_of(errors).values()]
        assert told == [HIDDEN] * 3


def test_djangos_admin_shows_why_a_partition_stopped_without_hidden_values() -> None:
    queue = a_queue_row()
    error = a_failure(queue=queue)
    place = a_place(queue, state_text=f"No card {SECRET}.", state_error=error.pk)
    address = reverse("admin:integration_queuepartition_change", args=[place.pk])
    assert SECRET in revealing().get(address).text
    a_rule(queue=queue)
    page = revealing().get(address).text
    assert "No card" in page
    assert SECRET not in page


class TestKeys:
    def test_a_key_that_repeats_a_hidden_value_is_not_found(self) -> None:
        queue, other = a_queue_row(), a_queue_row()
        hidden = a_failure(queue=queue, key=SECRET.encode())
        elsewhere = a_failure(queue=other, key=SECRET.encode())
        plain = a_failure(queue=queue, key=b"order-4711", offset=77)

        def found(key: str) -> set[Any]:
            return {row.pk for row in matching(FailureFilter(state="", key=key), EVERYTHING)}

        assert found(SECRET) == {hidden.pk, elsewhere.pk}
        a_rule(queue=queue)
        assert found(SECRET) == {elsewhere.pk}
        assert found("order-4711") == {plain.pk}

    def test_a_page_of_a_standby_reads_rules_where_they_are_stored(self, settings: Any) -> None:
        a_rule()
        settings.SLUICE_REPLICA = "not-there"
        settings.DATABASE_ROUTERS = ["integration.store.reads.Router"]
        with reading_standby():
            assert masks().rules
            assert isinstance(any_rules(), Value)
