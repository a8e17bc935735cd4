"""A bulk job by schedule: its run waits for the driver, and none is asked for beside it."""

import json
from datetime import timedelta
from pathlib import Path
from typing import Any

import pytest
from django.core.exceptions import ValidationError
from django.test import Client
from django.urls import reverse
from django.utils import timezone
from django.utils.html import escape

from crontasks import ticks
from crontasks.models import CronInstance, CronRun
from integration.models import BulkRun
from tests.functional.test_masking import a_rule
from tests.support.bulk import COLUMNS, an_asset_structure
from tests.support.rows import a_person, a_queue_row

pytestmark = [pytest.mark.servers, pytest.mark.django_db]


@pytest.fixture(autouse=True)
def root(settings: Any, tmp_path: Path) -> Path:
    settings.SLUICE_BULK_ROOT = tmp_path
    return tmp_path


@pytest.fixture
def job_request(root: Path) -> dict[str, Any]:
    an_asset_structure()
    queue = a_queue_row(kind="continuous")
    return {
        "source": str(root / "assets-*.csv"),
        "structure": "ASSET",
        "rejects_queue": queue.name,
        "columns": COLUMNS,
    }


def an_instance(job_request: object, **fields: Any) -> CronInstance:
    text = job_request if isinstance(job_request, str) else json.dumps(job_request)
    return CronInstance.objects.create(
        name="nightly",
        task="bulk_job",
        interval_seconds=3_600,
        parameters={"job": "import", "job_request": text, **fields},
    )


def ticked(instance: CronInstance, hours: int) -> CronRun | None:
    ticks.tick(instance.pk, timezone.now() + timedelta(hours=hours))
    return instance.runs.first()


def test_a_run_is_asked_for_as_a_person_would_ask(job_request: dict[str, Any]) -> None:
    instance = an_instance(job_request)

    told = ticked(instance, 1)

    run = BulkRun.objects.get()
    assert (run.job, run.state, run.job_request) == ("import", "ASKED", job_request)
    assert (run.actor, run.reason, run.instance) == ("cron task", "by schedule", instance.pk)
    assert run.parameters["arrival"] > 0
    assert told is not None
    assert (told.state, told.counts) == ("DONE", {"asked": 1})
    assert str(run.pk) in told.text


def test_a_run_tells_that_its_archive_is_masked_for_a_rule_that_came_later() -> None:
    instance = an_instance(json.dumps({"kind": "failures"}), job="archive")
    before = ticked(instance, 1)
    BulkRun.objects.update(state="DONE")
    a_rule()
    after = ticked(instance, 2)
    assert before is not None
    assert after is not None
    assert ("masked" in before.text, "masked" in after.text) == (False, True)
    assert BulkRun.objects.filter(job_request__masked=True).count() == 1


def test_the_page_says_whether_true_values_are_archived() -> None:
    client = Client()
    client.force_login(a_person("Administrators"))
    open_one, agreed = {"kind": "failures"}, {"kind": "failures", "masked": False}

    def note_of(job_request: dict[str, Any]) -> str:
        CronInstance.objects.all().delete()
        instance = an_instance(job_request, job="archive")
        page = client.get(reverse("cron-instance", args=[instance.pk]))
        note: str = page.context["note"]
        assert escape(note) in page.text
        return note

    before, always = note_of(open_one), note_of(agreed)
    assert not note_of({"kind": "failures", "masked": True})
    assert not note_of({"kind": "runs"})
    a_rule()
    assert len({"", before, always, note_of(open_one)}) == 4
    assert note_of(agreed) == always


def test_while_the_run_before_has_not_ended_none_is_asked_for_unless_both_may(
    job_request: dict[str, Any],
) -> None:
    instance = an_instance(job_request)
    ticked(instance, 1)
    BulkRun.objects.update(state="RUNNING")

    told = ticked(instance, 2)

    assert BulkRun.objects.count() == 1
    assert told is not None
    assert told.text.startswith("Skipped: import ")
    CronInstance.objects.update(overlap="allow")
    ticked(instance, 3)
    assert BulkRun.objects.count() == 2
    BulkRun.objects.update(state="DONE")
    CronInstance.objects.update(overlap="skip")
    ticked(instance, 4)
    assert BulkRun.objects.count() == 3


@pytest.mark.parametrize(
    ("job_request", "code"),
    [
        ("no JSON", "BAD_PARAMETERS"),
        ("[]", "BAD_PARAMETERS"),
        ("{}", "BAD_PARAMETERS"),
        ({"source": "x", "structure": "NONE", "rejects_queue": "q"}, "UNKNOWN_STRUCTURE"),
    ],
)
def test_what_cannot_be_asked_for_is_a_failed_run_of_the_schedule(
    job_request: object, code: str
) -> None:
    told = ticked(an_instance(job_request), 1)
    assert told is not None
    assert told.state == "FAILED"
    assert told.text.startswith(f"{code}: ")
    assert not BulkRun.objects.exists()


def test_a_job_nobody_knows_is_told_and_a_request_that_is_no_text_refused() -> None:
    told = ticked(an_instance({}, job="exprot"), 1)
    assert told is not None
    assert told.text.startswith("UNKNOWN_JOB: ")
    with pytest.raises(ValidationError):
        CronInstance.objects.create(
            name="x", task="bulk_job", interval_seconds=60, parameters={"job_request": {}}
        )


@pytest.mark.parametrize("source", ["/etc/passwd", "../assets.csv", "link.csv"])
def test_a_schedule_reads_nothing_outside_of_the_folder(
    job_request: dict[str, Any], root: Path, source: str
) -> None:
    (root / "link.csv").symlink_to("/etc/passwd")
    told = ticked(an_instance({**job_request, "source": source}), 1)
    assert told is not None
    assert told.text.startswith("OUTSIDE_FOLDER: ")
    assert not BulkRun.objects.exists()
