"""Repairs on a real Spark and a real database: each message is edited and released once."""

import json
from pathlib import Path
from typing import Any

import pytest
from django.test import Client
from django.urls import reverse

from crontasks.bulk import driving
from crontasks.bulk.asking import preview
from crontasks.bulk.deciding import again, cancel
from crontasks.running import operating
from integration.actions import failures, operation_trials, operations
from integration.models import (
    BulkRun,
    ConfigurationChange,
    ErrorChange,
    MessageError,
    ObjectStructure,
    Operation,
    OperationItem,
    Queue,
    StoredObject,
)
from integration.policy.states import OperationState
from integration.selectors.failures.failures import FailureFilter
from integration.selectors.operations import operations as found
from integration.store.sessions import raw_connection
from spark_jobs.repairs import freezing
from spark_jobs.repairs import job as repair_job
from tests.support.builders import a_queue
from tests.support.bulk import a_csv, an_asset_structure, an_import, shared_session, storing
from tests.support.flows import drain
from tests.support.kafka_world import Kafka
from tests.support.operations import plan, started
from tests.support.operations import run as carried_out
from tests.support.repairs import (
    SITE,
    a_repair,
    an_asset,
    driven,
    released,
    sites,
    some_assets,
    tables,
)
from tests.support.rows import a_held, a_person, a_queue_row, an_envelope

pytestmark = [
    pytest.mark.servers,
    pytest.mark.django_db(transaction=True),
    pytest.mark.usefixtures("valkey"),
    pytest.mark.timeout(500),
]
PARTS_OF_BYTES = 64 * 2**10


@pytest.fixture(scope="module", autouse=True)
def spark() -> Any:
    return shared_session()


@pytest.fixture(autouse=True)
def small_parts(monkeypatch: pytest.MonkeyPatch) -> None:
    """Some thirty messages a part: a run of a few hundred has several."""

    def frozen(*said: Any) -> freezing.Plan:
        return freezing.frozen(*said, part_bytes=PARTS_OF_BYTES)

    monkeypatch.setattr(repair_job, "frozen", frozen)


@pytest.fixture
def structure() -> ObjectStructure:
    return an_asset_structure()


@pytest.fixture
def queue(servers: Any, structure: ObjectStructure) -> Queue:
    return storing(a_queue(Kafka(servers.kafka_bootstrap)), structure)


def test_all_are_counted_by_what_comes_of_them_and_an_operation_is_made(queue: Queue) -> None:
    fit = some_assets(queue, 300)
    some_assets(queue, 20, first=300, payload=b'{"siteid":"X"}')
    some_assets(queue, 3, first=320, payload=b"<xml/>")
    for number in range(400, 405):
        some_assets(queue, 1, first=number, payload=an_asset(number, siteid="BEDFORD"))

    run = driven(a_repair(queue, rate=5_000, stop_after="5 %"))

    assert (run.problem, run.state) == (None, "DONE")
    assert run.counts == {"read": 328, "sent": 305, "rejected": 23, "skipped": 0}
    assert len(run.plan["parts"]) > 3
    assert (run.facts["edited"], run.facts["unchanged"]) == (300, 5)
    assert (run.facts["not_applicable"], run.facts["invalid"]) == (3, 20)
    assert [one["messages"] for one in run.facts["causes"]] == [20, 3]
    assert run.facts["causes"][0]["why"].startswith("NO_KEY: ")
    assert "$.assetnum" in run.facts["causes"][0]["why"]
    assert set(run.facts["samples"]) <= {str(row.pk) for row in fit}
    assert len(run.facts["samples"]) == 20
    assert tables(run) == []
    operation = Operation.objects.get()
    assert (operation.pk, operation.verb, operation.state) == (run.pk, "release", "RUNNING")
    assert (operation.rate, operation.stop_share, operation.total) == (5_000, 5, 328)
    assert operation.title == f"Repair 328 messages of {queue.name}"
    assert sites() == {}


def test_what_fits_is_released_and_resolved_and_the_rest_stays_with_its_reason(
    queue: Queue,
) -> None:
    some_assets(queue, 200)
    bad = some_assets(queue, 20, first=300, payload=b'{"siteid":"X"}')
    broken = some_assets(queue, 3, first=320, payload=b"<xml/>")
    run = driven(a_repair(queue))

    operation = released(run, queue)

    assert sites() == {f"A-{n}": "BEDFORD" for n in range(200)}
    assert MessageError.objects.filter(state="RESOLVED").count() == 200
    stay = MessageError.objects.filter(state="HOLD", version=1, edited_payload=None)
    assert {row.pk for row in stay} == {row.pk for row in [*bad, *broken]}
    item = OperationItem.objects.get(error=bad[0].pk)
    assert (item.outcome, item.text) == ("INVALID", run.facts["causes"][0]["why"])
    xml_why = run.facts["causes"][1]["why"]
    assert OperationItem.objects.get(error=broken[0].pk).text == xml_why
    client = Client()
    client.force_login(a_person("Editors"))
    page = client.get(reverse("operation", args=[run.pk])).text
    assert xml_why in page
    assert "Edit those that are on hold…" in page
    assert xml_why in client.get(reverse("failure", args=[broken[0].pk])).text
    operation.refresh_from_db()
    assert (operation.handled, operation.done) == (223, 200)
    progress = found.progress(operation)
    assert (progress.resolved, progress.skipped, progress.left) == (200, 23, 0)


def test_an_edit_is_told_as_one_of_the_console_is_and_the_original_stays(queue: Queue) -> None:
    [row] = some_assets(queue, 1)
    run = driven(a_repair(queue))
    row.refresh_from_db()
    assert bytes(row.payload or b"") == an_asset(0)
    assert json.loads(row.current_payload or b"") == {"assetnum": "A-0", "siteid": "BEDFORD"}
    assert (row.version, row.state, row.edited_by) == (2, "HOLD", "otto")
    assert row.edited_at is not None
    [change] = ErrorChange.objects.all()
    assert (change.actor, change.action, change.reason) == (
        "otto",
        "edit",
        "agreed with the partner",
    )
    assert (change.from_state, change.to_state, change.operation) == ("HOLD", "HOLD", run.pk)
    assert bytes(change.payload_before or b"") == an_asset(0)
    [told] = ConfigurationChange.objects.filter(kind="operation")
    assert (told.subject, told.actor) == (str(run.pk), "otto")
    assert told.after == {"state": "RUNNING"}


def test_without_release_what_was_edited_stays_on_hold(queue: Queue) -> None:
    some_assets(queue, 3)
    same = some_assets(queue, 1, first=9, payload=an_asset(9, siteid="BEDFORD"))
    run = driven(a_repair(queue, release=False))
    assert run.counts == {"read": 4, "sent": 3, "rejected": 0, "skipped": 1}
    assert set(MessageError.objects.values_list("state", flat=True)) == {"HOLD"}
    operation = Operation.objects.get()
    assert (operation.verb, operation.state, operation.done) == ("edit", "DONE", 3)
    assert OperationItem.objects.get(error=same[0].pk).outcome == "UNCHANGED"
    assert found.progress(operation).kept == 3


def test_what_was_changed_meanwhile_is_left_alone_and_counted(
    queue: Queue, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Three after they were chosen, two more after they were judged."""
    rows = some_assets(queue, 200)
    before = [row.pk for row in rows[:3]]
    after = [row.pk for row in rows[50:52]]
    told = driving.RowTell.progress

    def and_meddle(self: driving.RowTell, progress: Any) -> None:
        told(self, progress)
        if progress.stage == "judge" and progress.done == 0 and before:
            for pk in before[:2]:
                failures.edit(pk, version=1, actor="anna", payload=b'{"assetnum":"mine"}')
            MessageError.objects.filter(pk=before[2]).update(state="RESOLVED")
            before.clear()
        if progress.stage == "edit" and progress.done == 0 and after:
            failures.edit(after[0], version=1, actor="anna", payload=b'{"assetnum":"mine"}')
            failures.delete(after[1], version=1, actor="anna", reason="not needed")
            after.clear()

    monkeypatch.setattr(driving.RowTell, "progress", and_meddle)
    run = driven(a_repair(queue))
    assert (run.problem, run.counts) == (
        None,
        {"read": 200, "sent": 195, "rejected": 0, "skipped": 5},
    )
    assert run.facts["changed_meanwhile"] == 5
    mine = MessageError.objects.filter(edited_payload=b'{"assetnum":"mine"}')
    assert mine.count() == 3
    assert ErrorChange.objects.filter(actor="otto", action="edit").count() == 195
    counted = OperationItem.objects.exclude(outcome="").values_list("outcome", flat=True)
    assert sorted(counted) == ["MOVED_ON"] * 4 + ["WRONG_STATE"]


def test_a_row_in_somebodys_hands_is_left_alone(queue: Queue) -> None:
    rows = some_assets(queue, 2)
    with raw_connection("a test") as session, session.transaction():
        session.execute(
            "SELECT 1 FROM integration_messageerror WHERE id = %s FOR UPDATE", [rows[0].pk]
        )
        run = driven(a_repair(queue))
    assert run.counts == {"read": 2, "sent": 1, "rejected": 0, "skipped": 1}
    assert OperationItem.objects.get(error=rows[0].pk).outcome == "IN_WORK"


def test_nothing_joins_a_run_that_was_asked_for(queue: Queue) -> None:
    some_assets(queue, 3)
    run = a_repair(queue)
    [late] = some_assets(queue, 1, first=9)
    MessageError.objects.filter(pk=late.pk).update(last_failed_at="2999-01-01T00:00Z")
    assert driven(run).counts["read"] == 3


def test_a_run_that_is_driven_again_does_nothing_twice(queue: Queue) -> None:
    some_assets(queue, 100)
    run = driven(a_repair(queue))
    BulkRun.objects.update(state="ASKED")

    repeated = driven(run)

    assert (repeated.counts, repeated.facts) == (run.counts, run.facts)
    assert Operation.objects.count() == 1
    assert OperationItem.objects.count() == 100
    assert set(MessageError.objects.values_list("version", flat=True)) == {2}
    assert ErrorChange.objects.count() == 100
    assert tables(run) == []


def test_a_rejected_row_of_an_import_is_repaired_like_any_failure(
    tmp_path: Path, queue: Queue
) -> None:
    wrong = a_csv(tmp_path / "assets.csv", 500, bad=25)
    imported = driven(an_import(tmp_path / "assets.csv", queue))
    assert imported.counts["rejected"] == 25
    some_assets(queue, 2, first=900)

    run = driven(a_repair(queue, run=str(imported.pk)))

    assert run.counts == {"read": 25, "sent": 25, "rejected": 0, "skipped": 0}
    released(run, queue)
    assert set(sites()) == {f"A-{n}" for n in range(500)}
    weights = StoredObject.objects.values_list("document__weight", flat=True)
    assert wrong <= set(weights)


def test_a_release_that_fails_again_stops_by_itself_and_counts_anew_when_resumed(
    queue: Queue, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The change is taken by the structure of that time, and not by the one of now."""
    monkeypatch.setattr(operating, "FIRST_ROWS", 10)
    some_assets(queue, 60)
    run = driven(a_repair(queue, stop_after="8"))
    ObjectStructure.objects.update(key_paths=["$.assetnum", "$.nothing"])
    operation = Operation.objects.get(pk=run.pk)

    def turn() -> OperationState | None:
        """One chunk, and what it released is tried."""
        state = operating.run_operation(operation.pk, stop=lambda: "next", turn_seconds=0)
        drain(queue)
        operation.refresh_from_db()
        return state

    assert turn() is OperationState.RUNNING
    assert operation.done == 10
    assert turn() is OperationState.PAUSED
    assert (operation.done, operation.stopped_itself) == (10, True)
    assert MessageError.objects.filter(state="HOLD", code="NO_KEY").count() == 10
    assert found.progress(operation).failed == 10

    operations.resume(operation.pk, version=operation.version, actor="otto")
    assert turn() is OperationState.RUNNING
    assert operation.done == 20, "what failed before it was resumed does not stop it again"
    assert turn() is OperationState.PAUSED


def test_a_cancelled_run_keeps_what_it_did_and_goes_on_when_asked(
    queue: Queue, monkeypatch: pytest.MonkeyPatch
) -> None:
    some_assets(queue, 200)
    run = a_repair(queue)
    told = driving.RowTell.progress
    original = repair_job.apply

    def one_part(database: str, owned: Any, part: freezing.Part) -> None:
        if part.number == 0:
            original(database, owned, part)

    def and_cancel(self: driving.RowTell, progress: Any) -> None:
        told(self, progress)
        if progress.stage == "edit" and progress.done == 1:
            assert cancel(run.pk)

    monkeypatch.setattr(repair_job, "apply", one_part)
    monkeypatch.setattr(driving.RowTell, "progress", and_cancel)
    ended = driven(run)
    monkeypatch.undo()

    assert ended.state == "CANCELLED"
    edited = MessageError.objects.filter(version=2, state="HOLD").count()
    assert 0 < edited < 200
    assert "had their turn" in ended.log
    assert Operation.objects.count() == 0
    assert again(run.pk)
    assert driven(run).counts == {"read": 200, "sent": 200, "rejected": 0, "skipped": 0}
    assert set(MessageError.objects.values_list("version", flat=True)) == {2}


def test_a_run_whose_choice_is_gone_says_so(queue: Queue) -> None:
    some_assets(queue, 2)
    run = a_repair(queue)
    BulkRun.objects.filter(pk=run.pk).update(plan={"messages": 2, "parts": [[0, 2]]})
    assert driven(run).problem[0] == "PLAN_LOST"


def test_a_driver_that_lost_the_run_writes_nothing(
    queue: Queue, monkeypatch: pytest.MonkeyPatch
) -> None:
    """It is taken between the judging and the first edit, and nobody tells the first driver."""
    some_assets(queue, 60)
    run = a_repair(queue)
    told = driving.RowTell.progress

    def and_take(self: driving.RowTell, progress: Any) -> None:
        told(self, progress)
        if progress.stage == "edit":
            BulkRun.objects.update(epoch=9)

    monkeypatch.setattr(driving.RowTell, "progress", and_take)
    monkeypatch.setattr(driving.RowTell, "go_on", lambda _: None)
    driven(run)
    assert MessageError.objects.filter(version=1).count() == 60
    assert (ErrorChange.objects.count(), Operation.objects.count()) == (0, 0)


def test_a_repair_makes_the_bytes_that_the_console_makes(
    queue: Queue, structure: ObjectStructure
) -> None:
    exact = '{"assetnum":"A-1","big":12345678901234567890,"price":1.10,"tiny":1E-30,"e":"é\\u00e9"}'
    wrapped = an_envelope(None, compressed=False).replace(b'"null"', json.dumps(exact).encode())
    packed = an_envelope({"assetnum": "A-2", "price": 1.5})
    odd = [b"[]", b'{"assetnum":', b"", None, b"\xef\xbb\xbf{}"]
    records = [exact.encode(), wrapped, packed, *odd]
    recipe = '[{"op":"add","path":"/siteid","value":1.00}]'
    by_console = a_queue_row("continuous", default_service=queue.default_service)
    for rows in (queue, by_console):
        for number, record in enumerate(records):
            a_held(rows, number, payload=record, interface="", headers=[])
    driven(a_repair(queue, recipe, release=False))
    operation = plan("edit", FailureFilter(state="", queue=by_console.name))
    operations.set_recipe(operation.pk, recipe, version=operation.version)
    operation_trials.go_on_trying(operation.pk)
    operation.refresh_from_db()
    started(operation, reason="agreed")
    assert carried_out(operation) is OperationState.DONE

    def made(of: Queue) -> list[bytes | None]:
        rows = MessageError.objects.filter(queue=of).order_by("offset")
        edited = rows.values_list("edited_payload", flat=True)
        return [None if value is None else bytes(value) for value in edited]

    def told(of: Queue) -> list[tuple[str, str]]:
        rows = OperationItem.objects.filter(error__queue=of).order_by("error__offset")
        return list(rows.values_list("outcome", "text"))

    assert made(queue) == made(by_console)
    assert told(queue) == told(by_console)
    assert sum(value is not None for value in made(queue)) == 3
    assert b"12345678901234567890" in (made(queue)[0] or b"")


def test_a_text_chooses_messages_also_inside_of_envelopes(queue: Queue) -> None:
    a_held(queue, 1, payload=an_asset(1, name="Köln"), interface="", headers=[])
    packed = an_envelope({"assetnum": "A-2", "name": "Köln"})
    a_held(queue, 2, payload=packed, interface="", headers=[])
    a_held(queue, 3, payload=an_envelope({"assetnum": "A-3"}), interface="", headers=[])
    a_held(queue, 4, payload=an_asset(4), interface="", headers=[])
    job_request = {"recipe": SITE, "queue": queue.name, "text": "Köln"}
    assert preview("repair", job_request).facts["edited"] == 2
    run = driven(a_repair(queue, text="Köln"))
    assert run.counts == {"read": 2, "sent": 2, "rejected": 0, "skipped": 0}
    edited = MessageError.objects.exclude(edited_payload=None)
    assert sorted(edited.values_list("offset", flat=True)) == [1, 2]
    assert Operation.objects.get().total == 2
