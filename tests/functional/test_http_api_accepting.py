"""Posts into a queue: durable before they are answered, in the right queue, all or nothing."""

import base64
import json
from decimal import Decimal

import jsonschema
import pytest

from console.http_api import openapi
from crontasks.health import flow_set_up
from integration.codec import decode_headers
from integration.delivery.reading import Reader
from integration.http_api.accepting import accept
from integration.http_api.bodies import Piece
from integration.http_api.receipts import Answer, Post, answered_once
from integration.http_api.routes import queue_for
from integration.models import EnterpriseService, MessageError, OutboxRow, Receipt
from integration.store import configuration
from integration.values import Record
from tests.support.http_api import SERVICE, a_partner, forget, problem
from tests.support.rows import a_held, a_queue_row

pytestmark = [pytest.mark.servers, pytest.mark.django_db]


def unit_of(row: OutboxRow, queue_id: int):
    """The row as a run reads it once it is in Kafka."""
    record = Record(0, 0, None, row.key, bytes(row.value), decode_headers(row.headers))
    return Reader(configuration.snapshot(queue_id, worker="test")).unit(record)


class TestOnePost:
    def test_it_is_stored_as_the_engine_reads_it_before_it_is_answered(self) -> None:
        partner = a_partner()
        answer = partner.post(b'{"n": 1.50}', headers={"Sluice-Key": "A-1"})
        assert answer.status_code == 202
        said = answer.json()
        row = OutboxRow.objects.get()
        assert (row.topic, row.state, row.kind) == (partner.queue.topic, "PENDING", "MESSAGE")
        assert (bytes(row.value), bytes(row.key)) == (b'{"n": 1.50}', b"A-1")
        assert (row.message_id, row.strict_queue) == (said["message_id"], None)
        unit = unit_of(row, partner.queue.pk)
        assert (unit.message_id, unit.interface) == (said["message_id"], SERVICE)
        assert unit.message.sender == partner.system.name
        assert unit.message.body == {"n": Decimal("1.50")}
        assert (said["count"], said["state"], said["repeated"]) == (1, "accepted", False)
        assert answer["Location"] == f"/esqueue/{partner.system.name}/messages/{row.message_id}"
        assert "Set-Cookie" not in answer

    def test_a_sequential_queues_rows_keep_their_order(self) -> None:
        partner = a_partner("sequential")
        assert partner.post({"n": 1}).status_code == 202
        assert OutboxRow.objects.get().strict_queue == partner.queue.pk

    def test_switched_off_and_paused_it_is_accepted_and_waits(self) -> None:
        partner = a_partner(enabled=False)
        partner.queue.paused = True
        partner.queue.enabled = False
        partner.queue.save()
        EnterpriseService.objects.filter(interface=SERVICE).update(enabled=False)
        assert partner.post({"n": 1}).status_code == 202
        assert OutboxRow.objects.count() == 1

    def test_an_envelope_is_opened_and_its_user_kept(self) -> None:
        partner = a_partner()
        envelope = {"INTERFACE": SERVICE, "USER": "WILSON", "payload": '{"n": 1}'}
        assert partner.post(envelope).status_code == 202
        unit = unit_of(OutboxRow.objects.get(), partner.queue.pk)
        assert (unit.message.body, unit.message.user) == ({"n": 1}, "WILSON")

    def test_an_envelope_cannot_name_another_service(self) -> None:
        partner = a_partner()
        EnterpriseService.objects.create(interface="Secret")
        inner = {"INTERFACE": "Secret", "payload": "{}"}
        problem(partner.post(inner), 422, "OTHER_SERVICE")
        nested = {"INTERFACE": SERVICE, "payload": '{"INTERFACE": "Secret", "payload": {}}'}
        problem(partner.post(nested), 422, "NESTED_ENVELOPE")
        problem(partner.post([{"n": 1}, inner]), 422, "OTHER_SERVICE")
        for message in (inner, json.dumps(inner)):
            wrapped = {"retryCount": 0, "message": message}
            enclosed = {"INTERFACE": SERVICE, "payload": wrapped}
            for body in (wrapped, enclosed, [{"n": 1}, wrapped]):
                problem(partner.post(body), 422, "NESTED_ENVELOPE")
        assert not OutboxRow.objects.exists()


class TestSeveralMessages:
    def test_an_array_becomes_one_message_for_each_element(self) -> None:
        partner = a_partner("sequential")
        answer = partner.post(b'[{"n": 1.0}, {"n":2}, {"n": 3}]')
        said = answer.json()
        assert (answer.status_code, said["count"]) == (202, 3)
        rows = list(OutboxRow.objects.order_by("id"))
        assert [bytes(row.value) for row in rows] == [b'{"n": 1.0}', b'{"n":2}', b'{"n": 3}']
        assert [row.message_id for row in rows] == [f"{said['message_id']}.{n}" for n in (1, 2, 3)]

    def test_the_set_of_an_xml_document_is_split_and_its_shell_kept(self) -> None:
        partner = a_partner()
        body = (
            b'<?xml version="1.0" encoding="ISO-8859-1"?><SyncA xmlns="urn:a" id="7"><ASet>'
            b"<A><n>\xe4</n></A><A><n>2</n></A></ASet></SyncA>"
        )
        answer = partner.post(body, content_type="text/xml")
        assert (answer.status_code, answer.json()["count"]) == (202, 2)
        first, second = (bytes(r.value).decode() for r in OutboxRow.objects.order_by("id"))
        assert "<A><n>ä</n></A></ASet></SyncA>" in first
        assert 'id="7"' in first
        assert "<A><n>2</n></A></ASet></SyncA>" in second
        assert 'xmlns="urn:a"' in second

    def test_one_element_of_a_set_stays_as_it_came(self) -> None:
        partner = a_partner()
        body = b"<SyncA><ASet><A> x </A></ASet></SyncA>"
        assert partner.post(body, content_type="application/xml").json()["count"] == 1
        assert bytes(OutboxRow.objects.get().value) == body

    def test_one_bad_element_refuses_all(self) -> None:
        partner = a_partner()
        said = problem(partner.post(b'[{"n": 1}, {"n": "\\ud800"}]'), 422, "LONE_SURROGATE")
        assert "half" in said["detail"]
        problem(partner.post(b'[{"n": 1}, null]'), 422, "EMPTY_BODY")
        assert not OutboxRow.objects.exists()
        assert not Receipt.objects.exists()

    def test_more_than_one_request_may_hold_is_refused(self) -> None:
        partner = a_partner()
        problem(partner.post(b"[" + b",".join([b"1"] * 5_001) + b"]"), 413, "TOO_MANY_MESSAGES")
        assert partner.post(b"[" + b",".join([b"1"] * 5_000) + b"]").json()["count"] == 5_000
        assert OutboxRow.objects.count() == 5_000

    def test_a_set_whose_shell_would_be_repeated_without_end_is_refused(self) -> None:
        partner = a_partner(max_body_bytes=100_000)
        shell = b'<OSet note="' + b"x" * 50_000 + b'">'
        xml = {"content_type": "application/xml"}
        problem(partner.post(shell + b"<O/>" * 1_000 + b"</OSet>", **xml), 413, "BODY_TOO_LARGE")
        problem(partner.post(b"<OSet>" + b"<O/>" * 5_001 + b"</OSet>", **xml), 413,
                "TOO_MANY_MESSAGES")  # fmt: skip
        assert partner.post(shell + b"<O/>" * 7 + b"</OSet>", **xml).json()["count"] == 7


class TestTheQueue:
    def test_the_one_whose_default_service_it_is_takes_it(self) -> None:
        partner = a_partner()
        service = EnterpriseService.objects.get(interface=SERVICE)
        second = a_queue_row("continuous", system=partner.system, default_service=service)
        assert partner.post({}).status_code == 202
        assert OutboxRow.objects.get().topic == second.topic

    def test_else_the_only_one_without_a_default_takes_it(self) -> None:
        partner = a_partner()
        other = EnterpriseService.objects.create(interface="Other")
        a_queue_row("sequential", system=partner.system, default_service=other)
        assert partner.post({}).status_code == 202
        assert OutboxRow.objects.get().topic == partner.queue.topic
        # One of its own comes first.
        service = EnterpriseService.objects.get(interface=SERVICE)
        own = a_queue_row("continuous", system=partner.system, default_service=service)
        forget()
        assert partner.post({}).status_code == 202
        assert OutboxRow.objects.latest("id").topic == own.topic

    def test_where_all_are_the_defaults_of_others_none_is_chosen(self) -> None:
        partner = a_partner("")
        for name in ("Other", "Third"):
            other = EnterpriseService.objects.create(interface=name)
            a_queue_row("sequential", system=partner.system, default_service=other)
        problem(partner.post({}), 503, "AMBIGUOUS_QUEUE")

    def test_the_only_one_takes_it_whatever_its_default_is(self) -> None:
        partner = a_partner("")
        other = EnterpriseService.objects.create(interface="Other")
        a_queue_row("sequential", system=partner.system, default_service=other)
        assert partner.post({}).status_code == 202

    def test_several_without_a_default_are_told_to_whoever_can_mend_it(self) -> None:
        partner = a_partner()
        other = a_queue_row("continuous", system=partner.system)
        answer = partner.post({})
        said = problem(answer, 503, "AMBIGUOUS_QUEUE")
        assert other.name in said["detail"]
        assert SERVICE in said["next_step"]
        # And by the look at the flow, before anybody posts.
        looked = flow_set_up.system(partner.queue)
        assert "AMBIGUOUS_QUEUE" in str(looked)
        assert other.name in str(looked)
        assert answer["Retry-After"] == "300"
        assert not OutboxRow.objects.exists()

    def test_without_an_inbound_queue_nothing_is_accepted(self) -> None:
        partner = a_partner("")
        a_queue_row("continuous", system=partner.system, direction="outbound")
        a_queue_row("sequential", system=partner.system, is_error_queue=True)
        problem(partner.post({}), 503, "NO_QUEUE")

    def test_an_unknown_service_is_not_there(self) -> None:
        problem(a_partner().post({}, service="Wrold"), 404, "NO_SUCH_SERVICE")


class TestTheSendersOwnId:
    ID = {"Idempotency-Key": "order-7"}

    def test_a_repetition_gets_the_same_answer_and_stores_nothing(self) -> None:
        partner = a_partner()
        first = partner.post({"n": 1}, headers=self.ID)
        again = partner.post({"n": 1}, headers=self.ID)
        assert (first.status_code, again.status_code) == (202, 202)
        assert first.json() == {**again.json(), "repeated": False}
        assert again.json()["repeated"] is True
        assert again["Idempotent-Replayed"] == "true"
        assert "Idempotent-Replayed" not in first
        assert OutboxRow.objects.count() == Receipt.objects.count() == 1

    @pytest.mark.parametrize("kind", ["continuous", "sequential"])
    @pytest.mark.parametrize("count", [1, 3])
    def test_whoever_comes_second_past_the_first_look_stores_nothing(
        self, kind: str, count: int
    ) -> None:
        partner = a_partner(kind)
        post = Post(
            system_id=partner.system.pk,
            system=partner.system.name,
            service=SERVICE,
            body=b"{}",
            sender_id="order-7",
        )
        queue = queue_for(partner.system.pk, partner.system.name, SERVICE)
        pieces = [Piece(b'{"n": 1}')] * count
        faster = []

        def act() -> Answer:
            faster.append(accept(post, pieces, queue))
            return accept(post, pieces, queue)

        answer = answered_once(post, act)
        assert (faster[0].is_repeat, answer.is_repeat) == (False, True)
        assert faster[0].facts == answer.facts
        stored = list(OutboxRow.objects.order_by("id").values_list("id", flat=True))
        receipt = Receipt.objects.get()
        assert len(stored) == receipt.count == count
        assert receipt.last_row == stored[-1]
        assert stored[0] - 1 <= receipt.first_row <= stored[0]

    def test_another_body_service_or_key_under_it_is_refused(self) -> None:
        partner = a_partner()
        EnterpriseService.objects.create(interface="Other")
        partner.post({"n": 1}, headers=self.ID)
        for body, how in (
            ({"n": 2}, {"headers": self.ID}),
            ({"n": 1}, {"headers": self.ID, "service": "Other"}),
            ({"n": 1}, {"headers": {**self.ID, "Sluice-Key": "k"}}),
            ({"n": 1}, {"headers": self.ID, "address": "es"}),
        ):
            problem(partner.post(body, **how), 409, "SENDER_ID_REUSED")
        assert OutboxRow.objects.count() == 1

    def test_the_message_id_derives_from_the_system_and_the_id(self) -> None:
        partner, other = a_partner(), a_partner()
        ids = {p.post({}, headers=self.ID).json()["message_id"] for p in (partner, other)}
        assert len(ids) == 2
        Receipt.objects.all().delete()
        assert partner.post({}, headers=self.ID).json()["message_id"] in ids

    def test_a_name_that_another_system_had_before_makes_no_id_twice(self) -> None:
        old = a_partner(name="erp")
        first = old.post({"n": 1}, headers=self.ID).json()["message_id"]
        old.system.name = "erp-before"
        old.system.save()
        new = a_partner(name="erp")
        second = new.post({"n": 1}, headers=self.ID).json()
        assert (second["repeated"], second["message_id"] == first) == (False, False)

    def test_both_headers_may_carry_it_if_they_agree(self) -> None:
        partner = a_partner()
        first = partner.post({}, headers={"Idempotency-Key": '"a b"'}).json()
        again = partner.post({}, headers={"Sluice-Message-Id": "a b"}).json()
        assert again["message_id"] == first["message_id"]
        assert again["repeated"]
        both = {"Idempotency-Key": "a", "Sluice-Message-Id": "b"}
        problem(partner.post({}, headers=both), 400, "BAD_HEADER")

    @pytest.mark.parametrize("bad", ["x" * 201, "\xe4", '""', " "])
    def test_an_unusable_id_is_told(self, bad: str) -> None:
        problem(a_partner().post({}, headers={"Idempotency-Key": bad}), 400, "BAD_HEADER")


class TestWhatBecameOfIt:
    def state(self, partner, id_: str) -> str:
        answer = partner.ask(id_)
        assert answer.status_code == 200
        jsonschema.validate(answer.json(), openapi.SCHEMAS["Fate"])
        return answer.json()["state"]

    def test_from_accepted_over_kafka_to_held_and_deleted(self) -> None:
        partner = a_partner()
        id_ = partner.post({"n": 1}, headers={"Idempotency-Key": "a/b c"}).json()["message_id"]
        assert self.state(partner, id_) == "accepted"
        OutboxRow.objects.update(state="PUBLISHED", published_at="2026-01-02T03:04:05Z")
        told = partner.ask(id_).json()
        assert (told["state"], told["since"]) == ("in_kafka", "2026-01-02T03:04:05+00:00")
        error = a_held(partner.queue, message_id=id_, text="The priority is missing.")
        told = partner.ask(id_).json()
        assert (told["state"], told["code"]) == ("held", "BAD_VALUE")
        assert (told["detail"], told["attempts"]) == ("The priority is missing.", 4)
        assert "payload" not in str(told)
        moves = {"RETRY": "waiting_for_retry", "READY": "released", "PARKED": "parked"}
        moves |= {"DELETED": "deleted"}
        for state, word in moves.items():
            MessageError.objects.filter(pk=error.pk).update(
                state=state, closed_at=error.first_failed_at, not_before=error.first_failed_at
            )
            assert self.state(partner, id_) == word
        MessageError.objects.update(state="RESOLVED", ended="SUPERSEDED")
        assert self.state(partner, id_) == "superseded"
        assert self.state(partner, "a/b c") == "superseded"

    def test_a_message_that_kafka_refused_is_held_with_its_reason(self) -> None:
        partner = a_partner()
        id_ = partner.post({}).json()["message_id"]
        OutboxRow.objects.update(
            state="DEAD", dead_code="MSG_SIZE_TOO_LARGE", dead_text="Too large."
        )
        told = partner.ask(id_).json()
        assert (told["state"], told["code"]) == ("held", "MSG_SIZE_TOO_LARGE")

    def test_several_messages_are_told_one_by_one_and_together(self) -> None:
        partner = a_partner()
        id_ = partner.post([1, 2, 3]).json()["message_id"]
        a_held(partner.queue, message_id=f"{id_}.2")
        told = partner.ask(id_).json()
        assert (told["count"], told["states"]) == (3, {"accepted": 2, "held": 1})
        assert [one["state"] for one in told["messages"]] == ["accepted", "held", "accepted"]
        assert self.state(partner, f"{id_}.2") == "held"
        problem(partner.ask(f"{id_}.4"), 404, "NO_SUCH_MESSAGE")

    def test_other_systems_do_not_learn_that_it_exists(self) -> None:
        partner, other = a_partner(), a_partner()
        id_ = partner.post({}, headers={"Idempotency-Key": "mine"}).json()["message_id"]
        for asked in (id_, "mine", "never"):
            problem(other.ask(asked), 404, "NO_SUCH_MESSAGE")


class TestBodies:
    @pytest.mark.parametrize(
        ("body", "code"),
        [
            (b"", "EMPTY_BODY"),
            (b"[]", "EMPTY_BODY"),
            (b'{"a": 1,\n "b": }', "BAD_JSON"),
            (b'{"a": 1', "TRUNCATED_JSON"),
            (b'{"a": "\xff"}', "NOT_UTF8"),
            (b'{"a": 1, "a": 2}', "DUPLICATE_KEY"),
            (b"[" * 300 + b"]" * 300, "TOO_DEEP"),
            (b"<a><b></a>", "BAD_XML"),
            (b"<!DOCTYPE a><a/>", "XML_DOCTYPE"),
        ],
    )
    def test_what_the_engine_could_not_read_is_refused_with_its_place(
        self, body: bytes, code: str
    ) -> None:
        kind = "application/xml" if body[:1] == b"<" else "application/json"
        said = problem(a_partner().post(body, content_type=kind), 422, code)
        if code == "BAD_JSON":
            assert "line 2" in said["detail"]
        assert not OutboxRow.objects.exists()

    def test_types_that_are_not_accepted(self) -> None:
        partner = a_partner()
        for kind in (
            "text/plain",
            "multipart/form-data; boundary=x",
            "application/x-www-form-urlencoded",
        ):
            problem(partner.post(b"a=1", content_type=kind), 415, "NOT_JSON_OR_XML")
        problem(partner.post(b"<a/>"), 415, "NOT_JSON_OR_XML")
        zipped = {"Content-Encoding": "gzip"}
        problem(partner.post(b"{}", headers=zipped), 415, "NOT_JSON_OR_XML")
        assert partner.post(b"{}", content_type="application/vnd.plant+json").status_code == 202

    def test_a_body_above_the_limit_is_refused(self) -> None:
        partner = a_partner(max_body_bytes=100)
        problem(partner.post(b'"' + b"x" * 99 + b'"'), 413, "BODY_TOO_LARGE")
        assert partner.post(b'"' + b"x" * 98 + b'"').status_code == 202

    def test_bytes_of_no_text_go_through_as_they_are(self) -> None:
        partner = a_partner()
        packed = base64.b64encode(b"\x00\xff").decode()
        assert partner.post({"file": packed}).status_code == 202

    def test_a_change_of_the_set_up_holds(self) -> None:
        partner = a_partner()
        assert partner.post({}).status_code == 202
        partner.queue.delete()
        forget()
        problem(partner.post({}), 503, "NO_QUEUE")
