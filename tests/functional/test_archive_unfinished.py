"""What a run left unfinished holds up archives of its kind, until it ends or is given up.

Without Spark: the rows of runs, and what lies in the folders that they were told.
"""

from collections.abc import Iterator
from io import StringIO
from pathlib import Path
from typing import Any
from uuid import uuid4

import psycopg
import pytest
from django.contrib.auth.models import User
from django.core.management import CommandError, call_command
from django.test import Client
from django.urls import reverse
from django.utils import timezone

from crontasks.bulk.asking import conninfo
from crontasks.bulk.deciding import again
from integration.models import BulkRun, ConfigurationChange
from spark_jobs.archive import unfinished
from spark_jobs.archive.disk_shelf import DiskShelf
from spark_jobs.archive.parameters import ArchivedKind, ArchiveParameters
from spark_jobs.errors import JobError

pytestmark = [pytest.mark.servers, pytest.mark.django_db(transaction=True)]
OURS = "erp.production.0123456789ab"
THEIRS = "erp.production.ba9876543210"
NOW = "2026-01-31T00:00:00+00:00"
PLAN = {"parts": [{"table": "t"}]}
KIND = ArchivedKind.MESSAGES


@pytest.fixture
def database() -> Iterator[Any]:
    with psycopg.connect(conninfo()) as connection:
        yield connection


def a_run(folder: Path, *, state: str = "FAILED", **fields: Any) -> BulkRun:
    values: dict[str, Any] = {
        "job": "archive",
        "plan": PLAN,
        "parameters": {"kind": KIND, "folder": str(folder)},
        **fields,
    }
    return BulkRun.objects.create(state=state, actor="a", asked_at=timezone.now(), **values)


def shelf_in(folder: Path, run: Any, installation: str = OURS) -> DiskShelf:
    return DiskShelf(folder / KIND, str(run), installation)


def sealed(folder: Path, run: Any, installation: str) -> None:
    """What lies there of a run whose driver died before it dropped what it had archived."""
    shelf = shelf_in(folder, run, installation)
    shelf.make()
    shelf.seal(0, {"part": 0, "installation": installation})


def refusal(database: Any, here: Path) -> JobError | None:
    """Why a new run that archives here may not begin."""
    new = uuid4()
    parameters = ArchiveParameters(
        kind=KIND, folder=str(here), at=NOW, before=NOW, installation=OURS
    )
    try:
        unfinished.refuse(database, parameters, lambda place: shelf_in(Path(place), new))
    except JobError as e:
        return e
    return None


def refused(database: Any, here: Path) -> str:
    found = refusal(database, here)
    return "" if found is None else found.code


@pytest.mark.parametrize("plan", [PLAN, {}], ids=["planned", "restored to before its plan"])
def test_a_run_of_this_database_is_ours_under_whatever_name(
    database: Any, tmp_path: Path, plan: dict[str, Any]
) -> None:
    run = a_run(tmp_path, plan=plan)
    sealed(tmp_path, run.pk, THEIRS)
    found = refusal(database, tmp_path)
    assert found is not None
    assert found.code == "ARCHIVE_UNFINISHED"
    assert str(run.pk) in found.next_step
    run.delete()
    assert refused(database, tmp_path) == "", "another installation's does not hold us up"
    sealed(tmp_path, uuid4(), OURS)
    assert refused(database, tmp_path) == "ARCHIVE_UNFINISHED"


@pytest.mark.parametrize("place", ["here", "elsewhere"])
def test_a_missing_folder_of_a_planned_run_is_not_an_empty_one(
    database: Any, tmp_path: Path, place: str
) -> None:
    """A person says that it is gone for good, and may take that back."""
    here, planned = tmp_path / "here", tmp_path / place
    assert refused(database, here) == "", "nobody has been there yet"
    run = a_run(planned)
    found = refusal(database, here)
    assert found is not None
    assert found.code == "ARCHIVE_UNREACHABLE"
    assert str(run.pk) in found.text
    assert str(planned / KIND) in found.text
    call_command("bulk_run", run.pk, "--give-up", "--reason", "disk lost", stdout=StringIO())
    assert refused(database, here) == ""
    run.refresh_from_db()
    assert (run.problem or [""])[0] == unfinished.GIVEN_UP.code
    assert ConfigurationChange.every.get(subject=str(run.pk)).reason == "disk lost"
    assert again(run.pk, send=False)
    assert refused(database, here) == "ARCHIVE_UNREACHABLE"
    shelf_in(planned, run.pk).make()
    assert refused(database, here) == "", "its disk is back, and it left nothing there"


def test_what_holds_nobody_up(database: Any, tmp_path: Path) -> None:
    gone = tmp_path / "gone"
    a_run(gone, plan={})
    a_run(gone, state="DONE")
    a_run(gone, job="export")
    a_run(gone, parameters={"kind": ArchivedKind.RUNS, "folder": str(gone)})
    assert refused(database, tmp_path) == ""


@pytest.mark.parametrize(
    ("job", "state"), [("import", "FAILED"), ("archive", "RUNNING"), ("archive", "DONE")]
)
def test_only_an_archive_that_has_not_come_to_its_end_is_given_up(
    tmp_path: Path, job: str, state: str
) -> None:
    run = a_run(tmp_path, job=job, state=state)
    with pytest.raises(CommandError):
        call_command("bulk_run", run.pk, "--give-up", stdout=StringIO())
    run.refresh_from_db()
    assert (run.state, run.problem) == (state, None)


@pytest.mark.parametrize("state", ["FAILED", "CANCELLED"])
def test_its_page_says_that_a_run_was_given_up(tmp_path: Path, state: str) -> None:
    run = a_run(tmp_path, state=state)
    call_command("bulk_run", run.pk, "--give-up", stdout=StringIO())
    client = Client()
    client.force_login(User.objects.create_superuser("root"))
    told = client.get(reverse("bulk-run", args=[run.pk])).context["summary"]
    assert (told.what, told.now) == (unfinished.GIVEN_UP.text, unfinished.GIVEN_UP.next_step)
