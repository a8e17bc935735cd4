"""The operator API on the outbox, on endpoints at work, on tracked messages and the set-up."""

from datetime import timedelta
from uuid import uuid4

import pytest
from django.utils import timezone

from console.api.document import PREFIX
from console.api.urls import document
from console.models import Limit
from console.setup.urls import NOUNS
from integration.models import (
    ConfigurationChange,
    Delivery,
    Endpoint,
    ExternalSystem,
    MaskingRule,
    OutboxChange,
    OutboxRow,
    Queue,
)
from tests.functional.relay_world import a_dead_row, a_provider, a_relay_in_doubt, states
from tests.support.http_api import problem
from tests.support.operator_api import Program, a_program, facts
from tests.support.rows import a_message_to_send, a_place, a_queue_row
from tests.support.tracks import a_track_row

pytestmark = [pytest.mark.servers, pytest.mark.django_db]


@pytest.fixture
def program() -> Program:
    return a_program()


def limited_to(system: ExternalSystem) -> Program:
    program = a_program()
    Limit.objects.create(person=program.person).systems.set([system])
    return program


class TestOutbox:
    def test_it_is_listed_page_by_page_by_the_filters_of_the_page(self, program: Program) -> None:
        provider = a_provider()
        rows = [a_dead_row(provider, message_id=f"m/{number}").pk for number in range(3)]
        a_dead_row(provider, state="PENDING")
        first = facts(program.get("/outbox", size=2))
        assert (first["count"], [row["id"] for row in first["rows"]]) == (3, rows[:2])
        last = facts(program.get("/outbox", size=2, after=first["next"]))
        assert ([row["id"] for row in last["rows"]], last["next"]) == (rows[2:], None)
        found = facts(program.get("/outbox", message_id="m/1", state="DEAD"))["rows"]
        assert [(row["id"], row["code"]) for row in found] == [(rows[1], "MSG_SIZE_TOO_LARGE")]
        assert facts(program.get("/outbox", state="PENDING"))["count"] == 1
        problem(program.get("/outbox", stat="DEAD"), 422, "BAD_INPUT")
        problem(program.get("/outbox", state="PUBLISHED"), 422, "BAD_INPUT")

    def test_a_row_is_sent_again_or_given_up_as_it_was_seen(self, program: Program) -> None:
        provider = a_provider()
        row, other = a_dead_row(provider), a_dead_row(provider)
        one = f"/outbox/{row.pk}"
        problem(program.post(f"{one}/sendings", {"batch": str(uuid4())}), 409, "OUTBOX_MISMATCH")
        seen = {"batch": facts(program.get(one))["batch"]}
        problem(program.post(f"{one}/cancellations", seen), 422, "REASON_MISSING")
        for _ in range(2):
            done = facts(program.post(f"{one}/sendings", seen))
            assert (done["state"], len(done["decisions"])) == ("PENDING", 1)
        asked = {"batch": str(other.batch), "reason": "obsolete"}
        problem(program.post(f"{one}/cancellations", asked), 409, "OUTBOX_MISMATCH")
        given_up = facts(program.post(f"/outbox/{other.pk}/cancellations", asked))
        assert given_up["decisions"][0]["actor"] == program.person.username
        assert states() == ["PENDING", "CANCELLED"]
        problem(program.get(f"/outbox/{2**70}"), 404, "NOT_THERE")

    def test_many_rows_are_decided_about_once_for_each_key(self, program: Program) -> None:
        provider = a_provider()
        rows = [a_dead_row(provider) for _ in range(3)]
        seen = [{"id": row.pk, "batch": str(row.batch)} for row in rows]
        seen[2]["batch"] = str(uuid4())
        answers = [
            program.post("/outbox/sendings", {"rows": seen}, Idempotency_Key="k") for _ in range(2)
        ]
        assert [facts(answer) for answer in answers] == [{"moved": 2, "moved_on": 1}] * 2
        assert OutboxChange.objects.count() == 2
        left = {"rows": [{"id": rows[2].pk, "batch": str(rows[2].batch)}]}
        problem(program.post("/outbox/cancellations", left), 422, "REASON_MISSING")
        asked = {**left, "reason": "obsolete"}
        assert facts(program.post("/outbox/cancellations", asked))["moved"] == 1

    def test_a_relay_in_doubt_is_told_whether_its_batch_was_sent(self, program: Program) -> None:
        lease, batch = a_relay_in_doubt(a_provider())
        [doubt] = facts(program.get("/outbox/batches-in-doubt"))["batches"]
        assert (doubt["lease_id"], doubt["batch"], doubt["count"]) == (lease.pk, str(batch), 2)
        address = f"/outbox/batches-in-doubt/{lease.pk}/decisions"
        asked = {"batch": str(uuid4()), "is_sent": True}
        problem(program.post(address, asked), 409, "RELAY_NOT_IN_DOUBT")
        assert facts(program.post(address, {**asked, "batch": str(batch)})) == {"count": 2}
        assert states() == ["PUBLISHED", "PUBLISHED"]
        assert facts(program.get("/outbox/batches-in-doubt")) == {"batches": []}

    def test_a_commit_that_is_not_in_doubt_is_not_decided(self, program: Program) -> None:
        asked = {"name": "nothing", "choice": "commit", "reason": "x"}
        address = "/outbox/commits-in-doubt/decisions"
        problem(program.post(address, asked), 409, "BRANCH_NOT_IN_DOUBT")
        problem(program.post(address, {**asked, "reason": " "}), 422, "REASON_MISSING")

    def test_who_sees_one_system_only_decides_about_nothing_else(self) -> None:
        system = ExternalSystem.objects.create(name="eam")
        mine = a_message_to_send(
            a_queue_row(direction="outbound", topic="eam-out", system=system), "DEAD"
        )
        lease, batch = a_relay_in_doubt(a_provider(name="other"))
        hidden = a_dead_row(a_provider())
        limited = limited_to(system)
        assert [row["id"] for row in facts(limited.get("/outbox"))["rows"]] == [mine.pk]
        problem(limited.get(f"/outbox/{hidden.pk}"), 404, "NOT_THERE")
        problem(limited.get(f"/outbox/{hidden.pk}/payload"), 404, "NOT_THERE")
        seen = {"batch": str(hidden.batch)}
        problem(limited.post(f"/outbox/{hidden.pk}/sendings", seen), 404, "NOT_THERE")
        many = {"rows": [{"id": hidden.pk, **seen}]}
        assert facts(limited.post("/outbox/sendings", many)) == {"moved": 0, "moved_on": 1}
        assert facts(limited.get("/outbox/batches-in-doubt"))["batches"] == []
        asked = {"batch": str(batch), "is_sent": True}
        address = f"/outbox/batches-in-doubt/{lease.pk}/decisions"
        problem(limited.post(address, asked), 404, "NOT_THERE")
        commit = {"name": "any", "choice": "commit", "reason": "x"}
        problem(limited.post("/outbox/commits-in-doubt/decisions", commit), 404, "NOT_THERE")
        assert OutboxRow.objects.get(pk=hidden.pk).state == "DEAD"

    def test_a_payload_is_noted_and_never_unmasked(self, program: Program) -> None:
        row = a_dead_row(a_provider(), value=b'{"name": "Anna"}')
        assert "Anna" in facts(program.get(f"/outbox/{row.pk}/payload"))["text"]
        MaskingRule.objects.create(name="names", path="$.name")
        shown = facts(program.get(f"/outbox/{row.pk}/payload"))
        assert shown["is_masked"] is True
        assert "Anna" not in str(shown)
        assert ConfigurationChange.every.filter(action="view", subject=str(row.pk)).exists()


class TestEndpoints:
    @pytest.fixture
    def endpoint(self) -> Endpoint:
        system = ExternalSystem.objects.create(name="plant")
        made = Endpoint.objects.create(name="orders", system=system, endpoint_type="file")
        queue = a_queue_row(direction="outbound", endpoint=made, system=system)
        a_place(queue)
        now = timezone.now()
        Delivery.objects.create(
            queue=queue, endpoint=made, state="FAILED", topic_uuid="first-topic", partition=0,
            offset=9, message_id="m-9", interface="ORDERS", epoch=3, started_at=now, ended_at=now,
            took_ms=12, code="HTTP_500", excerpt="Name: Anna",
        )  # fmt: skip
        return made

    def test_it_tells_how_it_stands_and_excerpts_only_to_some(
        self, program: Program, endpoint: Endpoint
    ) -> None:
        Endpoint.objects.create(name="a", system=endpoint.system, endpoint_type="file")
        listed = facts(program.get("/endpoints"))["endpoints"]
        assert [(one["name"], one["standing"]) for one in listed] == [
            ("a", "UNUSED"),
            ("orders", "UP"),
        ]
        assert facts(program.get("/endpoints", after="a"))["endpoints"][0]["waiting"] is not None
        shown = facts(program.get("/endpoints/orders"))
        assert (shown["circuit"]["state"], shown["endings"][0]["code"]) == ("CLOSED", "HTTP_500")
        assert shown["answers"][0]["excerpt"] == "Name: Anna"
        hidden = facts(a_program("Operators").get("/endpoints/orders"))
        assert hidden["answers"][0]["excerpt"] is None
        problem(program.get("/endpoints", state="UP"), 422, "BAD_INPUT")

    def test_it_is_paused_resumed_and_switched(self, program: Program, endpoint: Endpoint) -> None:
        one, now = f"/endpoints/{endpoint.name}", timezone.now()
        for until in (now - timedelta(minutes=1), now + timedelta(days=31)):
            asked = {"until": until.isoformat(), "reason": "audit"}
            problem(program.post(f"{one}/pauses", asked), 422, "BAD_INPUT")
        asked = {"until": (now + timedelta(hours=1)).isoformat()}
        problem(program.post(f"{one}/pauses", asked), 422, "REASON_MISSING")
        paused = facts(program.post(f"{one}/pauses", {**asked, "reason": "audit"}))
        assert paused["standing"] == "PAUSED"
        assert facts(program.post(f"{one}/resumptions"))["paused_until"] is None
        problem(program.post(f"{one}/resumptions"), 409, "ENDPOINT_STATE_MISMATCH")
        problem(program.post(f"{one}/disablings"), 422, "REASON_MISSING")
        assert facts(program.post(f"{one}/disablings", {"reason": "over"}))["standing"] == "OFF"
        assert facts(program.post(f"{one}/enablings"))["enabled"] is True
        noted = ConfigurationChange.objects.filter(kind="endpoint", subject=str(endpoint.pk))
        assert {change.actor for change in noted} == {program.person.username}
        other = limited_to(ExternalSystem.objects.create(name="other"))
        assert facts(other.get("/endpoints"))["endpoints"] == []
        problem(other.post(f"{one}/disablings", {"reason": "x"}), 404, "NOT_THERE")

    def test_it_is_tested(self, program: Program, endpoint: Endpoint) -> None:
        found = facts(program.post(f"/endpoints/{endpoint.name}/tests"))
        assert (found["kind"], found["is_good"], found["code"]) == (
            "connect",
            False,
            "ENDPOINT_SETTINGS",
        )
        asked = {"sample": {"body": "{"}}
        problem(program.post(f"/endpoints/{endpoint.name}/tests", asked), 422, "BAD_INPUT")
        assert endpoint.tests.count() == 1


class TestMessages:
    @pytest.fixture
    def queue(self) -> Queue:
        return a_queue_row(name="orders", system=ExternalSystem.objects.create(name="plant"))

    @pytest.mark.parametrize("field", ["message_id", "external_id", "search_a", "key"])
    def test_one_is_found_by_every_id(self, program: Program, queue: Queue, field: str) -> None:
        a_track_row(queue)
        row = a_track_row(queue, **{field: "m/1~x y"})
        asked = {"key" if field == "key" else "id": "m/1~x y"}
        [found] = facts(program.get("/messages", **asked))["tracks"]
        assert (found["message_id"], found[field]) == (row.message_id, "m/1~x y")
        viewer = a_program("Viewers")
        answer = viewer.get("/messages", **asked)
        if field == "key":
            problem(answer, 422, "BAD_INPUT")
        else:
            assert len(facts(answer)["tracks"]) == (field == "message_id")

    def test_one_is_found_by_its_trace(self, program: Program, queue: Queue) -> None:
        trace = uuid4()
        row = a_track_row(queue, trace_id=trace)
        a_track_row(queue)
        [found] = facts(program.get("/messages", id=trace.hex))["tracks"]
        assert (found["message_id"], found["trace_id"]) == (row.message_id, trace.hex)

    def test_pages_follow_each_other_and_filters_are_understood(
        self, program: Program, queue: Queue
    ) -> None:
        rows = [a_track_row(queue, ago=timedelta(minutes=n)).message_id for n in range(1, 4)]
        a_track_row(queue, ended="HOLD", ago=timedelta(hours=30))
        first = facts(program.get("/messages", size=2))
        last = facts(program.get("/messages", size=2, at=first["next"]))
        told = [row["message_id"] for page in (first, last) for row in page["tracks"]]
        assert (told, last["next"]) == (rows, None)
        found = facts(program.get("/messages", ended="HOLD", hours="168", queue="orders"))
        assert found["count"] == 1
        for wrong in ({"at": "x"}, {"hours": "7"}):
            problem(program.get("/messages", **wrong), 422, "BAD_INPUT")
        problem(program.get("/messages", qeue="orders"), 422, "BAD_INPUT")

    def test_the_story_of_one_is_told_and_its_payload_masked(
        self, program: Program, queue: Queue
    ) -> None:
        payload = b'{"name": "Anna"}'
        row = a_track_row(queue, message_id="m/1", payload=payload, external_id="PO-1")
        story = facts(program.get("/messages/story", id="m/1"))
        assert story["tracks"][0]["external_id"] == "PO-1"
        assert any("Read by orders" in event["title"] for event in story["events"])
        assert "Anna" in facts(program.get("/messages/payload", id="m/1"))["text"]
        lesser = facts(a_program("Viewers").get("/messages/story", id="m/1"))
        assert (lesser["tracks"][0]["external_id"], lesser["events"][0]["detail"]) == (None, None)
        MaskingRule.objects.create(name="names", path="$.name")
        shown = facts(program.get("/messages/payload", id="m/1"))
        assert (shown["is_masked"], "Anna" in str(shown)) == (True, False)
        assert ConfigurationChange.every.filter(action="view", name=row.message_id).exists()
        for unknown in ("story", "payload"):
            problem(program.get(f"/messages/{unknown}", id="m/2"), 404, "NOT_THERE")
        problem(program.get("/messages/story", id=""), 422, "BAD_INPUT")
        other = limited_to(ExternalSystem.objects.create(name="other"))
        assert facts(other.get("/messages", id="m/1"))["tracks"] == []
        problem(other.get("/messages/story", id="m/1"), 404, "NOT_THERE")

    def test_what_waits_in_the_outbox_is_known_before_any_try(
        self, program: Program, queue: Queue
    ) -> None:
        row = a_message_to_send(queue, message_id="m/7")
        found = facts(program.get("/messages", id="m/7"))
        assert (found["tracks"], found["untried"]) == ([], "m/7")
        story = facts(program.get("/messages/story", id="m/7"))
        assert (story["outbox_rows"], bool(story["stands"])) == ([row.pk], True)


class TestSetUp:
    def test_every_kind_is_listed_within_the_limits_of_its_person(self, program: Program) -> None:
        for name in ("plant", "warehouse"):
            system = ExternalSystem.objects.create(name=name)
            Endpoint.objects.create(
                name=f"{name}-out", system=system, endpoint_type="http", secrets="a password"
            )
        listed = facts(program.get("/set-up/systems", words="ware"))["rows"]
        assert [(row["name"], row["values"]["enabled"]) for row in listed] == [("warehouse", True)]
        read = facts(program.get(f"/set-up/systems/{listed[0]['number']}"))
        assert [(use["kind"], use["name"]) for use in read["uses"]] == [
            ("endpoint", "warehouse-out")
        ]
        limited = limited_to(ExternalSystem.objects.get(name="plant"))
        [mine] = facts(limited.get("/set-up/endpoints"))["rows"]
        assert (mine["name"], mine["values"]["secrets"]) == ("plant-out", "set")
        problem(limited.get(f"/set-up/systems/{listed[0]['number']}"), 404, "NOT_THERE")
        problem(program.get("/set-up/teapots"), 404, "NOT_THERE")
        problem(program.get(f"/set-up/systems/{2**70}"), 404, "NOT_THERE")
        problem(program.get("/set-up/systems", word="x"), 422, "BAD_INPUT")

    def test_the_document_names_every_kind(self) -> None:
        said = document()["paths"][f"{PREFIX}/set-up/{{kind}}"]["get"]["description"]
        assert [noun.many for noun in NOUNS if noun.many not in said] == []

    def test_a_queue_tells_how_it_is_set_up(self, program: Program) -> None:
        queue = a_queue_row("continuous", topic="orders-in")
        told = facts(program.get(f"/queues/{queue.name}/set-up"))
        assert (told["queue"], told["values"]["topic"]) == (queue.name, "orders-in")
