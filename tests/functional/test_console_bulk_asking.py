"""Asking for bulk jobs over HTTP: from the file to the run, with a look before anything is done."""

import html
import json
import re
from dataclasses import asdict, dataclass
from enum import StrEnum
from pathlib import Path
from typing import Any

import pytest
from django.test import Client
from django.urls import reverse

from console.models import Limit
from crontasks.bulk.catalogue import CATALOGUE, Entry
from crontasks.parameters import describe, option
from integration.models import BulkRun, ConfigurationChange, ExternalSystem, Queue
from spark_jobs import running
from spark_jobs.contract import Arguments, Preview, Sample
from tests.support.bulk_pages import a_file, a_run, assets, logged_in, new, see
from tests.support.rows import a_person, a_queue_row

pytestmark = [pytest.mark.servers, pytest.mark.django_db]
ROWS = "ASSETNUM;SITEID;WEIGHT;Long-Name\nA-1;BEDFORD;7;Pump\nA-2;;x;Fan\n"
TARGET = {"parameter-structure": "ASSET", "parameter-rejects_queue": "assets-in"}
THEIRS = {"structure": "", "queue": "theirs-in", "rejects_queue": "theirs-in"}
REQUEST = {
    "source": "in/assets.csv",
    "structure": "ASSET",
    "rejects_queue": "assets-in",
    "delimiter": ";",
    "columns": "ASSETNUM=assetnum!\nSITEID=siteid!\nWEIGHT=facts.weight:integer",
}


@pytest.fixture
def queue() -> Queue:
    return assets()


@pytest.fixture
def root(settings: Any, tmp_path: Path) -> Path:
    settings.SLUICE_BULK_ROOT = tmp_path
    a_file(tmp_path, "in/assets.csv", ROWS)
    return tmp_path


def step(client: Client, **said: str) -> Any:
    return client.get(reverse("bulk-new", args=["import"]), said)


def columns(client: Client, **said: str) -> Any:
    asked = {"source": "in/assets.csv", "step": "columns", "parameter-delimiter": ";"}
    answer = step(client, **{**asked, **TARGET, **said})
    assert answer.status_code == 200, answer.context["form"].errors
    return answer


def look(client: Client, **job_request: Any) -> Any:
    return new(client, form={"look": "1", "job_request": json.dumps(REQUEST | job_request)})


def ask(client: Client, number: str = "", **job_request: Any) -> Any:
    said = json.dumps(REQUEST | job_request)
    form = {"ask": "1", "job_request": said, "run": number, "reason": "first load"}
    return new(client, form=form)


def hidden(page: str, name: str) -> str:
    found = re.search(rf'<input\s+type="hidden"\s+name="{name}"\s+value="([^"]*)">', page)
    assert found is not None, name
    return html.unescape(found[1])


def mapped(page: Any) -> dict[str, str]:
    """The form of the columns as a browser sends it, the last column left out."""
    form = {"look": "1", "job_request": hidden(page.text, "job_request")}
    for line in page.context["lines"]:
        form[f"column-{line.number}"] = line.column
        form[f"place-{line.number}"] = line.becomes.target
        form[f"kind-{line.number}"] = line.becomes.kind
        form |= {f"required-{line.number}": "on"} if line.becomes.required else {}
    return {**form, "place-3": " "}


class TestImport:
    def test_what_the_file_and_the_structure_tell_is_filled_in(
        self, queue: Queue, root: Path
    ) -> None:
        client = logged_in("Editors")
        assert "Upload a file" in step(client).text
        form = step(client, source="in/assets.csv").context["form"]
        said = [form[f"parameter-{name}"].value() for name in ("format", "delimiter", "encoding")]
        assert said == ["csv", ";", "utf-8"]
        lines = {line.column: line for line in columns(client).context["lines"]}
        places = [line.becomes.target for line in lines.values()]
        assert places == ["assetnum", "siteid", "facts.weight", "long-name"]
        assert lines["WEIGHT"].becomes.kind == "integer"
        assert lines["SITEID"].becomes.required
        assert lines["WEIGHT"].values == ("7", "x")

    def test_from_the_columns_to_the_run(self, queue: Queue, root: Path) -> None:
        client = logged_in("Editors")
        page = columns(client)
        preview = new(client, form=mapped(page))
        assert "About 2 rows" in preview.text
        assert "1 is good and 1 would be rejected" in preview.text
        assert "<code>MISSING_VALUE</code> SITEID is empty." in preview.text
        assert not BulkRun.objects.exists()
        job_request = hidden(preview.text, "job_request")
        assert json.loads(job_request) == REQUEST
        run_id = hidden(preview.text, "run")
        form = {"ask": "1", "job_request": job_request, "run": run_id, "reason": "load"}
        answer = new(client, form=form)
        run = BulkRun.objects.get()
        assert answer["Location"] == reverse("bulk-run", args=[run.pk])
        assert run.job_request == {**REQUEST, "source": str(root / "in/assets.csv")}
        assert (run.state, run.reason, run.queues) == ("ASKED", "load", [queue.pk])
        assert Path(run.sentinel).read_text() == str(run.pk)
        shown = see(client, run)
        assert "in/assets.csv" in shown
        assert str(root) not in shown

    def test_a_second_click_asks_for_the_same_run(self, queue: Queue, root: Path) -> None:
        client = logged_in()
        number = "0f0e0d0c-0b0a-4908-8706-050403020100"
        first, second = ask(client, number), ask(client, number)
        assert first["Location"] == second["Location"] == reverse("bulk-run", args=[number])
        assert BulkRun.objects.count() == 1
        [change] = ConfigurationChange.objects.filter(kind="bulkrun")
        assert (change.action, change.after, change.reason) == (
            "create",
            {"job": "import"},
            "first load",
        )

    def test_lines_of_json_need_no_map(self, queue: Queue, root: Path) -> None:
        a_file(root, "in/assets.jsonl", '{"assetnum": "A-1", "siteid": "BEDFORD"}\n')
        client = logged_in("Editors")
        page = step(client, source="in/assets.jsonl")
        assert page.context["form"]["parameter-format"].value() == "jsonl"
        page = columns(client, source="in/assets.jsonl", **{"parameter-format": "jsonl"})
        assert not page.context["lines"]
        preview = new(client, form={"look": "1", "job_request": hidden(page.text, "job_request")})
        assert "1 is good" in preview.text

    @pytest.mark.parametrize(
        ("job_request", "code"),
        [
            ({"structure": "NONE"}, "UNKNOWN_STRUCTURE"),
            ({"rejects_queue": "none"}, "UNKNOWN_QUEUE"),
            ({"columns": "NONE=x"}, "UNKNOWN_COLUMN"),
            ({"columns": "ASSETNUM"}, "BAD_PARAMETERS"),
            ({"source": "in/none.csv"}, "NO_SOURCE"),
            ({"source": "../secret.csv"}, "OUTSIDE_FOLDER"),
            ({"source": "/etc/passwd"}, "OUTSIDE_FOLDER"),
            ({"source": "in/../../x/*.csv"}, "OUTSIDE_FOLDER"),
            ({"source": "x" * 5_000}, "OUTSIDE_FOLDER"),
            ({"surprise": 1}, "BAD_PARAMETERS"),
            ({"encoding": "utf-16"}, "BAD_PARAMETERS"),
            ({"source": 7}, "NO_SOURCE"),
        ],
    )
    def test_what_cannot_be_is_told_with_its_code_and_the_next_step(
        self, queue: Queue, root: Path, job_request: dict[str, Any], code: str
    ) -> None:
        answer = look(logged_in(), **job_request)
        assert answer.status_code == 422
        assert f"<code>{code}</code>" in answer.text
        assert answer.context["problem"].next_step in html.unescape(answer.text)

    @pytest.mark.parametrize(
        "job_request",
        [{"structure": "NONE"}, {"columns": ""}, {"source": "../x.csv"}, {"surprise": 1}],
    )
    def test_nothing_is_stored_of_what_cannot_be(
        self, queue: Queue, root: Path, job_request: dict[str, Any]
    ) -> None:
        assert ask(logged_in(), **job_request).status_code == 422
        assert not BulkRun.objects.exists()

    @pytest.mark.parametrize(
        "job_request", ["", "[]", "{", "null", '{"source": []}', '{"a": {"b": 1}}', "[" * 100_000]
    )
    def test_a_request_that_this_console_did_not_write_is_refused(
        self, queue: Queue, root: Path, job_request: str
    ) -> None:
        client = logged_in()
        for button in ("look", "ask", "edit"):
            assert new(client, form={button: "1", "job_request": job_request}).status_code == 400

    def test_no_link_leads_out_of_the_folder(
        self, queue: Queue, root: Path, tmp_path_factory: pytest.TempPathFactory
    ) -> None:
        elsewhere = tmp_path_factory.mktemp("elsewhere")
        a_file(elsewhere, "secret.csv", ROWS)
        (root / "in" / "link").symlink_to(elsewhere)
        (root / "in" / "one.csv").symlink_to(elsewhere / "secret.csv")
        client = logged_in()
        for source in ("in/link/secret.csv", "in/one.csv", "in/*/*.csv", "in", "in/o*.csv"):
            answer = look(client, source=source)
            assert "<code>OUTSIDE_FOLDER</code>" in answer.text, source

    def test_something_is_changed_without_losing_the_rest(self, queue: Queue, root: Path) -> None:
        client = logged_in("Editors")
        answer = new(client, form={"edit": "1", "job_request": json.dumps(REQUEST)})
        lines = {line.column: line.becomes for line in answer.context["lines"]}
        assert lines["WEIGHT"].target == "facts.weight"
        assert lines["Long-Name"].target == "", "it was left out before"
        addresses = {title: address for title, address, *_ in answer.context["stepper"]}
        form = client.get(addresses["Target"]).context["form"]
        assert form["parameter-rejects_queue"].value() == "assets-in"
        assert form["parameter-delimiter"].value() == ";"

    def test_an_earlier_run_is_asked_again_with_the_same_words(
        self, queue: Queue, root: Path
    ) -> None:
        client = logged_in("Editors")
        ask(client)
        run = BulkRun.objects.get()
        page = step(client, again=str(run.pk))
        assert page.context["source"] == "in/assets.csv"
        assert page.context["form"]["parameter-structure"].value() == "ASSET"
        page = columns(client, again=str(run.pk))
        lines = {line.column: line.becomes for line in page.context["lines"]}
        assert lines["Long-Name"].target == ""
        assert lines["WEIGHT"].kind == "integer"
        other = a_run(job="other", job_request={"structure": "NOTHERE"})
        assert step(client, again=str(other.pk)).context["source"] == ""

    def test_rows_of_others_are_hidden_from_people_who_may_not_see_payloads(
        self, queue: Queue, root: Path
    ) -> None:
        operator = logged_in("Operators")
        page = columns(operator)
        assert "Pump" not in page.text
        preview = look(operator)
        assert "BEDFORD" not in preview.text
        assert "MISSING_VALUE" in preview.text
        assert "BEDFORD" in look(logged_in("Editors")).text

    def test_who_may_not_operate_sees_no_form(self, queue: Queue, root: Path) -> None:
        viewer = logged_in("Viewers")
        assert step(viewer).status_code == 403
        assert ask(viewer).status_code == 403
        assert not BulkRun.objects.exists()

    def test_without_a_folder_it_is_told_what_to_set(self, queue: Queue) -> None:
        client = logged_in()
        assert "SLUICE_BULK_ROOT" in step(client).text
        assert "<code>NO_BULK_ROOT</code>" in ask(client).text

    def test_there_is_no_form_of_a_job_that_there_is_not(self) -> None:
        client = logged_in()
        assert client.get(reverse("bulk-new", args=["none"])).status_code == 404


class TestLimits:
    @pytest.fixture
    def eva(self, queue: Queue, root: Path) -> Client:
        system = ExternalSystem.objects.create(name="theirs")
        a_queue_row("continuous", name="theirs-in", system=system)
        person = a_person("Operators")
        Limit.objects.create(person=person).systems.add(system)
        client = Client()
        client.force_login(person)
        self.uploads = f"uploads/{person.pk}"
        a_file(root, f"{self.uploads}/own.csv", ROWS)
        a_file(root, "uploads/9999/others.csv", ROWS)
        return client

    def test_people_with_limits_use_their_own_uploads_and_queues_alone(self, eva: Client) -> None:
        page = step(eva, source=f"{self.uploads}/own.csv").text
        assert "theirs-in" in page
        assert "assets-in" not in page
        for source in (
            "in/assets.csv",
            "uploads/9999/others.csv",
            "uploads",
            f"{self.uploads}/../9999",
        ):
            answer = ask(eva, source=source, **THEIRS)
            assert "<code>OUTSIDE_FOLDER</code>" in answer.text, source
            shown = step(eva, source=source)
            assert shown.status_code == 422
            assert "Pump" not in shown.text
        own = {**THEIRS, "source": f"{self.uploads}/own.csv"}
        for others in ({"queue": "assets-in"}, {"rejects_queue": "assets-in"}):
            assert "<code>UNKNOWN_QUEUE</code>" in ask(eva, **own | others).text
        assert not BulkRun.objects.exists()
        assert ask(eva, **own).status_code == 303
        assert see(eva, BulkRun.objects.get())

    def test_their_own_rows_are_shown_to_those_who_uploaded_them(self, eva: Client) -> None:
        preview = look(eva, source=f"{self.uploads}/own.csv", **THEIRS)
        assert "BEDFORD" in preview.text

    def test_what_belongs_to_everybody_is_not_loaded_into_beside_a_queue_of_theirs(
        self, eva: Client
    ) -> None:
        assert 'value="ASSET"' not in step(eva, source=f"{self.uploads}/own.csv").text
        shared = {"source": f"{self.uploads}/own.csv", "rejects_queue": "theirs-in"}
        for way in (ask, look):
            assert "<code>OUT_OF_REACH</code>" in way(eva, **shared).text
            assert "<code>OUT_OF_REACH</code>" in way(eva, **shared, queue="theirs-in").text
        assert not BulkRun.objects.exists()

    def test_a_job_that_concerns_everybody_is_not_for_them(
        self, eva: Client, counting: Entry
    ) -> None:
        address = reverse("bulk-new", args=["counting"])
        assert f'href="{address}"' not in eva.get(reverse("bulk")).text
        assert eva.get(address).status_code == 403
        assert eva.post(address, {"ask": "1", "job_request": "{}"}).status_code == 403


class Way(StrEnum):
    UP = "up"
    DOWN = "down"


@dataclass(frozen=True, kw_only=True)
class CountingRequest:
    """Of a job that only counts."""

    until: int = option(..., "How far.", least=1, most=100)
    way: Way = option(Way.UP, "Which way.")
    loud: bool = option(False, "Whether it can be heard.")
    words: str = option("", "What is said, a word a line.", lines=True)
    parameters = asdict


def _counted(arguments: Arguments) -> Preview:
    until = arguments.parameters["until"]
    samples = [Sample(place=f"number {n}", ends="counted", text=f"<b>{n}</b>") for n in range(3)]
    return Preview(samples=samples, rows=until, facts={"loud": arguments.parameters["loud"]})


@pytest.fixture
def counting(monkeypatch: pytest.MonkeyPatch) -> Entry:
    entry = Entry(
        job="counting",
        title="Counting",
        sentence="Numbers, one after the other.",
        job_request=CountingRequest,
    )
    monkeypatch.setitem(CATALOGUE, "counting", entry)  # type: ignore[arg-type] # it is a dict
    job = running.Job(run=None, preview=_counted)  # type: ignore[arg-type] # never run here
    monkeypatch.setitem(running.JOBS, "counting", job)  # type: ignore[arg-type] # it is a dict
    return entry


class TestEveryOtherJob:
    def form(self, **fields: str) -> dict[str, str]:
        return {"look": "1", "parameter-until": "7", "parameter-way": "up", **fields}

    def test_a_new_job_is_listed_and_has_a_form_by_being_in_the_catalogue(
        self, counting: Entry
    ) -> None:
        client = logged_in()
        page = client.get(reverse("bulk")).text
        assert counting.sentence in page
        assert f'href="{reverse("bulk-new", args=["counting"])}"' in page
        page = client.get(reverse("bulk-new", args=["counting"])).text
        for text in ("How far.", "Which way.", "Default: off.", "<textarea", 'type="number"'):
            assert text in page

    def test_it_is_looked_at_and_then_asked_for(self, counting: Entry) -> None:
        client = logged_in("Editors")
        preview = new(client, "counting", self.form(**{"parameter-words": "a\r\nb"}))
        assert "About 7 rows" in preview.text
        assert "&lt;b&gt;2&lt;/b&gt;" in preview.text
        job_request = hidden(preview.text, "job_request")
        assert json.loads(job_request) == {"until": 7, "words": "a\r\nb"}
        back = new(client, "counting", {"edit": "1", "job_request": job_request})
        assert back.context["form"]["parameter-until"].value() == 7
        assert new(client, "counting", {"ask": "1", "job_request": job_request}).status_code == 303
        run = BulkRun.objects.get()
        assert (run.job, run.queues, run.sentinel) == ("counting", [], "")
        assert run.job_request["until"] == 7
        again = client.get(reverse("bulk-new", args=["counting"]), {"again": str(run.pk)})
        assert again.context["form"]["parameter-until"].value() == 7

    def test_what_is_wrong_is_told_at_its_field(self, counting: Entry) -> None:
        client = logged_in()
        answer = new(client, "counting", self.form(**{"parameter-until": "700"}))
        assert answer.status_code == 422
        assert list(answer.context["form"].errors) == ["parameter-until"]
        answer = new(client, "counting", {"ask": "1", "job_request": '{"until": 0}'})
        assert answer.status_code == 422
        assert "<code>BAD_PARAMETERS</code>" in answer.text


def test_every_field_that_names_a_queue_is_known_to_bound_who_may_ask() -> None:
    """Where people with limits may ask for a job, no queue of its job request escapes them."""
    for entry in CATALOGUE.values():
        named = {one.name for one in describe(entry.job_request) if "queue" in one.name}
        assert not entry.queues or named == set(entry.queues), entry.job
