"""A bad morning: 1,500 failures of one cause, one released first, all corrected, all released.

The queue runs all the while, and for every tenth key newer data is applied before the release:
what is older by then is superseded and overwrites nothing.
"""

from collections.abc import Iterator
from pathlib import Path

import pytest
from django.db import connection
from django.urls import reverse
from playwright.sync_api import Page, expect

from devstack.servers import Servers
from integration.models import (
    EnterpriseService,
    MessageError,
    ObjectStructure,
    Operation,
    Queue,
    StoredObject,
)
from integration.policy.operations import CHUNK_ROWS
from tests.e2e.conftest import OpenPage
from tests.support.builders import a_queue
from tests.support.celery_world import CeleryWorld, Child, celery_world, eventually
from tests.support.kafka_world import Kafka

pytestmark = [
    pytest.mark.servers,
    pytest.mark.browser,
    pytest.mark.django_db(transaction=True),
    pytest.mark.timeout(420),
]

# Several chunks of a release, of an edit and of a dry run.
COUNT = 3 * CHUNK_ROWS
NEWER = COUNT // 10
SLOW_MS = 120_000
SCHEMA = {"properties": {"siteid": {"enum": ["NORTH", "SOUTH"]}, "price": {"type": "number"}}}
# One row for each message of the topic: how often it ended, but for failed tries.
ENDED = """
SELECT count(*), count(DISTINCT "offset") FROM integration_messagetrack
WHERE queue_id = %s AND ended IN ('APPLIED', 'SUPERSEDED')
"""
# Keys whose document is not that of their newest message.
STALE = f"""
SELECT count(*) FROM integration_storedobject WHERE (document->>'seq')::int <>
  CASE WHEN mod(substr(key, 3)::int, 10) = 0 THEN {COUNT} ELSE 0 END + substr(key, 3)::int
"""


@pytest.fixture
def workers(child_environment: dict[str, str], tmp_path: Path) -> Iterator[CeleryWorld]:
    with celery_world(child_environment, tmp_path) as world:
        yield world


def a_document(key: int, seq: int, site: str) -> dict[str, object]:
    return {"assetnum": f"A-{key}", "siteid": site, "seq": seq, "price": 1.10, "long": 2**70}


def a_bad_morning(servers: Servers, workers: CeleryWorld) -> tuple[Kafka, Queue, Child]:
    kafka = Kafka(servers.kafka_bootstrap)
    structure = ObjectStructure.objects.create(
        name="assets", key_paths=["$.assetnum"], json_schema=SCHEMA
    )
    service = EnterpriseService.objects.create(interface="ASSET", structure=structure)
    queue = a_queue(
        kafka, name="assets", default_service=service, failure_threshold=0, stay_seconds=60
    )
    kafka.send(queue.topic, [a_document(key, key, "OFFICE") for key in range(COUNT)])
    worker = workers.worker("e2e", concurrency=3)
    held = MessageError.objects.filter(state="HOLD", code="SCHEMA_VIOLATION")
    eventually(lambda: held.count() == COUNT, worker, seconds=180)
    kafka.send(queue.topic, [a_document(key, COUNT + key, "SOUTH") for key in range(0, COUNT, 10)])
    eventually(lambda: StoredObject.objects.count() == NEWER, worker, seconds=60)
    return kafka, queue, worker


def choose_all(page: Page, button: str) -> None:
    """From the failures by cause: one cause, one verb over all of it."""
    page.goto(reverse("failures"))
    page.get_by_role("row", name="SCHEMA_VIOLATION").get_by_role("button", name=button).click()


def test_many_of_one_cause_are_corrected_and_released_while_the_queue_runs(
    open_page: OpenPage, servers: Servers, workers: CeleryWorld, complaints: list[str]
) -> None:
    kafka, queue, worker = a_bad_morning(servers, workers)
    page = open_page("Editors", width=1440)

    choose_all(page, "Release all…")
    expect(page.get_by_role("heading", name=f"Release {COUNT:,} messages?")).to_be_visible()
    page.get_by_role("button", name="Release one first").click()
    first = page.get_by_role("heading", name="The first message:")
    expect(first).to_contain_text("Failed again", timeout=SLOW_MS)
    page.get_by_role("button", name="Cancel the rest").click()
    expect(page.get_by_text("the rest was left as it is")).to_be_visible()

    choose_all(page, "Edit all…")
    page.get_by_label("Path", exact=False).first.fill("$.siteid")
    page.get_by_label("New value").first.fill("NORTH")
    page.get_by_role("button", name=f"Try it on all {COUNT:,}").click()
    expect(page.get_by_role("heading", name="Dry run: nothing was changed")).to_be_visible(
        timeout=SLOW_MS
    )
    expect(page.get_by_text('"siteid": "NORTH"').first).to_be_visible()
    assert MessageError.objects.filter(edited_payload__isnull=False).count() == 0
    page.get_by_label("Reason").fill("the office moved to the north site")
    page.get_by_role("button", name="Edit one first").click()
    expect(first).to_contain_text("Resolved", timeout=SLOW_MS)
    page.get_by_role("button", name="Continue with the rest").click()
    more = [a_document(key, key, "SOUTH") for key in range(COUNT + 1, COUNT + 4, 2)]
    kafka.send(queue.topic, more)
    eventually(
        lambda: not MessageError.objects.exclude(state="RESOLVED").exists(), worker, seconds=180
    )
    expect(page.get_by_text("100 %")).to_be_visible(timeout=SLOW_MS)
    page.reload()
    expect(page.get_by_text(f"{COUNT:,} changed, 0 to go")).to_be_visible()
    expect(page.get_by_text(f"of which {NEWER:,} superseded")).to_be_visible()
    assert complaints == []
    account(queue, len(more))


def account(queue: Queue, more: int) -> None:
    release, edit = Operation.objects.order_by("created_at")
    assert (release.state, release.done) == ("CANCELLED", 1)
    assert (edit.state, edit.total, edit.done) == ("DONE", COUNT, COUNT)
    whole = COUNT + NEWER + more
    with connection.cursor() as cursor:
        cursor.execute(ENDED, [queue.pk])
        assert cursor.fetchone() == (whole, whole), "lost or doubled"
        cursor.execute(STALE)
        assert cursor.fetchone() == (0,), "stale keys"
    assert StoredObject.objects.count() == COUNT + more
    ended = MessageError.objects.filter(ended="SUPERSEDED").count()
    assert ended == NEWER
    newest = StoredObject.objects.get(key="A-1")
    assert str(newest.document["long"]) == str(2**70)
