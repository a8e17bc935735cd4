"""An import in the browser: a CSV of assets, one in a hundred of them bad, to the last good row.

Uploaded, mapped, looked at, run by a driver of its own, watched; its rejects are mended by one
recipe and released, and the numbers add up. `SLUICE_E2E_ROWS=200000` runs it with more rows.
"""

import os
import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any, Final

import pytest
from django.urls import reverse
from playwright.sync_api import Page, expect

from devstack.servers import Servers
from integration.models import BulkRun, MessageError, Operation, Queue, StoredObject
from tests.e2e.conftest import OpenPage
from tests.e2e.faults import WIDE, faults
from tests.support.builders import a_queue
from tests.support.bulk import SPARK_ENVIRONMENT, a_csv, an_asset_structure, storing
from tests.support.celery_world import CeleryWorld, Child, celery_world, eventually
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
def root(settings: Any, tmp_path: Path) -> Path:
    settings.SLUICE_BULK_ROOT = tmp_path / "bulk"
    settings.SLUICE_BULK_ROOT.mkdir()
    return tmp_path / "bulk"


class Driver(Child):
    """`manage.py bulk_run` with all its processes."""

    program = ["manage.py", "bulk_run"]


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


def watch(page: Page, run: BulkRun, environment: dict[str, str], folder: Path) -> None:
    """The page follows by itself, from the wait to the end; a driver of its own does the work."""
    expect(page.get_by_text("It waits for the Spark driver, which")).to_be_visible()
    driver = Driver("driver", [str(run.pk)], {**environment, **SPARK_ENVIRONMENT}, folder)
    counted = page.get_by_text(f"{ROWS:,} read = {GOOD:,} sent + {BAD:,} rejected + 0 skipped")
    try:
        expect(counted).to_be_visible(timeout=PATIENCE_SECONDS * 1_000)
        eventually(lambda: driver.process.poll() is not None, driver, seconds=PATIENCE_SECONDS)
    finally:
        driver.end()
    assert driver.process.returncode == 0, driver.text()
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


def test_an_import_from_the_upload_to_the_last_good_row(
    open_page: OpenPage,
    servers: Servers,
    workers: CeleryWorld,
    root: Path,
    tmp_path: Path,
    child_environment: dict[str, str],
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

    run = BulkRun.objects.get()
    assert (run.reason, StoredObject.objects.count()) == ("first load", 0)
    watch(page, run, {**child_environment, "SLUICE_BULK_ROOT": str(root)}, tmp_path)
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
