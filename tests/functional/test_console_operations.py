"""Operations over HTTP: planned from a list, started, followed, told apart by rights and scope."""

import csv
import io
import re

import pytest
from django.db import connection
from django.test import Client
from django.urls import reverse

from console.layout.access import Right
from console.models import Limit
from crontasks.running.operating import run_operation
from integration.actions import operation_trials, operations, queue_removal
from integration.actions.configuration import Author
from integration.models import ExternalSystem, MessageError, Operation
from integration.selectors.failures.cause_ids import cause_id
from tests.support.operations import plan, run, some_held, started
from tests.support.rows import a_held, a_person, a_place, a_queue_row

pytestmark = [pytest.mark.servers, pytest.mark.django_db, pytest.mark.usefixtures("valkey")]


def logged_in(role: str = "Editors") -> Client:
    client = Client()
    client.force_login(a_person(role))
    return client


def planned(client: Client, verb: str = "release", **form) -> Operation:
    answer = client.post(reverse("review"), {"verb": verb, **form})
    assert answer.status_code == 303
    operation = Operation.objects.order_by("-created_at").first()
    assert answer["Location"] == reverse("operation", args=[operation.pk])
    return operation


def act(client: Client, operation: Operation, name: str, **form):
    return client.post(reverse(f"operation-{name}", args=[operation.pk]), form)


def shown(client: Client, operation: Operation, **query) -> str:
    answer = client.get(reverse("operation", args=[operation.pk]), query)
    assert answer.status_code == 200
    return " ".join(answer.text.split())


def test_all_that_match_become_a_plan_that_tells_its_reach():
    client = logged_in()
    some_held(3)
    queue = a_queue_row("continuous", paused=True)
    a_place(queue)
    a_held(
        queue,
        code="OTHER",
        fingerprint="f",
        state="RETRY",
        not_before="2026-01-01T00:00:00Z",
        first_failed_at="2025-01-01T00:00:00Z",
    )
    operation = planned(client, scope="matching", query="state=OPEN")
    page = shown(client, operation)
    assert "Release 3 messages?" in page
    assert "not possible from its state" in page
    assert "older than 30 days" in page
    assert "2 different causes" in page
    assert "it is paused" in page
    assert MessageError.objects.filter(state="READY").count() == 0


def test_ticked_failures_become_a_plan_and_nothing_ticked_none():
    client = logged_in()
    rows = some_held(3)
    operation = planned(client, chosen=f"{rows[0].pk}:1 {rows[2].pk}:1")
    assert list(operation.items.values_list("error", flat=True)) == [rows[0].pk, rows[2].pk]
    answer = client.post(reverse("review"), {"verb": "release"}, follow=True)
    assert [told.level_tag for told in answer.context["messages"]] == ["info"]
    assert Operation.objects.count() == 1


def test_a_release_from_the_click_to_its_end():
    client = logged_in("Operators")
    some_held(2)
    operation = planned(client, scope="matching", query="state=HOLD")
    assert act(client, operation, "start", version=1, first="1").status_code == 303
    run(operation)
    page = shown(client, operation)
    assert "The first message" in page
    assert "Continue with the rest" in page
    operation.refresh_from_db()
    assert act(client, operation, "resume", version=operation.version).status_code == 303
    run(operation)
    page = shown(client, operation)
    assert "2 released" in page
    assert "Resumed." in page, "true before and after its end"
    told = client.get(reverse("changes")).text
    assert "Pauses after the first message:" in told
    assert reverse("operation", args=[operation.pk]) in told
    assert not {"RUNNING", "PAUSED", "First only"} & set(re.findall(r"[>]([^<]+)[<]", told))
    MessageError.objects.update(state="RESOLVED", ended="SUPERSEDED", version=3)
    page = shown(client, operation, show="resolved")
    assert "of which 2 superseded" in page


def test_an_act_on_an_outdated_page_is_told_and_changes_nothing():
    client = logged_in()
    some_held(2)
    operation = planned(client, scope="matching", query="state=HOLD")
    answer = act(client, operation, "start", version=7)
    assert answer.status_code == 409
    assert act(client, operation, "pause").status_code == 409
    act(client, operation, "start", version=1)
    assert act(client, operation, "start", version=1).status_code == 409
    operation.refresh_from_db()
    assert operation.state == "RUNNING"
    assert act(client, operation, "rate", version=operation.version, rate="20").status_code == 303
    assert act(client, operation, "pause").status_code == 303
    assert act(client, operation, "cancel").status_code == 303
    operation.refresh_from_db()
    assert (operation.state, operation.rate) == ("CANCELLED", 20)


@pytest.mark.parametrize("rate", ["20000", "0", "abc"])
def test_a_rate_that_there_is_not_is_a_mistake_of_its_field(rate):
    client = logged_in()
    some_held(2)
    operation = started(plan(), rate=7)
    answer = act(client, operation, "rate", version=operation.version, rate=rate)
    assert answer.status_code == 422
    assert list(answer.context["rate_form"].errors) == ["rate"]
    assert f'value="{rate}"' in answer.text
    assert "The rate is changed" not in answer.text
    operation.refresh_from_db()
    assert operation.rate == 7


def test_a_deletion_needs_its_reason():
    client = logged_in()
    some_held(1)
    operation = planned(client, "delete", scope="matching", query="state=HOLD")
    answer = act(client, operation, "start", version=1)
    assert answer.status_code == 422
    assert list(answer.context["start_form"].errors) == ["reason"]
    assert act(client, operation, "start", version=1, reason="obsolete").status_code == 303


def test_an_edit_by_its_pages():
    client = logged_in()
    some_held(2)
    a_held(a_queue_row("continuous"), payload=b"<xml/>")
    operation = planned(client, "edit", scope="matching", query="state=HOLD")
    page = shown(client, operation)
    assert "What is changed" in page
    assert page.count("Cancel, do nothing") == 1, "the way back, before anything is tried"
    answer = act(client, operation, "recipe", version=1, path="priority", value="3", kind="json")
    assert answer.status_code == 422
    assert list(answer.context["recipe_form"].errors) == ["path"]
    answer = act(client, operation, "recipe", version=1, path="$.priority", value="3", kind="json")
    assert answer.status_code == 303
    page = shown(client, operation)
    operation.refresh_from_db()
    [why] = operation_trials.trial_of(operation).reasons
    assert why in page
    assert "&quot;priority&quot;: &quot;abc&quot;" in page
    assert act(client, operation, "trial").status_code == 303
    operation.refresh_from_db()
    form = {"version": operation.version, "reason": "agreed", "release_after_edit": "on"}
    assert act(client, operation, "start", **form).status_code == 303
    run(operation)
    assert MessageError.objects.filter(state="READY", version=3).count() == 2


def test_a_change_that_fits_nothing_stays_in_its_form_to_be_corrected():
    client = logged_in()
    some_held(2)
    operation = planned(client, "edit", scope="matching", query="state=HOLD")
    asked = {"path": "$.not_there", "value": "4.20", "kind": "json", "version": operation.version}
    act(client, operation, "recipe", **asked)
    form = client.get(reverse("operation", args=[operation.pk])).context["recipe_form"]
    assert (form["path"].value(), form["value"].value()) == ("/not_there", "4.20")
    assert (form["kind"].value(), form["add_missing"].value()) == ("json", False)
    page = shown(client, operation)
    assert "Where the path is missing, tick “Add it where it is missing”" in page
    patch = '[{"op":"remove","path":"/a"},{"op":"test","path":"/b","value":1}]'
    operation.refresh_from_db()
    act(client, operation, "recipe", patch=patch, version=operation.version)
    form = client.get(reverse("operation", args=[operation.pk])).context["recipe_form"]
    assert (form["patch"].value(), form["path"].value()) == (patch, None)


def test_samples_of_an_edit_need_the_right_to_see_payloads():
    client = logged_in()
    some_held(1)
    operation = planned(client, "edit", scope="matching", query="state=HOLD")
    act(client, operation, "recipe", version=1, path="$.priority", value="3", kind="json")
    operator = logged_in("Operators")
    page = shown(operator, operation)
    assert "&quot;abc&quot;" not in page
    for name in ("recipe", "trial", "start"):
        assert act(operator, operation, name, version=1, reason="x").status_code == 403


def test_the_failed_part_is_grouped_and_can_be_planned_anew():
    client = logged_in()
    rows = some_held(2)
    operation = started(plan())
    run(operation)
    MessageError.objects.filter(pk=rows[0].pk).update(
        state="HOLD", version=3, last_failed_at="2099-01-01T00:00:00Z"
    )
    page = shown(client, operation)
    assert "Failed again: 1" in page
    # As a release before ids of causes has stored it.
    Operation.objects.update(query="state=OPEN&fingerprint=0123456789abcdef")
    answer = act(client, operation, "again", part="failed", verb="release")
    second = Operation.objects.get(retry_of=operation)
    assert answer["Location"] == reverse("operation", args=[second.pk])
    assert second.total == 1
    assert second.query == f"state=OPEN&fingerprint={cause_id('0123456789abcdef')}"
    answer = client.post(
        reverse("operation-again", args=[operation.pk]),
        {"part": "skipped", "verb": "release"},
        follow=True,
    )
    assert "Nothing was selected" in answer.text


def test_the_report_tells_every_message_and_no_payload():
    client = logged_in("Viewers")
    queue = a_queue_row("continuous")
    a_held(queue, message_id="=HYPERLINK(1)")
    operation = started(plan())
    run(operation)
    answer = client.get(reverse("operation-report", args=[operation.pk]))
    text = b"".join(answer.streaming_content).decode()
    [line] = list(csv.DictReader(io.StringIO(text)))
    assert line["message_id"] == "'=HYPERLINK(1)"
    assert (line["outcome"], line["state"], line["became"]) == ("Done", "READY", "WAITING")
    assert "assetnum" not in text


def test_viewers_read_and_may_do_nothing():
    some_held(1)
    operation = plan()
    client = logged_in("Viewers")
    assert Right.VIEW_PAYLOAD.missing in shown(client, operation)
    for name in ("start", "pause", "resume", "cancel", "rate", "again", "recipe", "trial"):
        assert act(client, operation, name, version=1).status_code == 403
    assert client.post(reverse("review"), {"verb": "release"}).status_code == 403
    assert operation.title in client.get(reverse("operations")).text


def test_operators_plan_no_edit_they_may_not_carry_out():
    held = some_held(1)
    operation = started(plan())
    client = logged_in("Operators")
    chosen = {"verb": "edit", "chosen": f"{held[0].pk}:1"}
    assert client.post(reverse("review"), chosen).status_code == 403
    assert act(client, operation, "again", part="skipped", verb="edit").status_code == 403
    assert Operation.objects.count() == 1


def test_limited_people_neither_choose_nor_see_what_is_not_theirs():
    mine, theirs = (ExternalSystem.objects.create(name=name) for name in ("mine", "theirs"))
    a_held(a_queue_row("continuous", system=mine))
    foreign = a_held(a_queue_row("continuous", system=theirs))
    person = a_person("Editors")
    Limit.objects.create(person=person).systems.add(mine)
    client = Client()
    client.force_login(person)
    own = planned(client, scope="matching", query="state=HOLD")
    assert own.total == 1
    whole = plan()
    answer = client.post(reverse("review"), {"verb": "release", "chosen": f"{foreign.pk}:1"})
    assert answer.status_code == 303
    assert Operation.objects.count() == 2
    for name in ("start", "pause", "resume", "cancel", "rate", "again", "recipe", "trial"):
        assert act(client, whole, name, version=1).status_code == 404
    for page in ("operation", "operation-report"):
        assert client.get(reverse(page, args=[whole.pk])).status_code == 404
    listed = client.get(reverse("operations")).text
    assert str(own.pk) in listed
    assert str(whole.pk) not in listed


def test_a_filter_on_what_limited_people_may_not_know_of_chooses_nothing():
    mine, theirs = (ExternalSystem.objects.create(name=name) for name in ("mine", "theirs"))
    a_held(foreign := a_queue_row(system=theirs))
    person = a_person("Operators", "lena")
    Limit.objects.create(person=person).systems.add(mine)
    client = Client()
    client.force_login(person)
    asked = {"verb": "release", "scope": "matching", "query": f"queue={foreign.pk}"}
    answer = client.post(reverse("review"), asked)
    assert answer.status_code == 303
    assert not Operation.objects.exists()


def test_limited_people_do_not_learn_of_queues_that_are_gone():
    mine, theirs = (ExternalSystem.objects.create(name=name) for name in ("mine", "theirs"))
    queue = a_queue_row("continuous", system=theirs, enabled=False)
    a_held(queue)
    operation = started(plan("delete"), reason="agreed")
    run(operation)
    queue_removal.remove(queue.pk, Author("otto", "not needed"), typed=queue.name)
    person = a_person("Viewers")
    limit = Limit.objects.create(person=person)
    client = Client()
    client.force_login(person)
    for systems in ((), (mine,)):
        limit.systems.set(systems)
        assert client.get(reverse("operation", args=[operation.pk])).status_code == 404
        assert queue.name not in client.get(reverse("operations")).text
    assert queue.name in logged_in("Viewers").get(reverse("operations")).text


def test_a_plan_of_which_nothing_is_left_says_so_once():
    client = logged_in()
    some_held(2)
    operation = plan()
    with connection.cursor() as cursor:
        cursor.execute("DELETE FROM integration_errorattempt")
        cursor.execute("DELETE FROM integration_messageerror")
    page = shown(client, operation)
    assert page.count("Cleanup has removed") == 1
    assert "<table" not in page
    assert "in its current state" not in page, "it has none any more"


def test_the_list_tells_states_and_pages_on():
    client = logged_in()
    some_held(1)
    for _ in range(26):
        plan()
    operations.cancel(plan().pk, actor="otto")
    page = client.get(reverse("operations"))
    assert "Older" in page.text
    older = page.context["page"].older
    assert client.get(reverse("operations"), {"at": older}).status_code == 200
    cancelled = client.get(reverse("operations"), {"state": "CANCELLED"}).text
    assert cancelled.count("not started") == 0
    assert "Cancelled" in cancelled
    running = client.get(reverse("operations"), {"state": "RUNNING"})
    assert not running.context["page"].operations


def test_pages_ask_the_database_a_fixed_number_of_questions(django_assert_max_num_queries):
    client = logged_in()
    some_held(60)
    operation = plan()
    with django_assert_max_num_queries(20):
        shown(client, operation)
    run_operation(started(operation).pk, stop=lambda: None)
    with django_assert_max_num_queries(18):
        shown(client, operation)
    with django_assert_max_num_queries(14):
        client.get(reverse("operations"))
