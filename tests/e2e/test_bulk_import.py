"""An import in the browser: a CSV of assets, one in a hundred of them bad, to the last good row.

Uploaded, mapped, looked at, run by `manage.py bulk_run`, watched; its rejects are mended by one
recipe and released, and the numbers add up. `SLUICE_E2E_ROWS=200000` runs it with more rows.
"""

import os
import re
from collections.abc import Iterator
from io import StringIO
from pathlib import Path
from typing import Any, Final

import pytest
from django.core.management import call_command
from django.urls import reverse
from playwright.sync_api import Page, expect

from devstack.servers import Servers
from integration.models import BulkRun, MessageError, Operation, Queue, StoredObject
from tests.e2e.conftest import OpenPage
from tests.e2e.faults import WIDE, faults
from tests.support import class_archive
from tests.support.builders import a_queue
from tests.support.bulk import a_csv, an_asset_structure, shared_session, storing
from tests.support.celery_world import CeleryWorld, celery_world, eventually
from tests.support.kafka_world import Kafka

ROWS: Final = int(os.environ.get("SLUICE_E2E_ROWS", "500"))
BAD: Final = ROWS // 100
GOOD: Final = ROWS - BAD
# Of a busy machine, and of many rows.
PATIENCE_SECONDS: Final = 200 + ROWS // 500
pytestmark = [
    pytest.mark.servers,
    pytest.mark.browser,
    pytest.mark.django_db(transaction=True),
    pytest.mark.timeout(3 * PATIENCE_SECONDS),
]


@pytest.fixture
def workers(child_environment: dict[str, str], tmp_path: Path) -> Iterator[CeleryWorld]:
    with celery_world(child_environment, tmp_path) as world:
        yield world


@pytest.fixture
def root(settings: Any, tmp_path: Path) -> None:
    settings.SLUICE_BULK_ROOT = tmp_path / "bulk"
    settings.SLUICE_BULK_ROOT.mkdir()


@pytest.fixture(scope="module", autouse=True)
def spark() -> None:
    class_archive.have_one_made()
    shared_session()


def upload_and_map(page: Page, file: Path, queue: Queue) -> None:
    page.goto(reverse("bulk"))
    page.get_by_role("link", name="Request: Import").click()
    page.get_by_label("File", exact=True).set_input_files(file)
    page.get_by_role("button", name="Upload and continue").click()
    page.get_by_label("Structure").select_option("ASSET")
    page.get_by_label("Rejects queue").select_option(queue.name)
    look_at(page)
    page.get_by_role("button", name="Continue to the columns").click()
    expect(page.get_by_label("Place of ASSETNUM")).to_have_value("assetnum")
    expect(page.get_by_label("SITEID is required")).to_be_checked()
    page.get_by_label("Kind of WEIGHT").select_option("integer")
    look_at(page)
    page.get_by_role("button", name="Look at the first rows").click()


def look_at(page: Page) -> None:
    """Axe finds nothing, and nothing is wider than a telephone."""
    assert faults(page) == []


def watch(page: Page, run: BulkRun) -> None:
    """The page follows by itself, from the wait to the end, while the run is driven here."""
    expect(page.get_by_text("It waits for the Spark driver, which")).to_be_visible()
    call_command("bulk_run", str(run.pk), stdout=StringIO(), stderr=StringIO())
    counted = page.get_by_text(f"{ROWS:,} read = {GOOD:,} sent + {BAD:,} rejected + 0 skipped")
    expect(counted).to_be_visible()
    assert StoredObject.objects.count() == GOOD
    expect(page.get_by_text("The numbers add up")).to_be_visible()
    expect(page.get_by_text("100 %")).to_be_visible()


def mend(page: Page) -> None:
    """All rejects of the run by one recipe, released in the same commit."""
    page.get_by_role("link", name="Repair by cause").click()
    row = page.get_by_role("row", name="MISSING_VALUE")
    row.get_by_role("button", name="Edit all…").click()
    page.get_by_label("Path", exact=False).first.fill("$.siteid")
    page.get_by_label("New value").first.fill("BEDFORD")
    page.get_by_label("Add it where it is missing").check()
    page.get_by_role("button", name=f"Try it on all {BAD:,}").click()
    expect(page.get_by_role("heading", name="Dry run: nothing was changed")).to_be_visible()
    page.get_by_label("Reason").fill("they are all in Bedford")
    page.get_by_role("button", name=f"Edit all {BAD:,}").click()


@pytest.mark.usefixtures("root")
def test_an_import_from_the_upload_to_the_last_good_row(
    open_page: OpenPage,
    servers: Servers,
    workers: CeleryWorld,
    tmp_path: Path,
    complaints: list[str],
) -> None:
    queue = storing(a_queue(Kafka(servers.kafka_bootstrap)), an_asset_structure())
    a_csv(tmp_path / "Assets.csv", ROWS, bad=BAD)
    page = open_page("Editors", width=WIDE)

    upload_and_map(page, tmp_path / "Assets.csv", queue)
    # Of a large file it is an estimate.
    expect(page.get_by_text(re.compile(r"^About [\d,]+ rows"))).to_be_visible()
    expect(page.get_by_role("cell", name="line 2", exact=True)).to_be_visible()
    look_at(page)
    page.get_by_label("Why").fill("first load")
    page.get_by_role("button", name="Run it").click()

    expect(page.get_by_text("Asked for.")).to_be_visible()
    run = BulkRun.objects.get()
    assert (run.reason, StoredObject.objects.count()) == ("first load", 0)
    watch(page, run)
    expect(page.get_by_text(f"0 are resolved by now, {BAD:,} are open")).to_be_visible()
    look_at(page)

    worker = workers.worker("e2e", concurrency=3)
    mend(page)
    rest = MessageError.objects.exclude(state="RESOLVED")
    eventually(lambda: not rest.exists(), worker, seconds=PATIENCE_SECONDS)
    page.goto(reverse("bulk-run", args=[run.pk]))
    expect(page.get_by_text(f"All {ROWS:,} rows came to a good end.")).to_be_visible()
    assert complaints == []
    account(run, queue)


def account(run: BulkRun, queue: Queue) -> None:
    run.refresh_from_db()
    assert run.counts == {"read": ROWS, "sent": GOOD, "rejected": BAD, "skipped": 0}
    assert StoredObject.objects.count() == ROWS
    assert not StoredObject.objects.exclude(document__siteid="BEDFORD").exists()
    mended = MessageError.objects.filter(topic_uuid=str(run.pk), queue=queue, state="RESOLVED")
    assert mended.count() == BAD
    operation = Operation.objects.get()
    assert (operation.verb, operation.total, operation.done) == ("edit", BAD, BAD)
