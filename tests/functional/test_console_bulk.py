"""Runs of bulk jobs over HTTP: listed, told in words, decided about, and kept from strangers."""

from base64 import b64encode
from datetime import timedelta
from io import StringIO
from pathlib import Path
from typing import Any

import pytest
from django.test import Client
from django.urls import reverse
from django.utils import timezone

from console.bulk.words import summary
from console.layout.access import Right
from console.models import Limit
from crontasks.bulk.catalogue import CATALOGUE
from crontasks.bulk.command import BulkCommand, write_end
from crontasks.bulk.driving import drive
from integration.models import (
    BulkRun,
    ConfigurationChange,
    ExternalSystem,
    MaskingRule,
    MessageError,
    Queue,
)
from integration.selectors.bulk import runs
from integration.selectors.failures.cause_ids import cause_id
from integration.selectors.scope import EVERYTHING
from tests.support.bulk_pages import a_file, a_reject, a_run, a_running, act, assets, logged_in, see
from tests.support.rows import a_held, a_person, a_queue_row

pytestmark = [pytest.mark.servers, pytest.mark.django_db]


@pytest.fixture
def queue() -> Queue:
    return assets()


def told(run: BulkRun) -> str:
    found = runs.one(run.pk, EVERYTHING)
    assert found is not None
    return summary(found).what


class TestList:
    def test_who_has_no_run_yet_sees_what_can_be_asked_for(self) -> None:
        page = logged_in("Viewers").get(reverse("bulk")).text
        assert "No runs yet" in page
        assert CATALOGUE["import"].sentence in page
        assert Right.OPERATE.missing in page

    def test_a_run_is_told_with_its_counts_and_how_far_it_is(self, queue: Queue) -> None:
        counts = {"read": 2_000, "sent": 1_980, "rejected": 20, "skipped": 0}
        a_run(queue, state="DONE", counts=counts, reason="first load")
        a_running(queue)
        page = logged_in().get(reverse("bulk")).text
        for text in ("1,980", "first load", "40 %", "15 s to go", "4,000", "100 %"):
            assert text in page
        assert page.index("40 %") < page.index("100 %"), "the newest first"

    def test_it_is_narrowed_and_paged(self, queue: Queue) -> None:
        for number in range(30):
            state = "DONE" if number % 2 else "FAILED"
            a_run(queue, state=state, reason=f"number {number:02}")
        client = logged_in()
        first = client.get(reverse("bulk"), {"state": "DONE", "job": "import"})
        assert first.context["page"].older == ""
        assert len(first.context["lines"]) == 15
        first = client.get(reverse("bulk"))
        older = client.get(reverse("bulk"), {"at": first.context["page"].older})
        shown = [line[0].run.reason for line in (*first.context["lines"], *older.context["lines"])]
        assert shown == [f"number {number:02}" for number in reversed(range(30))]
        assert client.get(reverse("bulk"), {"state": "RUNNING"}).context["lines"] == []
        assert client.get(reverse("bulk"), {"at": "x", "state": "'", "job": "\0"}).status_code in {
            200,
            400,
        }

    def test_pages_ask_the_database_a_fixed_number_of_questions(
        self, queue: Queue, django_assert_max_num_queries: Any
    ) -> None:
        client = logged_in()
        counts = {"read": 9, "sent": 0, "rejected": 9, "skipped": 0}
        made = [a_run(queue, state="DONE", counts=counts) for _ in range(20)]
        for place in range(9):
            a_reject(made[0], queue, place)
        with django_assert_max_num_queries(14):
            client.get(reverse("bulk"))
        with django_assert_max_num_queries(15):
            client.get(reverse("bulk-run", args=[made[0].pk]))


class TestRun:
    def test_what_happens_stands_in_a_sentence(self, queue: Queue) -> None:
        assert "waits for the Spark driver" in told(a_run(queue))
        assert told(a_running(queue)) == "Reading and checking rows."
        assert "stored in one commit now" in told(a_running(queue, done=100))
        assert "being cancelled" in told(cancelled(a_running(queue)))
        done = a_run(queue, state="DONE", counts={"read": 3, "sent": 1, "rejected": 2})
        assert told(done) == "It is done: 3 read, 1 went where they should, 2 rejected."
        failed = a_run(queue, state="FAILED", problem=["NO_SOURCE", "No file.", "Name one."])
        page = see(logged_in("Viewers"), failed)
        assert "<code>NO_SOURCE</code> No file." in page
        assert "What to do now: Name one." in page

    @pytest.mark.parametrize(
        ("job", "parameters", "stays"),
        [
            ("import", {"target": None}, "Nothing of it counts."),
            ("import", {"target": {"topic": "t"}}, "a new request would send all of them."),
            ("export", {"target": {"topic": "t"}}, "a new request would send all of them."),
            ("replay", {"into": "topic", "target": "t"}, "a new request would send all of them."),
            ("replay", {"into": "structure", "target": "ASSET"}, "Nothing of it counts."),
            ("repair", {}, "What had been edited by then stays so, on hold."),
            ("archive", {}, "What had been archived and removed here by then stays so."),
        ],
    )
    def test_of_a_cancelled_run_it_is_told_what_stays(
        self, queue: Queue, job: str, parameters: dict[str, Any], stays: str
    ) -> None:
        asked = {"job": job, "job_request": {}, "parameters": parameters}
        ended = a_run(queue, state="CANCELLED", epoch=1, **asked)
        assert told(ended).endswith(stays)
        said = StringIO()
        with pytest.raises(SystemExit):
            write_end(ended, BulkCommand(stdout=StringIO(), stderr=said))
        assert stays in said.getvalue()
        until = timezone.now() + runs.LEASE
        BulkRun.objects.filter(pk=ended.pk).update(state="RUNNING", lease_until=until)
        assert told(cancelled(ended)).endswith(stays)
        unbegun = a_run(queue, state="CANCELLED", **asked)
        assert told(unbegun) == "It was cancelled. Nothing of it counts."

    def test_files_are_named_as_people_know_them(
        self, queue: Queue, settings: Any, tmp_path: Path
    ) -> None:
        settings.SLUICE_BULK_ROOT = tmp_path
        text = f"{tmp_path}/in/a.csv is not the file any more."
        failed = a_run(queue, state="FAILED", problem=["SOURCE_CHANGED", text, "Put it back."])
        assert told(failed) == "in/a.csv is not the file any more."

    def test_a_driver_that_does_not_answer_is_told_with_what_was_known_last(
        self, queue: Queue
    ) -> None:
        run = a_running(queue)
        ended = timezone.now() - timedelta(minutes=3)
        BulkRun.objects.filter(pk=run.pk).update(lease_until=ended)
        page = see(logged_in("Viewers"), run)
        assert "40 %" in page
        assert "last known" in page
        assert f"{ended - runs.LEASE:%d %B %Y, %H:%M:%S} UTC" in page
        assert "to go" not in page
        assert "0 %" not in page.replace("40 %", "")

    def test_what_an_earlier_try_had_done_is_part_of_the_bar_and_not_of_the_pace(
        self, queue: Queue
    ) -> None:
        run = a_running(queue, ago=10, done=60, rows=6_000, done_before=40, rows_before=4_000)
        standing = runs.standing(run, timezone.now())
        assert standing.percent == 60
        assert standing.rate == pytest.approx(200)
        assert standing.seconds_left == pytest.approx(20)

    def test_parts_that_need_no_work_are_counted_out(self, queue: Queue) -> None:
        run = a_running(queue, done=40, total=100, skipped=50)
        standing = runs.standing(run, timezone.now())
        assert (standing.percent, standing.total) == (80, 50)

    def test_stages_are_listed_where_the_job_names_them(self, queue: Queue) -> None:
        run = a_running(queue, stage="write", stages=["plan", "write", "check"])
        page = see(logged_in("Viewers"), run)
        assert "46 %" in page, "one stage and four tenths of three"
        assert "to go in this stage" in page
        assert '<li aria-current="step">' in page
        assert "Reading back what was written" in page

    def test_numbers_that_do_not_add_up_are_told(self, queue: Queue) -> None:
        counts = {"read": 10, "sent": 7, "rejected": 1, "skipped": 1}
        page = see(logged_in(), a_run(queue, state="DONE", counts=counts))
        assert "10 read = 7 sent + 1 rejected + 1 skipped" in page
        assert "1 rows are unaccounted for" in page

    def test_rejects_are_told_by_cause_and_lead_to_their_failures(self, queue: Queue) -> None:
        counts = {"read": 10, "sent": 7, "rejected": 3, "skipped": 0}
        run, other = a_run(queue, state="DONE", counts=counts), a_run(queue)
        a_reject(run, queue, 1)
        a_reject(run, queue, 2, state="RESOLVED")
        a_reject(run, queue, 3, code="BAD_CSV", fingerprint="c" * 16, text="No row of CSV.")
        a_reject(other, queue, 4)
        client = logged_in("Editors")
        page = see(client, run)
        assert "1 is resolved by now, 2 are open" in page
        found = client.get(reverse("failure-list"), {"run": str(run.pk), "state": ""})
        assert found.context["page"].count == 3
        groups = client.get(reverse("failures"), {"by": "cause", "run": str(run.pk)})
        assert {group.code for group, _, _ in groups.context["lines"]} == {
            "MISSING_VALUE",
            "BAD_CSV",
        }
        assert groups.context["grouped"].total == 2
        assert f"run={run.pk}" in groups.context["lines"][0][2]
        assert reverse("bulk-run", args=[run.pk]) in groups.text
        odd = client.get(reverse("failures"), {"by": "cause", "run": "'"}, follow=True)
        assert list(odd.context["form"].errors) == ["run"]
        MessageError.objects.filter(topic_uuid=str(run.pk)).update(state="RESOLVED")
        assert "All 10 rows came to a good end" in see(client, run)

    def test_the_failures_of_a_run_become_an_operation_of_just_these(self, queue: Queue) -> None:
        run, other = a_run(queue), a_run(queue)
        a_reject(run, queue, 1)
        a_reject(other, queue, 2)
        client = logged_in("Editors")
        query = f"run={run.pk}&code=MISSING_VALUE"
        form = {"verb": "release", "scope": "matching", "query": query}
        answer = client.post(reverse("review"), form, follow=True)
        assert "Release 1 message?" in answer.text
        form["query"] = "run=not-a-run"
        assert client.post(reverse("review"), form).status_code == 400

    def test_a_reject_names_the_run_it_is_of(self, queue: Queue) -> None:
        run = a_run(queue)
        page = logged_in().get(reverse("failure", args=[a_reject(run, queue, 1).pk])).text
        assert reverse("bulk-run", args=[run.pk]) in page

    def test_a_reject_tells_its_row_and_no_place_in_a_topic(self, queue: Queue) -> None:
        run = a_run(queue)
        told = [("sluice-run", str(run.pk)), ("sluice-file", "/in/a.csv"), ("sluice-line", "17")]
        headers = [[name, b64encode(value.encode()).decode()] for name, value in told]
        detail = "Line 17 of /in/a.csv\nA-17;<b>;never mapped"
        reject = a_reject(run, queue, 1, headers=headers, detail=detail)
        address = reverse("failure", args=[reject.pk])
        page = logged_in("Editors").get(address).text
        assert "<dt>Row</dt><dd>line 17 of a.csv</dd>" in page
        assert "A-17;&lt;b&gt;;never mapped" in page
        assert "never mapped" not in logged_in("Viewers").get(address).text
        MaskingRule.objects.create(name="card", path="$.card")
        assert "never mapped" not in logged_in("Editors").get(address).text
        assert "Read from line 17 of a.csv, and rejected" in page
        assert f"Bulk run:     {run.pk}" in page
        assert "<dt>Position</dt>" not in page
        stray = a_held(queue, 2, headers=headers)
        page = logged_in().get(reverse("failure", args=[stray.pk])).text
        assert "<dt>Position</dt>" in page
        assert "line 17 of a.csv, and rejected" not in page

    def test_texts_of_a_request_are_for_those_who_may_see_payloads(
        self, queue: Queue, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        job_request = {"source": "/elsewhere/a.csv", "structure": "ASSET", "columns": "A=a"}
        run = a_run(queue, job_request=job_request)
        monkeypatch.setattr("console.bulk.rights.PLAIN", frozenset({"structure"}))
        operator, editor = logged_in("Operators"), logged_in("Editors")
        assert "A=a" in see(editor, run)
        hidden = see(operator, run)
        assert "A=a" not in hidden
        assert "Not all of it is shown" in hidden

    def test_a_cause_that_was_stored_as_it_is_in_failures_is_shown_by_its_id(
        self, queue: Queue
    ) -> None:
        stored = "0123456789abcdef"
        run = a_run(queue, job="repair", job_request={"recipe": "[]", "cause": stored})
        page = see(logged_in("Editors"), run)
        assert stored not in page
        assert cause_id(stored) in page


def cancelled(run: BulkRun) -> BulkRun:
    BulkRun.objects.filter(pk=run.pk).update(cancel_asked_at=timezone.now())
    return run


class TestVerbs:
    def test_a_run_that_waits_is_cancelled_at_once_and_audited(self, queue: Queue) -> None:
        run = a_run(queue)
        client = logged_in()
        assert act(client, run, "cancel", reason="the wrong file").status_code == 303
        run.refresh_from_db()
        assert run.state == "CANCELLED"
        assert drive(run.pk, owner="late") is None
        page = see(client, run)
        assert "Cancelled" in page
        assert "the wrong file" in page
        [change] = ConfigurationChange.objects.filter(kind="bulkrun")
        assert change.before == {"state": "ASKED", "cancel_asked": False}
        assert change.after == {"state": "CANCELLED", "cancel_asked": True}

    def test_the_driver_is_asked_to_stop_one_that_runs(self, queue: Queue) -> None:
        run = a_running(queue)
        assert act(logged_in(), run, "cancel").status_code == 303
        run.refresh_from_db()
        assert (run.state, run.cancel_asked_at is not None) == ("RUNNING", True)

    def test_what_failed_is_run_again(self, queue: Queue) -> None:
        run = a_run(queue, state="FAILED", problem=["X", "y", "z"])
        client = logged_in()
        assert act(client, run, "again").status_code == 303
        run.refresh_from_db()
        assert (run.state, run.problem) == ("ASKED", None)
        assert act(client, run, "again").status_code == 409
        told = client.get(reverse("changes")).text
        assert reverse("bulk-run", args=[run.pk]) in told

    def test_what_has_ended_is_not_cancelled(self, queue: Queue) -> None:
        run = a_run(queue, state="DONE", counts={"read": 0})
        answer = act(logged_in(), run, "cancel")
        assert answer.status_code == 409
        assert "Nothing was done" in answer.text
        assert not ConfigurationChange.objects.filter(kind="bulkrun").exists()

    def test_a_viewer_looks_and_does_nothing(self, queue: Queue) -> None:
        run, client = a_running(queue), logged_in("Viewers")
        assert "disabled" in see(client, run)
        for verb in ("cancel", "again"):
            assert act(client, run, verb).status_code == 403
        run.refresh_from_db()
        assert run.cancel_asked_at is None


class TestLimits:
    @pytest.fixture
    def theirs(self) -> Queue:
        return assets(name="theirs-in", system=ExternalSystem.objects.create(name="theirs"))

    def limited(self, queue: Queue, role: str = "Editors") -> Client:
        person = a_person(role)
        limit = Limit.objects.create(person=person)
        limit.systems.add(queue.system)
        client = Client()
        client.force_login(person)
        return client

    def test_only_runs_all_of_whose_queues_are_theirs_are_there(self, theirs: Queue) -> None:
        others = a_queue_row("continuous", system=ExternalSystem.objects.create(name="others"))
        own = a_run(theirs, reason="own")
        hidden = [
            a_run(others, reason="not-yours"),
            a_run(reason="not-yours"),
            a_run(theirs, queues=[theirs.pk, others.pk], reason="not-yours"),
        ]
        client = self.limited(theirs)
        page = client.get(reverse("bulk")).text
        assert "own" in page
        assert "not-yours" not in page
        assert see(client, own)
        for run in hidden:
            for verb in ("cancel", "again"):
                assert act(client, run, verb).status_code == 404
            assert client.get(reverse("bulk-run", args=[run.pk])).status_code == 404
            file = reverse("bulk-file", args=[run.pk, "a.csv"])
            assert client.get(file).status_code == 404
        assert act(client, own, "cancel").status_code == 303


class TestFiles:
    def test_what_an_export_wrote_is_fetched_by_those_who_may_see_payloads(
        self, queue: Queue, settings: Any, tmp_path: Path
    ) -> None:
        settings.SLUICE_BULK_ROOT = tmp_path
        run, other = a_run(queue, state="DONE"), a_run(queue, state="DONE")
        a_file(tmp_path, f"exports/{run.pk}/day=1/part-0.jsonl", '{"a": 1}\n')
        a_file(tmp_path, f"exports/{run.pk}/_SUCCESS", "")
        a_file(tmp_path, f"exports/{other.pk}/secret.csv", "no")
        (tmp_path / f"exports/{run.pk}/link.csv").symlink_to(tmp_path / f"exports/{other.pk}")
        editor, operator = logged_in("Editors"), logged_in("Operators")
        page = see(editor, run)
        address = reverse("bulk-file", args=[run.pk, "day=1/part-0.jsonl"])
        assert address in page
        assert "_SUCCESS" not in page
        assert "link.csv" not in page
        answer = editor.get(address)
        assert b"".join(answer.streaming_content) == b'{"a": 1}\n'  # type: ignore[attr-defined]
        assert answer["Content-Type"] == "application/octet-stream"
        assert 'attachment; filename="part-0.jsonl"' in answer["Content-Disposition"]
        assert operator.get(address).status_code == 403
        assert "You cannot download them" in see(operator, run)
        for name in (
            f"../{other.pk}/secret.csv",
            "link.csv/secret.csv",
            "link.csv",
            "_SUCCESS",
            "../../../etc/passwd",
            "none.csv",
            "x" * 300,
        ):
            path = f"{reverse('bulk-run', args=[run.pk])}files/{name}"
            assert editor.get(path).status_code == 404, name
