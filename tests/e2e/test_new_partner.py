"""From an empty installation to a message that was applied, on real servers, clicks counted."""

import uuid
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest
from django.db import transaction
from playwright.sync_api import Page, expect

from devstack.servers import Servers
from integration.handlers import publish_to
from integration.models import ConfigurationChange, Endpoint, EnterpriseService, Queue
from tests.e2e.conftest import OpenPage, settled
from tests.e2e.faults import WIDE, faults
from tests.support.builders import a_provider
from tests.support.celery_world import CeleryWorld, celery_world, eventually
from tests.support.http_partner import HttpPartner
from tests.support.partners import an_endpoint
from tests.support.rows import a_queue_row
from tests.support.world.models import Effect

pytestmark = [
    pytest.mark.servers,
    pytest.mark.browser,
    pytest.mark.django_db(transaction=True),
    pytest.mark.timeout(240),
]
# The menu, five forms, two results looked at, and the one choice without a default.
MOST_CLICKS = 9


@pytest.fixture
def workers(child_environment: dict[str, str], tmp_path: Path) -> Iterator[CeleryWorld]:
    with celery_world(child_environment, tmp_path) as world:
        yield world


class Hand:
    """What a person does, counted."""

    def __init__(self, page: Page) -> None:
        self.page = page
        self.clicks = 0

    def look(self) -> None:
        """Pause as one who reads: what leaves a page while htmx asks is told as its error."""
        self.page.clock.run_for(400)
        settled(self.page)
        expect(self.page.locator(".htmx-request")).to_have_count(0)

    def press(self, name: str) -> None:
        self.clicks += 1
        self.look()
        self.page.get_by_role("button", name=name, exact=True).first.click()

    def follow(self, name: str) -> None:
        self.clicks += 1
        self.look()
        self.page.get_by_role("link", name=name, exact=True).first.click()

    def tick(self, name: str) -> None:
        self.clicks += 1
        self.page.get_by_label(name).first.check()

    def write(self, label: str, text: str) -> None:
        self.page.get_by_label(label).first.fill(text)


def current_step(page: Page) -> str:
    return page.locator("li[aria-current=step] a").inner_text()


def test_a_new_partner_from_nothing_to_an_applied_message(
    open_page: OpenPage,
    servers: Servers,
    workers: CeleryWorld,
    complaints: list[str],
) -> None:
    """Without scripts it is tests/functional/test_setup_partners.py."""
    workers.worker("e2e", queues="celery,relay", concurrency=3)
    workers.beat("beat")
    page = open_page("Administrators", width=WIDE, own_clock=True)
    page.goto("/")
    hand = Hand(page)
    topic = f"partner-{uuid.uuid4().hex[:8]}"
    hand.follow("New partner")
    make_everything(hand, servers.kafka_bootstrap, topic)
    assert current_step(page) == "Test message"
    hand.write("Payload", '{"n": 7, "do": "ok"}')
    hand.press("Send")
    expect(page.get_by_text("It works: applied").first).to_be_visible(timeout=60_000)
    assert [effect.n for effect in Effect.objects.all()] == [7]
    assert ConfigurationChange.objects.count() == 5
    assert hand.clicks <= MOST_CLICKS
    hand.follow("Open the queue")
    expect(page.get_by_role("heading", name="erp-obey").first).to_be_visible()
    assert complaints == []


def make_everything(hand: Hand, bootstrap: str, topic: str) -> None:
    """Steps one to four."""
    page = hand.page
    hand.write("Name", "main")
    hand.write("Servers", bootstrap)
    hand.press("Save and continue")
    expect(page.get_by_text("main was added.")).to_be_visible()
    hand.follow("Continue")
    assert current_step(page) == "External system"
    hand.write("Name", "erp")
    hand.press("Save and continue")
    hand.write("Interface", "OBEY")
    hand.press("Save and continue")
    expect(page.get_by_text("which is installed here").first).to_be_visible()
    hand.follow("Continue")
    assert current_step(page) == "Queue"
    page.locator("#id_topic").fill(topic)
    hand.tick("Sequential: stop at the first failure")
    hand.press("Save and continue")
    expect(page.get_by_text("erp-obey was added")).to_be_visible()


def test_a_queue_that_delivers_is_set_up_by_its_form_alone(
    open_page: OpenPage, servers: Servers, workers: CeleryWorld, complaints: list[str]
) -> None:
    """Without scripts, too: the parts of the delivery come with the endpoint by style alone."""
    workers.worker("e2e", queues="celery,relay", concurrency=3)
    workers.beat("beat")
    a_provider(servers.kafka_bootstrap)
    with an_http_partner() as partner:
        properties = {"url": f"{partner.address}/take", "private_network": True}
        end = an_endpoint(name="shop-in", endpoint_type="http", properties=properties)
        page = open_page("Administrators", javascript=False, width=WIDE)
        page.goto("/queues/new/?direction=outbound")
        concurrency = page.get_by_label("Concurrency")
        expect(concurrency).to_be_hidden()
        fill_in_delivery(page, f"shop-{uuid.uuid4().hex[:8]}", end)
        expect(concurrency).to_be_visible()
        start = page.locator("#part-start")
        expect(start).to_be_hidden()
        page.get_by_label("Adopt an existing topic").check()
        expect(start).to_be_visible()
        page.get_by_label("Create the topic now").check()
        page.get_by_role("button", name="Add the queue").click()
        expect(page.get_by_text("shop-out was added").first).to_be_visible()
        queue = Queue.objects.get(name="shop-out")
        assert (queue.concurrency, queue.ordering, queue.max_retries) == (4, "key", 5)
        with transaction.atomic():
            ids = [publish_to("shop-out", {"n": n}, key="A-1", interface="ORDER") for n in (1, 2)]
        eventually(lambda: len(partner.ids) == 2, workers.children[0])
        assert partner.ids == [str(one) for one in ids]
    assert complaints == []


def fill_in_delivery(page: Page, topic: str, end: Endpoint) -> None:
    page.locator("#id_name").fill("shop-out")
    page.get_by_label("External system").select_option(str(end.system_id))
    page.get_by_label("Provider").select_option(label="main")
    page.locator("#id_topic").fill(topic)
    page.get_by_label("Continuous:").check()
    page.get_by_label("Endpoint").select_option(str(end.pk))
    page.get_by_label("Messages of one key").check()
    page.get_by_label("Concurrency").fill("4")
    page.locator("#id_max_retries").fill("5")


@contextmanager
def an_http_partner() -> Iterator[HttpPartner]:
    partner = HttpPartner()
    try:
        yield partner
    finally:
        partner.close()


def test_the_queues_form_shows_its_effect_as_one_types(
    open_page: OpenPage, servers: Servers, complaints: list[str]
) -> None:
    provider = a_provider(servers.kafka_bootstrap)
    page = open_page("Administrators", width=WIDE)
    page.goto("/queues/new/")
    line = page.locator("#effect-retry")
    expect(line).to_contain_text("1 min 30 s")
    page.get_by_label("Pauses between retries").select_option("list")
    page.get_by_label("Listed pauses").fill("10 s, 1 min, 5 min")
    page.get_by_label("Listed pauses").blur()
    expect(line).to_contain_text("6 min 10 s")
    page.get_by_label("Provider").select_option(str(provider.pk))
    page.locator("#id_topic").fill("no-such-topic-yet")
    page.locator("#id_topic").blur()
    expect(page.locator("#effect-topic")).to_contain_text("will be created with 1 partition")
    page.get_by_label("Adopt an existing topic").check()
    expect(page.locator("#effect-topic")).to_contain_text("does not exist")
    an_endpoint(name="shop-in", max_concurrent=2)
    page.goto("/queues/new/?direction=outbound")
    expect(page.locator("#part-retry")).to_be_hidden()
    page.get_by_label("Endpoint").select_option(label="shop-in (Python function, partner)")
    expect(page.locator("#part-retry")).to_be_visible()
    expect(page.locator("#effect-delivery")).to_contain_text("delivered to shop-in")
    page.get_by_label("Concurrency").fill("4")
    page.get_by_label("Concurrency").blur()
    expect(page.locator("#effect-order")).to_contain_text("Up to 2 calls at a time")
    assert not Queue.objects.exists()
    assert complaints == []


def test_the_steps_are_readable_by_everybody(
    open_page: OpenPage, servers: Servers, complaints: list[str]
) -> None:
    provider = a_provider(servers.kafka_bootstrap)
    service = EnterpriseService.objects.create(interface="NOBODY")
    queue = a_queue_row(provider=provider)
    known = f"provider={provider.pk}&service={service.pk}&queue={queue.name}"
    # The other two are a form that has a page of its own (test_every_page).
    steps = ("provider", "service", "queue", "message")
    addresses = [f"/partners/new/{step}/?{known}" for step in steps]
    addresses.append(f"/queues/new/?endpoint={an_endpoint().pk}")
    page = open_page("Administrators", width=WIDE)
    found = []
    for address in addresses:
        page.goto(address)
        found += faults(page)
    assert found == []
    assert complaints == []
