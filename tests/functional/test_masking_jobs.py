"""Masked values in what bulk jobs read and write: exports, imports and the archive."""

import json
from functools import partial
from pathlib import Path
from typing import Any
from uuid import uuid4

import pytest
from django.urls import reverse

from console.bulk.asking import schedule_hindrance
from console.layout.access import Right
from crontasks.bulk.asking import (
    Asker,
    ask_by_schedule,
    ask_in_console,
    preview_in_console,
    within,
)
from crontasks.bulk.catalogue import CATALOGUE
from crontasks.bulk.errors import BulkError
from crontasks.models import CronInstance
from integration.models import BulkRun, EnterpriseService, ObjectStructure
from integration.selectors.masking.rules import masks
from tests.functional.test_masking import SECRET, a_rule
from tests.functional.test_masking_planted import person_without, somebody
from tests.support.http_api import problem
from tests.support.operator_api import a_program, facts
from tests.support.rows import a_queue_row

pytestmark = [pytest.mark.servers, pytest.mark.django_db]


def refusal(job: str, wanted: dict[str, Any], *, may_reveal: bool = False) -> str:
    """Ask for such a run; return the code of why it cannot be, empty where it can."""
    asker = Asker(name="otto", may_reveal=may_reveal)
    try:
        ask_in_console(CATALOGUE[job], wanted, asker, number=uuid4())
    except BulkError as e:
        return e.job_code
    return ""


class TestExports:
    def test_columns_into_a_queue_take_the_right_to_reveal(self) -> None:
        structure = ObjectStructure.objects.create(name="order", key_paths=["$.order"])
        a_rule(structure=structure)
        queue = a_queue_row()
        wanted = {"what": "documents", "structure": "order", "into_queue": queue.name}
        renamed = {**wanted, "columns": "note=$.card"}
        entry = CATALOGUE["export"]
        with pytest.raises(BulkError) as refused:
            ask_in_console(entry, renamed, Asker(name="otto"), number=uuid4())
        assert refused.value.job_code == "MASKED_SOURCE"
        ask_in_console(entry, wanted, Asker(name="otto"), number=uuid4())
        ask_in_console(entry, renamed, Asker(name="otto", may_reveal=True), number=uuid4())

    @pytest.mark.parametrize("payload", [True, False])
    def test_so_do_tracked_messages_of_whose_values_each_is_put_elsewhere(
        self, payload: bool
    ) -> None:
        source, other = a_queue_row(), a_queue_row()
        wanted = {"what": "messages", "into_queue": other.name, "payload": payload}
        assert not refusal("export", wanted)
        a_rule(queue=source)
        assert refusal("export", wanted) == "MASKED_SOURCE"
        assert refusal("export", {**wanted, "queue": source.name}) == "MASKED_SOURCE"
        assert not refusal("export", {**wanted, "queue": other.name})
        assert not refusal("export", wanted, may_reveal=True)

    @pytest.mark.parametrize("more", [{"unmasked": True}, {"into_queue": "in"}, {}])
    @pytest.mark.parametrize("chosen", [{"where": "$.card=4711"}, {"key": "47*"}])
    def test_no_look_counts_the_rows_that_hold_a_masked_value(
        self, more: dict[str, Any], chosen: dict[str, str], settings: Any, tmp_path: Path
    ) -> None:
        settings.SLUICE_BULK_ROOT = tmp_path
        structure = ObjectStructure.objects.create(name="order", key_paths=["$.card"])
        a_rule(structure=structure)
        a_queue_row(name="in")
        entry, wanted = CATALOGUE["export"], {"what": "documents", "structure": "order"}
        with pytest.raises(BulkError) as refused:
            preview_in_console(entry, {**wanted, **chosen, **more}, Asker(name="otto"))
        assert refused.value.job_code == "MASKED_SOURCE"
        rita = Asker(name="rita", may_reveal=True)
        assert not more or preview_in_console(entry, {**wanted, **chosen, **more}, rita).rows == 0
        assert preview_in_console(entry, {**wanted, **more}, Asker(name="otto")).rows == 0

    def test_no_run_goes_on_by_other_rules_than_those_of_now(
        self, settings: Any, tmp_path: Path
    ) -> None:
        settings.SLUICE_BULK_ROOT = tmp_path
        wanted, asker = {"what": "messages"}, Asker(name="otto")
        run = ask_in_console(CATALOGUE["export"], wanted, asker, number=uuid4())
        BulkRun.objects.update(state="FAILED")
        a_rule()
        program = a_program(person=person_without(Right.REVEAL))
        path = f"/bulk/runs/{run.pk}/repetitions"
        problem(program.post(path, {"reason": "once more"}), 422, "MASKED_EXPORT")
        somebody(Right.REVEAL).post(reverse("bulk-again", args=[run.pk]))
        assert BulkRun.objects.get().state == "FAILED"
        somebody().post(reverse("bulk-again", args=[run.pk]))
        assert BulkRun.objects.get().state == "ASKED"

    def test_files_go_to_a_storage_for_who_may_see_payloads(self) -> None:
        wanted = {"what": "messages", "to": "s3://plant/out/"}
        with pytest.raises(BulkError) as refused:
            within(CATALOGUE["export"], wanted, Asker(name="otto", may_see=False))
        assert refused.value.job_code == "OUT_OF_REACH"
        assert "may not see payloads" in str(refused.value)


class TestReplays:
    @pytest.mark.parametrize(
        ("chosen", "is_told"),
        [
            ({"path": "$.card=4711"}, True),
            ({"path": "$..card=4711"}, True),
            ({"path": "$.card"}, False),
            ({"path": "$.site=BEDFORD"}, False),
            ({"header": "Secret=4711"}, True),
            ({"header": "Secret"}, False),
            ({"header": "site=BEDFORD"}, False),
            ({"key": "4711"}, True),
        ],
    )
    def test_no_count_tells_which_messages_hold_a_masked_value(
        self, chosen: dict[str, str], is_told: bool
    ) -> None:
        for part, path in (("payload", "$.card"), ("header", "secret"), ("key", "")):
            a_rule(path, part=part)
        entry = CATALOGUE["replay"]
        wanted = {"queue": a_queue_row("continuous").name, "into": "queue", **chosen}
        ask_in_console(entry, wanted, Asker(name="rita", may_reveal=True), number=uuid4())
        otto = Asker(name="otto")
        if not is_told:
            ask_in_console(entry, wanted, otto, number=uuid4())
            return
        for look in (preview_in_console, partial(ask_in_console, number=uuid4())):
            with pytest.raises(BulkError) as refused:
                look(entry, wanted, otto)
            assert refused.value.job_code == "MASKED_SOURCE"

    def test_nor_does_one_by_a_path_of_what_a_rule_hides_in_a_retry_wrapper(self) -> None:
        a_rule("$.message.card")
        queue = a_queue_row("continuous", retry_wrapper=True)
        wanted = {"queue": queue.name, "into": "queue", "path": f"$.card={SECRET}"}
        with pytest.raises(BulkError) as refused:
            ask_in_console(CATALOGUE["replay"], wanted, Asker(name="otto"), number=uuid4())
        assert refused.value.job_code == "MASKED_SOURCE"


class TestTargets:
    """What a rule hides where it comes from is copied by nobody to where that rule is not."""

    @pytest.fixture
    def services(self) -> dict[str, EnterpriseService]:
        structures = {
            name: ObjectStructure.objects.create(name=name, key_paths=["$.order"])
            for name in ("order", "asset")
        }
        make = EnterpriseService.objects.create
        return {name: make(interface=name, structure=one) for name, one in structures.items()}

    @pytest.mark.parametrize("limit", ["", "structure", "queue"])
    def test_documents_go_to_a_queue_for_which_each_rule_of_their_structure_is(
        self, services: dict[str, EnterpriseService], limit: str
    ) -> None:
        alike, other = (a_queue_row(default_service=services[name]) for name in ("order", "asset"))
        limits = {"": {}, "structure": {"structure": services["order"].structure}}
        a_rule(**limits.get(limit, {"queue": alike}))
        a_rule("secret", part="header", queue=a_queue_row())
        wanted = {"what": "documents", "structure": "order"}
        assert not refusal("export", {**wanted, "into_queue": alike.name})
        away = {**wanted, "into_queue": other.name}
        assert refusal("export", away) == ("MASKED_SOURCE" if limit else "")
        assert not refusal("export", away, may_reveal=True)
        # Whoever reads the topic has failures of these messages, too.
        a_queue_row(topic=alike.topic, direction="outbound")
        both = {**wanted, "into_queue": alike.name}
        assert refusal("export", both) == ("MASKED_SOURCE" if limit == "queue" else "")

    @pytest.mark.parametrize("limit", ["", "service", "queue"])
    def test_messages_are_replayed_into_a_topic_for_which_each_rule_of_theirs_is(
        self, services: dict[str, EnterpriseService], limit: str
    ) -> None:
        source = a_queue_row("continuous", default_service=services["order"])
        alike = a_queue_row(default_service=services["order"])
        other = a_queue_row(default_service=services["asset"])
        wanted = {"queue": source.name, "into": "topic"}
        assert not refusal("replay", {**wanted, "target": "nobodys"})
        a_rule(**{"": {}, "service": {"service": services["order"]}}.get(limit, {"queue": source}))
        for target, is_reached in ((alike.topic, limit == "queue"), (other.topic, bool(limit))):
            said = refusal("replay", {**wanted, "target": target})
            assert said == ("MASKED_SOURCE" if is_reached else "")
        nobodys = {**wanted, "target": "nobodys"}
        assert refusal("replay", nobodys) == "MASKED_SOURCE"
        assert not refusal("replay", nobodys, may_reveal=True)
        assert not refusal("replay", {"queue": source.name, "into": "queue"})

    def test_messages_of_a_service_that_no_rule_names_go_anywhere(
        self, services: dict[str, EnterpriseService]
    ) -> None:
        source = a_queue_row("continuous", default_service=services["order"])
        other = a_queue_row(default_service=services["asset"])
        a_rule(service=services["order"])
        wanted = {"queue": source.name, "into": "topic", "target": other.topic}
        assert not refusal("replay", {**wanted, "interface": "asset"})
        assert refusal("replay", {**wanted, "interface": "order"}) == "MASKED_SOURCE"

    def test_no_rule_looks_into_a_retry_wrapper_where_the_queue_has_none(self) -> None:
        source = a_queue_row("continuous", retry_wrapper=True)
        wraps, plain = a_queue_row(retry_wrapper=True), a_queue_row()
        wanted = {"queue": source.name, "into": "topic"}
        a_rule()
        assert not refusal("replay", {**wanted, "target": wraps.topic})
        assert refusal("replay", {**wanted, "target": plain.topic}) == "MASKED_SOURCE"

    def test_a_structure_is_rebuilt_under_the_rules_that_its_messages_have(
        self, services: dict[str, EnterpriseService]
    ) -> None:
        source = a_queue_row("continuous", default_service=services["order"])
        wanted = {"queue": source.name, "into": "structure"}
        a_rule(structure=services["order"].structure)
        a_rule("", part="key", queue=source)
        assert not refusal("replay", {**wanted, "target": "order"})
        assert refusal("replay", {**wanted, "target": "asset"}) == "MASKED_SOURCE"


class TestImports:
    """What jobs wrote is read by nobody to whom it would be masked where it came from."""

    @pytest.fixture
    def folder(self, settings: Any, tmp_path: Path) -> Path:
        settings.SLUICE_BULK_ROOT = tmp_path
        for name in ("exports/a/rows.csv", "archive/failures/rows.csv", "in/rows.csv"):
            file = tmp_path / name
            file.parent.mkdir(parents=True)
            file.write_text(f"card\n{SECRET}\n")
        return tmp_path

    @pytest.mark.parametrize(
        "source",
        [
            "exports/a/*",
            "exports/a/rows.csv",
            "archive/failures/rows.csv",
            "e*/*/*.csv",
            "in/linked.csv",
            "**",
        ],
    )
    def test_files_of_exports_and_archives_are_for_who_may_reveal(
        self, folder: Path, source: str
    ) -> None:
        (folder / "in/linked.csv").symlink_to(folder / "exports/a/rows.csv")
        entry, wanted = CATALOGUE["import"], {"source": source}
        otto, rita = Asker(name="otto"), Asker(name="rita", may_reveal=True)
        assert within(entry, wanted, otto)
        a_rule()
        with pytest.raises(BulkError) as refused:
            within(entry, wanted, otto)
        assert refused.value.job_code == "MASKED_SOURCE"
        assert within(entry, wanted, rita)

    def test_so_are_those_of_an_object_storage(self, settings: Any) -> None:
        settings.SLUICE_S3_PLACES = ["s3://plant/"]
        entry, wanted = CATALOGUE["import"], {"source": "s3://plant/in/rows.csv"}
        assert within(entry, wanted, Asker(name="otto"))
        a_rule()
        with pytest.raises(BulkError) as refused:
            within(entry, wanted, Asker(name="otto"))
        assert refused.value.job_code == "MASKED_SOURCE"
        assert within(entry, wanted, Asker(name="rita", may_reveal=True))

    @pytest.mark.usefixtures("folder")
    def test_neither_their_rows_nor_their_columns_are_shown(self) -> None:
        a_rule()
        client = somebody(Right.REVEAL)
        wanted = {"source": "exports/a/rows.csv", "format": "csv"}
        body = {"look": "1", "job_request": json.dumps(wanted)}
        said = client.post(reverse("bulk-new", args=["import"]), body).text
        assert "MASKED_SOURCE" in said
        assert SECRET not in said
        program = a_program(person=person_without(Right.REVEAL))
        asked = {"job": "import", "job_request": wanted}
        problem(program.post("/bulk/previews", asked), 422, "MASKED_SOURCE")

    @pytest.mark.usefixtures("folder")
    def test_why_a_row_is_bad_tells_nothing_of_it_without_the_right_to_see_payloads(self) -> None:
        a_rule()
        ObjectStructure.objects.create(name="order", key_paths=["$.order"])
        wanted = {
            "structure": "order",
            "rejects_queue": a_queue_row("continuous").name,
            "source": "in/rows.csv",
            "columns": "card=card:integer",
        }
        asked = {"job": "import", "job_request": wanted}
        hidden = a_program(person=person_without(Right.VIEW_PAYLOAD, Right.REVEAL))
        [line] = facts(hidden.post("/bulk/previews", asked))["samples"]
        assert (line["code"], line["why"], line["text"]) == ("WRONG_KIND", "", None)
        [line] = facts(a_program().post("/bulk/previews", asked))["samples"]
        assert line["why"] == "card should be integer."


class TestArchives:
    def test_true_values_are_archived_by_who_may_reveal(self, settings: Any, tmp_path: Any) -> None:
        settings.SLUICE_BULK_ROOT = tmp_path
        entry = CATALOGUE["archive"]
        wanted = {"kind": "failures", "older_than_days": 30}
        otto, rita = Asker(name="otto"), Asker(name="rita", may_reveal=True)
        ask_in_console(entry, wanted, otto, number=uuid4())
        a_rule()
        with pytest.raises(BulkError) as refused:
            ask_in_console(entry, wanted, otto, number=uuid4())
        assert refused.value.job_code == "MASKED_SOURCE"
        ask_in_console(entry, {**wanted, "kind": "runs"}, otto, number=uuid4())
        masked = ask_in_console(entry, {**wanted, "masked": True}, otto, number=uuid4())
        assert [rule["path"] for rule in masked.parameters["masking"]] == ["$.card"]
        ask_in_console(entry, wanted, rita, number=uuid4())

    @pytest.mark.parametrize("kind", ["messages", "failures", "runs"])
    def test_a_schedule_masks_as_soon_as_there_is_a_rule_unless_it_says_otherwise(
        self, kind: str, settings: Any, tmp_path: Any
    ) -> None:
        settings.SLUICE_BULK_ROOT = tmp_path

        def is_masked(**said: bool) -> bool:
            wanted = {"kind": kind, **said}
            run = ask_by_schedule("archive", wanted, actor="nightly", instance=None)
            is_said = bool(run.job_request.get("masked"))
            assert bool(run.parameters.get("masked")) == is_said
            assert bool(run.parameters.get("masking")) == (is_said and bool(masks().rules))
            return is_said

        assert (is_masked(), is_masked(masked=False), is_masked(masked=True)) == (
            False,
            False,
            True,
        )
        a_rule()
        has_values = kind != "runs"
        assert (is_masked(), is_masked(masked=False), is_masked(masked=True)) == (
            has_values,
            False,
            True,
        )

    @pytest.mark.parametrize("has_rule", [True, False])
    def test_a_schedule_says_otherwise_by_who_may_reveal(self, rf: Any, has_rule: bool) -> None:
        if has_rule:
            a_rule()
        request = rf.get("/")
        request.session = {}

        def judged(**said: Any) -> str:
            return schedule_hindrance(request, "archive", json.dumps(said)).partition(":")[0]

        request.user = person_without(Right.REVEAL)
        assert judged(kind="messages", masked=False) == "MASKED_SOURCE"
        assert not judged(kind="messages")
        assert not judged(kind="messages", masked=True)
        assert not judged(kind="runs", masked=False)
        request.user = person_without()
        assert not judged(kind="messages", masked=False)

    def test_nor_for_one_run_over_http(self) -> None:
        instance = CronInstance(name="Nightly", task="bulk_job", interval_seconds=3600)
        instance.save()
        request = json.dumps({"kind": "messages", "masked": False})
        wanted = {"job": "archive", "job_request": request}
        program = a_program(person=person_without(Right.REVEAL))
        answer = program.post(f"/cron/{instance.pk}/runs", {"parameters": wanted})
        assert "MASKED_SOURCE" in problem(answer, 403, "RIGHT_MISSING")["detail"]

    def test_nor_by_the_configuration_over_http(self) -> None:
        true_values = {"kind": "messages", "masked": False}
        wanted = {"job": "archive", "job_request": json.dumps(true_values)}
        parameters = json.dumps(wanted)
        file = "format: 1\ncron_instances:\n- name: Nightly\n  task: bulk_job\n"
        file += f"  interval_seconds: 3600\n  parameters: {parameters}\n"
        program = a_program(person=person_without(Right.REVEAL))
        said = problem(program.put("/configuration", file.encode()), 403, "RIGHT_MISSING")
        assert "MASKED_SOURCE" in said["detail"]
        masked = file.replace("false", "true")
        assert masked != file
        assert facts(program.put("/configuration", masked.encode()))["steps"]
