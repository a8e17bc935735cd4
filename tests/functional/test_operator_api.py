"""The operator API: what its answers say, keyset pages, idempotency keys, and problems."""

import base64
import threading
from concurrent.futures import ThreadPoolExecutor
from datetime import timedelta
from typing import Any
from uuid import uuid4

import pytest
from django.db import connection
from django.test import Client, RequestFactory
from django.utils import timezone

from console.api import problems
from console.api.document import PREFIX
from console.layout.access import Right
from console.models import ActionReceipt, Limit
from integration.kafka.errors import BrokerUnreachableError
from integration.models import (
    ConfigurationChange,
    ErrorChange,
    ExternalSystem,
    MessageError,
    Operation,
)
from integration.selectors.failures.cause_ids import cause_id
from tests.support.http_api import problem
from tests.support.operator_api import Program, a_program, facts
from tests.support.rows import a_blocked_queue, a_held, a_queue_row

pytestmark = [pytest.mark.servers, pytest.mark.django_db]


@pytest.fixture
def program() -> Program:
    return a_program()


def of(error: MessageError, *parts: str) -> str:
    return "/".join(["/failures", str(error.pk), *parts])


class TestEntrance:
    def test_without_a_token_nobody_gets_in(self) -> None:
        for headers in ({}, {"Authorization": "Basic eDp5"}, {"Authorization": "Bearer "}):
            answer = Client().get(f"{PREFIX}/failures", headers=headers)
            problem(answer, 401, "NO_PERSONAL_TOKEN")
            assert answer["WWW-Authenticate"].startswith("Bearer ")

    def test_a_session_is_no_way_in(self, program: Program) -> None:
        client = Client()
        client.force_login(program.person)
        problem(client.get(f"{PREFIX}/failures"), 401, "NO_PERSONAL_TOKEN")

    def test_what_is_not_there_is_a_problem_too(self, program: Program) -> None:
        problem(program.get("/nothing"), 404, "NO_SUCH_OPERATION")
        problem(program.get(f"/failures/{uuid4()}"), 404, "NOT_THERE")
        answer = program.ask("DELETE", "/failures")
        problem(answer, 405, "WRONG_METHOD")
        assert answer["Allow"] == "GET"

    def test_a_missing_right_is_named_and_noted(self) -> None:
        viewer = a_program("Viewers")
        _, _, error = a_blocked_queue()
        said = problem(viewer.post(of(error, "releases"), {"version": 1}), 403, "RIGHT_MISSING")
        assert said["detail"] == Right.OPERATE.missing
        noted = ConfigurationChange.every.get(action="refuse")
        assert (noted.actor, noted.reason) == (viewer.person.username, Right.OPERATE.missing)

    def test_a_nul_is_refused_wherever_it_stands(self, program: Program) -> None:
        problem(program.get("/failures", message_id="a\0"), 422, "BAD_INPUT")
        _, _, error = a_blocked_queue()
        body = {"version": 1, "reason": "a\0"}
        said = problem(program.post(of(error, "deletions"), body), 422, "BAD_INPUT")
        assert said["mistakes"][0]["place"].endswith("reason")

    def test_a_name_that_means_nothing_is_refused(self, program: Program) -> None:
        _, _, error = a_blocked_queue()
        body = {"version": 1, "reasn": "x"}
        problem(program.post(of(error, "deletions"), body), 422, "BAD_INPUT")
        problem(program.post(of(error, "deletions"), b"{"), 422, "BAD_INPUT")
        problem(program.get("/failures", cuase="x"), 422, "BAD_INPUT")


class TestFailures:
    def test_a_list_is_read_to_its_end_page_by_page(self, program: Program) -> None:
        queue = a_queue_row("continuous")
        held = {str(a_held(queue, offset=number).pk) for number in range(5)}
        seen: list[str] = []
        page: dict[str, Any] = {"next": None}
        while not seen or page["next"]:
            place = {"at": page["next"]} if page["next"] else {}
            page = facts(program.get("/failures", queue=queue.name, size=2, **place))
            seen += [row["id"] for row in page["failures"]]
        assert len(seen) == 5
        assert set(seen) == held
        assert page["previous"]
        assert page["count"] == 5

    def test_a_place_that_is_none_does_not_begin_anew(self, program: Program) -> None:
        problem(program.get("/failures", at="nonsense"), 422, "BAD_INPUT")

    def test_filters_are_those_of_the_page(self, program: Program) -> None:
        _, _, error = a_blocked_queue()
        a_blocked_queue()
        for name in ("code", "interface"):
            found = facts(program.get("/failures", **{name: "NOT_MET"}))
            assert found["failures"] == []
        found = facts(program.get("/failures", queue=error.queue.name))
        assert [row["id"] for row in found["failures"]] == [str(error.pk)]

    def test_keys_and_payloads_are_for_those_who_may_see_them(self) -> None:
        _, _, error = a_blocked_queue()
        operator, editor = a_program("Operators"), a_program("Editors")
        [hidden] = facts(operator.get("/failures"))["failures"]
        [shown] = facts(editor.get("/failures"))["failures"]
        assert hidden["key"] is None
        assert shown["key"] is not None
        for part in ("payload", "record"):
            problem(operator.get(of(error, part)), 403, "RIGHT_MISSING")
        assert editor.get(of(error, "record")).content == bytes(error.payload or b"")
        assert "P-1" in facts(editor.get(of(error, "payload")))["text"]
        problem(operator.get("/failures", key="P-1"), 422, "BAD_INPUT")
        acts = ConfigurationChange.every.filter(kind="messageerror").values_list(
            "action", flat=True
        )
        assert set(acts) == {"view", "download"}

    def test_who_is_limited_knows_of_no_others_failures(self) -> None:
        _, _, error = a_blocked_queue(system=ExternalSystem.objects.create(name="theirs"))
        limited = a_program()
        Limit.objects.create(person=limited.person)
        assert facts(limited.get("/failures"))["failures"] == []
        for path in (of(error), of(error, "payload"), of(error, "record")):
            problem(limited.get(path), 404, "NOT_THERE")
        for verb in ("releases", "holds", "deletions", "checks"):
            body = {} if verb == "checks" else {"version": 1, "reason": "x"}
            problem(limited.post(of(error, verb), body), 404, "NOT_THERE")

    def test_one_is_released_as_on_its_page(self, program: Program) -> None:
        _, _, error = a_blocked_queue()
        assert facts(program.get(of(error)))["version"] == 1
        done = facts(program.post(of(error, "releases"), {"version": 1, "reason": "mended"}))
        assert done == {"id": str(error.pk), "version": 2, "state": "READY", "already": False}
        again = facts(program.post(of(error, "releases"), {"version": 1}))
        assert again["already"] is False or again["version"] == 2

    def test_what_has_moved_on_is_a_conflict(self, program: Program) -> None:
        _, _, error = a_blocked_queue()
        problem(program.post(of(error, "holds"), {"version": 7}), 409, "STATE_MISMATCH")
        problem(program.post(of(error, "deletions"), {"version": 1}), 422, "REASON_MISSING")
        facts(program.post(of(error, "deletions"), {"version": 1, "reason": "wrong"}))
        facts(program.post(of(error, "restorations"), {"version": 2}))
        error.refresh_from_db()
        assert (error.state, error.version) == ("HOLD", 3)
        said = ErrorChange.objects.order_by("id").values_list("action", "actor", "reason")
        assert list(said) == [
            ("delete", program.person.username, "wrong"),
            ("restore", program.person.username, ""),
        ]

    def test_an_edit_with_faults_is_stored_only_if_that_is_meant(self, program: Program) -> None:
        _, _, error = a_blocked_queue()
        broken = {"version": 1, "text": "{"}
        said = problem(program.put(of(error, "payload"), broken), 422, "EDIT_FAULTS")
        assert said["mistakes"]
        assert facts(program.put(of(error, "payload"), {**broken, "anyway": True}))["version"] == 2
        record = base64.b64encode(b'{"assetnum": "P-2"}').decode()
        whole = {"version": 2, "record": record, "anyway": True, "reason": "typo"}
        assert facts(program.put(of(error, "payload"), whole))["version"] == 3
        error.refresh_from_db()
        assert bytes(error.edited_payload or b"") == b'{"assetnum": "P-2"}'

    def test_groups_say_how_to_find_their_failures(self, program: Program) -> None:
        _, _, error = a_blocked_queue()
        [group] = facts(program.get("/failures/causes"))["groups"]
        assert group["count"] == 1
        found = facts(program.get("/failures", **group["narrows"]))
        assert [row["id"] for row in found["failures"]] == [str(error.pk)]
        problem(program.get("/failures/causes", state="DELETED"), 422, "BAD_INPUT")


class TestKeys:
    def test_what_is_asked_for_twice_is_done_once(self, program: Program) -> None:
        _, _, error = a_blocked_queue()
        body = {"verb": "hold", "failures": [{"id": str(error.pk), "version": 1}]}
        answers = [program.post("/operations", body, Idempotency_Key="k-1") for _ in range(2)]
        first, second = (facts(answer, 201) for answer in answers)
        assert first == second
        assert answers[1]["Idempotent-Replayed"] == "true"
        assert Operation.objects.count() == 1

    def test_a_key_stands_for_one_request_of_one_person(self, program: Program) -> None:
        _, _, error = a_blocked_queue()
        path, body = of(error, "deletions"), {"version": 1, "reason": "x"}
        facts(program.post(path, body, Idempotency_Key="k"))
        other = program.post(path, {**body, "reason": "y"}, Idempotency_Key="k")
        problem(other, 409, "KEY_REUSED")
        problem(a_program().post(path, body, Idempotency_Key="k"), 409, "STATE_MISMATCH")
        problem(program.post(path, body, Idempotency_Key="k" * 201), 400, "BAD_HEADER")

    def test_what_was_refused_may_be_asked_for_again(self, program: Program) -> None:
        _, _, error = a_blocked_queue()
        path, body = of(error, "holds"), {"version": 2}
        problem(program.post(path, body, Idempotency_Key="k"), 409, "STATE_MISMATCH")
        MessageError.objects.update(version=2, state="RETRY", not_before=timezone.now())
        facts(program.post(path, body, Idempotency_Key="k"))

    @pytest.mark.django_db(transaction=True)
    def test_of_several_at_once_one_acts_and_the_others_get_its_answer(self) -> None:
        program = a_program()
        a_blocked_queue()
        plan, together = {"verb": "hold", "filter": {}}, threading.Barrier(4)

        def ask(_: int) -> tuple[Any, str]:
            together.wait(timeout=20)
            try:
                answer = program.post("/operations", plan, Idempotency_Key="k")
                return facts(answer, 201), answer.get("Idempotent-Replayed", "")
            finally:
                connection.close()

        with ThreadPoolExecutor(4) as pool:
            told = list(pool.map(ask, range(4)))
        assert Operation.objects.count() == 1
        assert all(said == told[0][0] for said, _ in told)
        assert sorted(repeated for _, repeated in told) == ["", "true", "true", "true"]

    def test_receipts_are_forgotten_after_a_week(self, program: Program) -> None:
        _, _, error = a_blocked_queue()
        facts(program.post(of(error, "releases"), {"version": 1}, Idempotency_Key="old"))
        ActionReceipt.objects.update(at=timezone.now() - timedelta(days=8))
        program.post(of(error, "holds"), {"version": 2}, Idempotency_Key="new")
        assert not ActionReceipt.objects.filter(key="old").exists()


class TestOperations:
    def test_one_is_planned_by_a_filter_started_and_steered(self, program: Program) -> None:
        queue = a_queue_row("continuous")
        for number in range(3):
            a_held(queue, offset=number)
        plan = {"verb": "delete", "filter": {"queue": queue.name}}
        planned = facts(program.post("/operations", plan), 201)
        assert (planned["state"], planned["total"]) == ("PLANNED", 3)
        one = f"/operations/{planned['id']}"
        start = {"version": planned["version"], "rate": 5, "stop": ""}
        problem(program.post(f"{one}/starts", start), 422, "REASON_MISSING")
        running = facts(program.post(f"{one}/starts", {**start, "reason": "a test"}))
        assert (running["state"], running["rate"]) == ("RUNNING", 5)
        problem(program.post(f"{one}/starts", {**start, "reason": "x"}), 409, "OPERATION_MOVED")
        paused = facts(program.post(f"{one}/pauses", {"reason": "wait"}))
        rate = {"version": paused["version"], "rate": None}
        changed = facts(program.put(f"{one}/rate", rate))
        assert changed["rate"] is None
        resumed = facts(program.post(f"{one}/resumptions", {"version": changed["version"]}))
        assert resumed["state"] == "RUNNING"
        assert facts(program.post(f"{one}/cancellations"))["state"] == "CANCELLED"
        assert len(facts(program.get(f"{one}/items"))["items"]) == 3
        assert facts(program.get("/operations", state="CANCELLED"))["operations"][0]["id"] in one

    @pytest.mark.parametrize(
        "plan",
        [
            {"verb": "hold"},
            {"verb": "hold", "failures": [], "filter": {}},
            {"verb": "hold", "filter": {"queu": "x"}},
            {"verb": "hold", "filter": {"text": "x"}},
            {"verb": "explode", "filter": {}},
        ],
        ids=["neither", "both", "unknown filter", "by text", "unknown verb"],
    )
    def test_a_plan_is_never_guessed(self, program: Program, plan: dict[str, Any]) -> None:
        a_blocked_queue()
        problem(program.post("/operations", plan), 422, "BAD_INPUT")
        assert not Operation.objects.exists()

    def test_a_key_it_was_chosen_by_is_for_those_who_may_see_payloads(self) -> None:
        row = a_held(a_queue_row("continuous"), key=b"K-4711")
        asked = {"queue": row.queue.name, "key": "K-4711"}
        editor = a_program("Editors")
        planned = facts(editor.post("/operations", {"verb": "release", "filter": asked}), 201)
        one = f"/operations/{planned['id']}"
        assert "key=K-4711" in planned["query"]
        viewer = a_program("Viewers")
        seen = facts(viewer.get(one)), facts(viewer.get("/operations"))["operations"][0]
        for line in seen:
            assert line["query"] == planned["query"].replace("&key=K-4711", "")
        assert "K-4711" in facts(editor.get("/operations"))["operations"][0]["query"]

    def test_a_cause_that_a_filter_was_stored_with_is_told_by_its_id(self) -> None:
        a_blocked_queue()
        editor = a_program("Editors")
        planned = facts(editor.post("/operations", {"verb": "release", "filter": {}}), 201)
        Operation.objects.update(query="fingerprint=0123456789abcdef")
        told = facts(editor.get(f"/operations/{planned['id']}"))["query"]
        assert told == f"fingerprint={cause_id('0123456789abcdef')}"

    def test_an_edit_needs_the_right_to_edit(self) -> None:
        a_blocked_queue()
        operator = a_program("Operators")
        plan = {"verb": "edit", "filter": {}}
        problem(operator.post("/operations", plan), 403, "RIGHT_MISSING")
        editor = a_program("Editors")
        planned = facts(editor.post("/operations", plan), 201)
        one = f"/operations/{planned['id']}"
        recipe = '[{"op": "add", "path": "/siteid", "value": "NORTH"}]'
        told = facts(editor.put(f"{one}/recipe", {"version": planned["version"], "recipe": recipe}))
        assert told["recipe"] == recipe
        assert facts(editor.post(f"{one}/trials"))["is_tried"] is True
        assert facts(operator.get(one))["recipe"] is None


class TestQueues:
    def test_one_is_paused_and_resumed(self, program: Program) -> None:
        queue, _, error = a_blocked_queue()
        [line] = facts(program.get("/queues"))["queues"]
        assert (line["name"], line["status"], line["held"]) == (queue.name, "BLOCKED", 1)
        assert line["failure"] == str(error.pk)
        one = f"/queues/{queue.name}"
        until = (timezone.now() + timedelta(hours=1)).isoformat()
        paused = facts(program.post(f"{one}/pauses", {"reason": "deploy", "until": until}))
        assert paused["paused"] is True
        problem(program.post(f"{one}/pauses"), 409, "QUEUE_MISMATCH")
        assert facts(program.post(f"{one}/resumptions"))["paused"] is False
        assert facts(program.post(f"{one}/disablings"))["enabled"] is False
        assert facts(program.post(f"{one}/enablings"))["enabled"] is True
        assert facts(program.get(one))["partitions"][0]["number"] == 0
        problem(program.get("/queues/none"), 404, "NOT_THERE")

    def test_lists_are_of_pages_and_filters_are_strict(self, program: Program) -> None:
        names = sorted(a_queue_row().name for _ in range(2))
        found = facts(program.get("/queues", after=names[0]))
        assert [row["name"] for row in found["queues"]] == names[1:]
        problem(program.get("/queues", stat="NEED"), 422, "BAD_INPUT")

    def test_a_place_to_move_to_is_said_whole(self, program: Program) -> None:
        queue, _, _ = a_blocked_queue()
        problem(program.get(f"/queues/{queue.name}/positions", to="offset"), 422, "BAD_INPUT")
        moves = {"moves": [], "reason": "x"}
        problem(program.post(f"/queues/{queue.name}/positions", moves), 422, "BAD_INPUT")

    def test_a_broker_that_is_away_is_no_mistake_of_ours(self) -> None:
        """Asked itself, it would be waited for."""
        failure = BrokerUnreachableError("plant", "nobody answers")
        answer = problems.of(RequestFactory().get("/"), failure)
        problem(answer, 503, "BROKER_UNREACHABLE")
        assert answer["Retry-After"]
