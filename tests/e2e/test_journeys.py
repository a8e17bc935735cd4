"""What the console is for, in a browser with a real worker: a failure is seen and ends well.

Two people at one failure do not overwrite each other; what was deleted comes back.
"""

from collections.abc import Iterator
from pathlib import Path

import pytest
from django.urls import reverse
from playwright.sync_api import Locator, Page, expect

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


def text_of(n: int, deed: str) -> str:
    """A message as the editor shows it."""
    return f'{{\n  "n": {n},\n  "do": "{deed}"\n}}'


def editor_of(page: Page) -> Locator:
    return page.get_by_label("The document inside the envelope")


def press(page: Page, name: str) -> None:
    page.get_by_role("button", name=name, exact=True).click()


def test_a_blocked_queue_is_seen_mended_and_runs(
    open_page: OpenPage, servers: Servers, workers: CeleryWorld, complaints: list[str]
) -> None:
    queue, worker = a_stopped_queue(servers, workers)
    page = open_page("Editors")
    page.goto("/")
    expect(page.get_by_text("Refused for good.").first).to_be_visible()
    page.get_by_role("link", name="Fix", exact=True).click()
    expect(editor_of(page)).to_have_value(text_of(3, "permanent"))
    editor_of(page).fill(text_of(3, "ok"))
    press(page, "Save and release")
    expect(page.get_by_text("Saved and released.")).to_be_visible()

    eventually(lambda: applied() == [1, 2, 3, 4, 5], worker, seconds=60)
    page.reload()
    expect(page.get_by_text("failed at first and ended as applied")).to_be_visible()
    page.get_by_role("link", name=queue.name).first.click()
    expect(page.get_by_text("Running").first).to_be_visible()
    page.get_by_role("link", name="Overview").click()
    expect(page.get_by_text("Blocked")).to_have_count(0)
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
    text = editor_of(page)
    text.fill(text.input_value().replace("BROKEN", "OPERATING"))
    press(page, "Save and release")
    expect(page.get_by_text("Saved and released.")).to_be_visible()
    eventually(lambda: Asset.objects.filter(status="OPERATING").exists(), worker, seconds=60)


def test_a_deleted_head_lets_the_others_pass_and_comes_back_when_it_is_restored(
    open_page: OpenPage, servers: Servers, workers: CeleryWorld, complaints: list[str]
) -> None:
    _, worker = a_stopped_queue(servers, workers)
    page = open_page("Editors")
    page.goto("/")
    page.get_by_text("Delete…").click()
    page.get_by_label("Why").fill("the partner sent it by mistake")
    press(page, "Delete it and continue")
    expect(page.get_by_text("Deleted. It can be restored")).to_be_visible()
    eventually(lambda: applied() == [1, 2, 4, 5], worker, seconds=60)

    page.goto(f"{reverse('failure-list')}?state=DELETED")
    page.get_by_role("link", name="OBEY").click()
    expect(page.get_by_text("the partner sent it by mistake").first).to_be_visible()
    press(page, "Restore")
    expect(page.get_by_text("Restored. It is on hold again.")).to_be_visible()
    page.get_by_role("link", name="Edit", exact=True).click()
    editor_of(page).fill(text_of(3, "ok"))
    press(page, "Save")
    # The queue has gone on without it: that has to be said and confirmed.
    page.get_by_text("Release late…").click()
    page.get_by_label("Apply it late").check()
    press(page, "Release late")
    eventually(lambda: sorted(applied()) == [1, 2, 3, 4, 5], worker, seconds=60)
    page.reload()
    expect(page.get_by_text("Resolved").first).to_be_visible()
    actions = MessageError.objects.get().changes.order_by("at").values_list("action", flat=True)
    assert list(actions) == ["delete", "restore", "edit", "release"]
    assert complaints == []


def test_of_two_people_who_edit_one_failure_the_second_is_told_and_loses_nothing(
    open_page: OpenPage, servers: Servers, workers: CeleryWorld, complaints: list[str]
) -> None:
    _, worker = a_stopped_queue(servers, workers)
    failure = MessageError.objects.get()
    anna, bert = open_page("Editors"), open_page("Editors")
    for page in (anna, bert):
        page.goto(reverse("edit", args=[failure.pk]))
    editor_of(anna).fill(text_of(33, "ok"))
    press(anna, "Save")
    expect(anna.get_by_text("Saved").first).to_be_visible()

    editor_of(bert).fill(text_of(34, "ok"))
    with bert.expect_response(lambda answer: answer.request.method == "POST") as answered:
        press(bert, "Save and release")
    assert answered.value.status == 409
    expect(bert.get_by_text("Somebody changed this failure").first).to_be_visible()
    expect(editor_of(bert)).to_have_value(text_of(34, "ok"))
    both = bert.get_by_label("Your text compared with the stored text")
    expect(both).to_contain_text('"n": 33')
    expect(both).to_contain_text('"n": 34')
    failure.refresh_from_db()
    assert failure.state == "HOLD"
    assert b"33" in bytes(failure.edited_payload or b"")

    bert.get_by_label("I have read the other text; replace it with mine").check()
    press(bert, "Save and release")
    eventually(lambda: applied() == [1, 2, 34, 4, 5], worker, seconds=60)
    names = set(failure.changes.values_list("actor", flat=True))
    assert len(names) == 2, "both stand in its history"
    # The browser itself notes an answer of 409.
    assert [one for one in complaints if "409" not in one] == []


def test_of_two_people_who_decide_on_one_failure_the_second_is_told_what_it_is_now(
    open_page: OpenPage, servers: Servers, workers: CeleryWorld, complaints: list[str]
) -> None:
    _, worker = a_stopped_queue(servers, workers)
    failure = MessageError.objects.get()
    anna, bert = open_page("Operators"), open_page("Operators")
    for page in (anna, bert):
        page.goto(reverse("failure", args=[failure.pk]))
    anna.get_by_text("Delete…").click()
    anna.get_by_label("Reason").last.fill("twice sent")
    press(anna, "Delete")
    eventually(lambda: applied() == [1, 2, 4, 5], worker, seconds=60)
    with bert.expect_response(lambda answer: answer.request.method == "POST") as answered:
        press(bert, "Release")
    assert answered.value.status == 409
    expect(bert.get_by_text("Deleted").first).to_be_visible()
    expect(bert.get_by_role("button", name="Restore", exact=True)).to_be_visible()
    assert applied() == [1, 2, 4, 5]
    assert failure.changes.count() == 1
    assert [one for one in complaints if "409" not in one] == []
