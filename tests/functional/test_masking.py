"""Masking over HTTP: revealing one message, editing around placeholders, searching, exports."""

import base64
import json
from html import unescape
from pathlib import Path
from typing import Any

import pytest
from django.contrib.auth.models import Permission, User
from django.test import Client
from django.urls import reverse

from console.layout import reveals
from console.layout.access import Right
from crontasks.bulk.asking import Asker, ask, ask_by_schedule, ask_in_console
from crontasks.bulk.catalogue import CATALOGUE
from crontasks.bulk.errors import BulkError
from integration.models import (
    BulkRun,
    ConfigurationChange,
    EnterpriseService,
    ExternalSystem,
    MaskingRule,
    MessageError,
    ObjectStructure,
    Operation,
    OperationItem,
)
from integration.selectors.masking import covers
from integration.selectors.masking.rules import masks
from tests.functional.test_console_failure_edit import textarea
from tests.functional.test_masking_planted import somebody
from tests.support.http_api import problem
from tests.support.operator_api import a_program
from tests.support.rows import a_held, a_queue_row, an_envelope
from tests.support.tracks import a_track_row

pytestmark = [pytest.mark.servers, pytest.mark.django_db]
SECRET = "4000-1234-9999"
DOCUMENT = {"order": 1, "card": SECRET, "lines": [{"price": 1.10}]}


def a_rule(path: str = "$.card", **fields: Any) -> MaskingRule:
    return MaskingRule.objects.create(
        name=f"rule-{MaskingRule.objects.count()}", path=path, **fields
    )


def a_failure(payload: bytes | None = None, **fields: Any) -> MessageError:
    queue = fields.pop("queue", None) or a_queue_row("continuous")
    record = json.dumps(DOCUMENT).encode() if payload is None else payload
    return a_held(queue, interface="ORDERS", payload=record, **fields)


def page_of(client: Client, error: MessageError) -> str:
    return unescape(client.get(reverse("failure", args=[error.pk])).text)


def revealing() -> Client:
    client = Client()
    root = User.objects.filter(username="root").first()
    client.force_login(root or User.objects.create_superuser("root"))
    return client


def accesses() -> list[tuple[str, str, str, Any]]:
    rows = ConfigurationChange.every.filter(action="reveal").order_by("pk")
    return list(rows.values_list("actor", "name", "reason", "after"))


class TestReveal:
    def test_one_message_is_shown_to_one_session_with_a_reason_and_masked_again(self) -> None:
        a_rule()
        error, other = a_failure(text=f"No card {SECRET}"), a_failure()
        client = revealing()
        for one in (error, other):
            assert SECRET not in page_of(client, one)
        address = reverse("reveal", args=[error.pk])
        client.post(address, {"reason": "  "})
        assert SECRET not in page_of(client, error)
        assert accesses() == []
        client.post(address, {"reason": "The partner asks which card it was."})
        page = page_of(client, error)
        assert f'"card": "{SECRET}"' in page
        assert f"No card {SECRET}" in page
        assert SECRET not in page_of(client, other), "nothing but this message"
        assert SECRET in client.get(reverse("edit", args=[error.pk])).text
        assert SECRET.encode() in client.get(reverse("record", args=[error.pk])).content
        [(actor, name, reason, facts)] = accesses()
        assert (actor, name) == ("root", error.message_id)
        assert reason == "The partner asks which card it was."
        assert facts["paths"] == "$.card"
        again = Client()
        again.force_login(User.objects.get(username="root"))
        assert SECRET not in page_of(again, error), "nothing but this session"
        client.post(address, {"to": "mask"})
        assert SECRET not in page_of(client, error)

    def test_it_ends_by_itself_and_with_the_right(self) -> None:
        a_rule()
        error, client = a_failure(), revealing()
        client.post(reverse("reveal", args=[error.pk]), {"reason": "to see it"})
        assert SECRET in page_of(client, error)
        User.objects.update(is_superuser=False)
        User.objects.get(username="root").user_permissions.set(
            somebody_may(Right.VIEW, Right.VIEW_PAYLOAD)
        )
        assert SECRET not in page_of(client, error), "the right is gone"
        User.objects.update(is_superuser=True)
        assert SECRET in page_of(client, error)
        session = client.session
        session[reveals.KEPT] = dict.fromkeys(session[reveals.KEPT], 0.0)
        session.save()
        assert SECRET not in page_of(client, error), "its time is over"

    def test_who_may_not_reveal_is_refused_and_noted(self) -> None:
        a_rule()
        error, client = a_failure(), somebody(Right.REVEAL)
        answer = client.post(reverse("reveal", args=[error.pk]), {"reason": "curious"})
        assert answer.status_code == 403
        assert SECRET not in page_of(client, error)
        assert "You do not have the right to reveal" in page_of(client, error)
        refused = client.get(reverse("record", args=[error.pk]))
        assert refused.status_code == 403
        assert SECRET not in refused.text
        assert MaskingRule.objects.get().enabled
        rule = reverse("masking-rule-delete", args=[MaskingRule.objects.get().pk])
        assert client.post(rule, {"name": "rule-0"}).status_code == 403, "nor lifts the mask"


def somebody_may(*rights: Right) -> list[Any]:
    codes = [right.permission.split(".")[1] for right in rights]
    return list(Permission.objects.filter(codename__in=codes))


class TestShown:
    def test_a_rule_is_for_the_messages_that_all_its_limits_fit(self) -> None:
        mine, other = (ExternalSystem.objects.create(name=name) for name in ("EAM", "LAB"))
        structure = ObjectStructure.objects.create(name="order", key_paths=["$.order"])
        service = EnterpriseService.objects.create(interface="ORDERS", structure=structure)
        EnterpriseService.objects.create(interface="OTHER")
        queue = a_queue_row(system=mine)
        for limits in (
            {"system": mine},
            {"queue": queue},
            {"service": service},
            {"structure": structure},
            {"system": mine, "service": service},
        ):
            MaskingRule.objects.all().delete()
            a_rule(**limits)
            rules = masks()
            assert rules.of_queue(queue, "ORDERS").hides_payload, limits
            assert rules.of_queue(queue, "").hides_payload, "of no service, it may be"
            assert rules.of_queue(queue, "ORDRS").hides_payload, "of none that is set up, too"
            foreign = a_queue_row(system=other)
            is_far = bool({"system", "queue"} & limits.keys())
            assert rules.of_queue(foreign, "ORDERS").hides_payload is not is_far
            assert rules.of_queue(queue, "OTHER").hides_payload is bool(
                not {"service", "structure"} & limits.keys()
            )
        MaskingRule.objects.update(enabled=False)
        assert masks().of_queue(queue, "ORDERS").is_empty

    @pytest.mark.parametrize(
        "payload",
        [
            b'{"order": 1, "card": "4000-1234-9999"',
            b'{"card": "4000-1234-9999", "card": "4000-1234-9999"}',
            b"\xff\xfe4000-1234-9999",
            b'<!DOCTYPE a [<!ENTITY x "4000-1234-9999">]><a>&x;</a>',
            b'{"payload": "4000-1234-9999", "INTERFACE": "ORDERS", "compressed": "1"}',
        ],
    )
    def test_what_cannot_be_read_is_hidden_whole(self, payload: bytes) -> None:
        error, client = a_failure(payload, text=f"bad {SECRET}"), somebody(Right.REVEAL)
        assert SECRET in page_of(client, error) or SECRET.encode().hex(" ") in page_of(
            client, error
        )
        a_rule()
        for view in ("", "?view=raw"):
            page = client.get(reverse("failure", args=[error.pk]) + view).text
            assert SECRET not in page
            assert SECRET.encode()[:6].hex(" ") not in page
            assert f"{len(payload)} bytes are hidden" in page
        assert SECRET not in client.get(reverse("edit", args=[error.pk])).text

    def test_a_list_reads_so_much_and_hides_the_texts_of_the_rest(
        self, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        a_rule()
        queue = a_queue_row("continuous")
        small = a_failure(queue=queue, text=f"small {SECRET}")
        large = json.dumps({**DOCUMENT, "more": "x" * 1_000}).encode()
        a_failure(large, queue=queue, offset=11, text=f"large {SECRET}")
        monkeypatch.setattr(covers, "MOST_BYTES", len(bytes(small.payload or b"")) + 100)
        page = somebody(Right.REVEAL).get(reverse("failure-list"), {"state": ""}).text
        assert SECRET not in page
        assert "small ⟦masked⟧" in page
        assert "large" not in page

    def test_an_envelope_shows_its_document_masked_as_it_came_too(self) -> None:
        a_rule(style="last-four")
        error, client = a_failure(an_envelope(DOCUMENT)), somebody(Right.REVEAL)
        for view in ("", "?view=raw"):
            page = unescape(client.get(reverse("failure", args=[error.pk]) + view).text)
            assert "⟦masked 1: …9999⟧" in page
            assert SECRET not in page
        assert '"INTERFACE":"MXASSETInterface"' in page


class TestEdit:
    def test_what_is_left_alone_keeps_its_true_value(self) -> None:
        a_rule()
        a_rule("$.lines[*].price")
        error, client = a_failure(an_envelope(DOCUMENT)), somebody(Right.REVEAL)
        address = reverse("edit", args=[error.pk])
        text = textarea(client.get(address).text)
        assert text.count("⟦masked") == 2
        form = {"version": 1, "part": "document", "text": text.replace('"order": 1', '"order": 2')}
        assert client.post(address, form).status_code == 303
        error.refresh_from_db()
        envelope = json.loads(error.current_payload or b"")
        assert json.loads(envelope["payload"]) == {**DOCUMENT, "order": 2}
        assert "1.1" in envelope["payload"]
        page = page_of(client, error)
        assert SECRET not in page
        assert "Differences from the original" in page

    def test_a_text_that_is_sent_back_untouched_changes_nothing(self) -> None:
        a_rule()
        error, client = a_failure(), somebody(Right.REVEAL)
        address = reverse("edit", args=[error.pk])
        text = textarea(client.get(address).text)
        client.post(address, {"version": 1, "text": text.replace("\n", "\r\n")})
        error.refresh_from_db()
        assert error.version == 1
        assert error.edited_payload is None

    def test_a_moved_placeholder_is_refused_with_a_code(self) -> None:
        a_rule()
        error, client = a_failure(), somebody(Right.REVEAL)
        moved = '{"order": 1, "note": "⟦masked 1⟧"}'
        answer = client.post(
            reverse("edit", args=[error.pk]), {"version": 1, "text": moved, "anyway": "1"}
        )
        assert answer.status_code == 422
        assert "MASK_MOVED" in answer.text
        assert SECRET not in answer.text
        error.refresh_from_db()
        assert error.edited_payload is None

    def test_a_program_sends_back_what_it_read(self) -> None:
        a_rule()
        error, program = a_failure(), a_program()
        path = f"/failures/{error.pk}/payload"
        said = program.get(path).json()
        assert SECRET not in json.dumps(said)
        assert said["is_masked"]
        text = said["text"].replace('"order": 1', '"order": 5')
        answer = program.put(path, {"version": said["version"], "text": text, "anyway": True})
        assert answer.status_code == 200, answer.content
        error.refresh_from_db()
        assert json.loads(error.current_payload or b"") == {**DOCUMENT, "order": 5}
        version = answer.json()["version"]
        moved = {"version": version, "text": '{"x": "⟦masked 1⟧"}', "anyway": True}
        problem(program.put(path, moved), 422, "MASK_MOVED")
        whole = base64.b64encode('{"card": "⟦masked 1⟧"}'.encode()).decode()
        problem(program.put(path, {"version": version, "record": whole}), 422, "MASK_MOVED")
        problem(program.get(f"/failures/{error.pk}/record"), 403, "MASKED")


class TestSearch:
    def test_masked_text_is_found_by_nobody_and_other_text_is(self) -> None:
        error = a_failure()
        packed = a_failure(an_envelope({**DOCUMENT, "note": "findable"}))
        clients = (somebody(Right.REVEAL), revealing())

        def found(client: Client, text: str) -> set[Any]:
            query = {"state": "", "text": text, "since": "2020-01-01T00:00"}
            return {
                row.id for row in client.get(reverse("failure-list"), query).context["page"].rows
            }

        assert all(found(one, SECRET) == {error.pk, packed.pk} for one in clients)
        a_rule()
        assert all(found(one, SECRET) == set() for one in clients)
        assert all(found(one, SECRET[:6]) == set() for one in clients)
        assert all(found(one, "findable") == {packed.pk} for one in clients)

    def test_masked_keys_and_ids_are_not_found(self) -> None:
        EnterpriseService.objects.create(
            interface="ORDERS", external_id_path="$.card", search_paths=["$.order"]
        )
        queue, client = a_queue_row("continuous"), somebody(Right.REVEAL)
        error = a_failure(queue=queue, key=SECRET.encode())
        a_track_row(queue, interface="ORDERS", key=SECRET, external_id=SECRET, search_a="order-1")

        def tracked(**query: str) -> int:
            return len(client.get(reverse("tracking"), query).context["page"].rows)

        def failed() -> int:
            query = {"state": "", "key": SECRET}
            return len(client.get(reverse("failure-list"), query).context["page"].rows)

        assert (tracked(id=SECRET), tracked(key=SECRET), failed()) == (1, 1, 1)
        a_rule()
        MaskingRule.objects.create(name="keys", part="key")
        assert (tracked(id=SECRET), tracked(key=SECRET), failed()) == (0, 0, 0)
        assert tracked(id="order-1") == 1
        assert SECRET not in client.get(reverse("tracking"), {"id": "order-1"}).text
        assert SECRET not in page_of(client, error)
        EnterpriseService.objects.all().delete()
        assert tracked(id="order-1") == 0, "of a service that is gone nothing is known"


class TestBulk:
    def test_an_export_is_written_for_who_may_reveal_and_says_why(
        self, settings: Any, tmp_path: Path
    ) -> None:
        settings.SLUICE_BULK_ROOT = tmp_path
        structure = ObjectStructure.objects.create(name="order", key_paths=["$.order"])
        masked = {"what": "documents", "structure": "order"}
        wanted = {**masked, "unmasked": True}
        ask("export", wanted, actor="otto")
        a_rule(structure=structure)
        entry = CATALOGUE["export"]
        number = BulkRun.objects.get().pk

        def refusals() -> list[str]:
            codes = []
            for may_reveal, reason in ((False, "please"), (True, ""), (True, "audit of cards")):
                asker = Asker(name="otto", may_reveal=may_reveal)
                try:
                    ask_in_console(entry, wanted, asker, number=number, reason=reason)
                    codes.append("")
                except BulkError as refusal:
                    codes.append(refusal.job_code)
            return codes

        assert refusals() == ["MASKED_EXPORT", "MASKED_EXPORT", ""]
        with pytest.raises(BulkError) as refused:
            ask("export", wanted, actor="otto")
        assert refused.value.job_code == "MASKED_EXPORT"
        assert "masking" not in BulkRun.objects.get(pk=number).parameters
        by_schedule = ask_by_schedule("export", masked, actor="beat", instance=None)
        told = {"part": "payload", "path": "$.card", "style": "whole"}
        assert by_schedule.parameters["masking"] == [told]
        own = reverse("bulk-file", args=[by_schedule.pk, "part-0.jsonl"])
        assert somebody(Right.REVEAL).get(own).status_code == 404, "there is none, and they may ask"
        file = reverse("bulk-file", args=[number, "part-0.jsonl"])
        assert somebody(Right.REVEAL).get(file).status_code == 403
        assert revealing().get(file).status_code == 404, "there is none, and they may ask"

    def test_a_bulk_edit_copies_no_masked_value(self) -> None:
        a_rule()
        error, client = a_failure(), somebody(Right.REVEAL)
        operation = Operation.objects.create(
            verb="edit",
            title="Edit 1 message",
            actor="otto",
            state="PLANNED",
            total=1,
            queues=[error.queue_id],
            created_at=error.last_failed_at,
        )
        OperationItem.objects.create(
            operation=operation, place=0, error=error, version=error.version
        )
        address = reverse("operation-recipe", args=[operation.pk])
        for step in (
            {"op": "copy", "from": "/card", "path": "/note"},
            {"op": "move", "from": "/card", "path": "/note"},
            {"op": "test", "path": "/card", "value": SECRET},
        ):
            form = {"version": 0, "kind": "json", "patch": json.dumps([step])}
            answer = client.post(address, form)
            assert answer.status_code == 409, answer.text
            assert "compares or copies values" in unescape(answer.text)
        operation.refresh_from_db()
        assert operation.recipe == ""
