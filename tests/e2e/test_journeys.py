"""The journey the console is for: see a failure, correct it, release it, and it succeeds."""

from collections.abc import Iterator
from pathlib import Path

import pytest
from django.urls import reverse
from playwright.sync_api import Page, expect

from devstack.servers import Servers
from integration.models import EnterpriseService, MessageError, Queue
from sample.models import Asset
from sample.names import ASSET
from tests.e2e.conftest import OpenPage
from tests.support.builders import a_queue
from tests.support.celery_world import CeleryWorld, Child, celery_world, eventually
from tests.support.kafka_world import Kafka
from tests.support.rows import an_envelope
from tests.support.world.models import Effect

pytestmark = [
    pytest.mark.servers,
    pytest.mark.browser,
    pytest.mark.django_db(transaction=True),
    pytest.mark.timeout(180),
]


@pytest.fixture
def workers(child_environment: dict[str, str], tmp_path: Path) -> Iterator[CeleryWorld]:
    with celery_world(child_environment, tmp_path) as world:
        yield world


def send(kafka: Kafka, queue: Queue, numbers: range, bad: int) -> None:
    for number in numbers:
        deed = "permanent" if number == bad else "ok"
        record = an_envelope(
            {"n": number, "do": deed}, INTERFACE="OBEY", MEAMessageID=f"m-{number}"
        )
        kafka.send(queue.topic, [record])


def applied() -> list[int]:
    return list(
        Effect.objects.order_by("arrival_batch", "arrival_place").values_list("n", flat=True)
    )


def a_stopped_queue(servers: Servers, workers: CeleryWorld) -> tuple[Queue, Child]:
    """Five messages were sent; the third failed for good, and two wait behind it."""
    kafka = Kafka(servers.kafka_bootstrap)
    queue = a_queue(kafka, "sequential")
    send(kafka, queue, range(1, 6), bad=3)
    worker = workers.worker("e2e")
    eventually(lambda: MessageError.objects.filter(state="HOLD").exists(), worker, seconds=60)
    assert applied() == [1, 2]
    return queue, worker


def open_the_failure(page: Page, queue: Queue) -> None:
    page.goto("/")
    row = page.get_by_role("row", name=queue.name)
    expect(row).to_contain_text("Blocked", timeout=30_000)
    expect(row).to_contain_text("Refused for good.")
    row.get_by_role("link", name="Open the failure").click()
    expect(page.get_by_text("OBEY was tried")).to_be_visible()


@pytest.mark.parametrize("javascript", [True, False])
def test_a_failure_is_seen_corrected_released_and_succeeds(
    open_page: OpenPage,
    servers: Servers,
    workers: CeleryWorld,
    complaints: list[str],
    *,
    javascript: bool,
) -> None:
    queue, worker = a_stopped_queue(servers, workers)
    page = open_page("Editors", javascript=javascript)
    open_the_failure(page, queue)
    page.get_by_role("link", name="Edit", exact=True).click()
    text = page.get_by_label("The document inside the envelope")
    expect(text).to_have_value('{\n  "n": 3,\n  "do": "permanent"\n}')
    text.fill('{\n  "n": 3,\n  "do": "ok"\n}')
    page.get_by_role("button", name="Save and release").click()
    expect(page.get_by_text("Saved and released.")).to_be_visible()

    eventually(lambda: applied() == [1, 2, 3, 4, 5], worker, seconds=60)
    page.reload()
    expect(page.get_by_text("failed at first and ended as applied")).to_be_visible()
    page.goto(reverse("queue", args=[queue.name]))
    expect(page.get_by_text("Running").first).to_be_visible()
    assert complaints == []


def test_the_tours_broken_asset_can_be_corrected_by_what_the_failure_says(
    open_page: OpenPage, servers: Servers, workers: CeleryWorld
) -> None:
    kafka = Kafka(servers.kafka_bootstrap)
    queue = a_queue(kafka, "sequential")
    EnterpriseService.objects.create(interface=ASSET)
    asset = {"assetnum": "PMP-1000", "siteid": "NORTH", "description": "Feed pump"}
    record = an_envelope(asset | {"status": "BROKEN"}, INTERFACE=ASSET, MEAMessageID="m-1")
    kafka.send(queue.topic, [record])
    worker = workers.worker("e2e")
    held = MessageError.objects.filter(state="HOLD")
    failure = eventually(held.first, worker, seconds=60)
    page = open_page("Editors")
    page.goto(reverse("failure", args=[failure.pk]))
    told = page.get_by_text("Valid are: OPERATING, NOT READY, DECOMMISSIONED.").first
    expect(told).to_be_visible()
    page.get_by_role("link", name="Edit", exact=True).click()
    text = page.get_by_label("The document inside the envelope")
    text.fill(text.input_value().replace("BROKEN", "OPERATING"))
    page.get_by_role("button", name="Save and release").click()
    expect(page.get_by_text("Saved and released.")).to_be_visible()
    eventually(lambda: Asset.objects.filter(status="OPERATING").exists(), worker, seconds=60)


def test_a_deleted_head_lets_the_others_pass(
    open_page: OpenPage, servers: Servers, workers: CeleryWorld
) -> None:
    queue, worker = a_stopped_queue(servers, workers)
    page = open_page("Operators")
    open_the_failure(page, queue)
    page.get_by_text("Delete…").click()
    page.get_by_label("Reason").last.fill("the partner sent it by mistake")
    page.get_by_role("button", name="Delete", exact=True).click()
    eventually(lambda: applied() == [1, 2, 4, 5], worker, seconds=60)
