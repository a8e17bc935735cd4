"""The first page in a browser: it renews itself without getting in anybody's way."""

from datetime import timedelta

import pytest
from django.urls import reverse
from django.utils import timezone
from playwright.sync_api import expect

from devstack.servers import Servers
from integration.models import ExternalSystem, MessageError, Queue, QueueSample
from tests.e2e.conftest import OpenPage, settled
from tests.e2e.faults import WIDE, faults
from tests.support.builders import a_provider
from tests.support.rows import (
    a_blocked_queue,
    a_held,
    a_message_to_send,
    a_place,
    a_queue_row,
    some_live_processes,
)

pytestmark = [pytest.mark.servers, pytest.mark.browser, pytest.mark.django_db(transaction=True)]
# The usual pause between two looks at fresh figures, by the page's own clock.
PAUSE_MS = 5_000


def a_busy_queue(name: str = "meter-readings") -> Queue:
    queue = a_queue_row("continuous", name=name)
    a_place(queue, next_offset=15)
    now = timezone.now()
    for step in range(30):
        at = now - timedelta(seconds=15 * (30 - step))
        QueueSample.objects.create(queue=queue, at=at, position=step * 30, end=900 + step * 15)
    return queue


def stop_at_threshold(queue: Queue) -> None:
    queue.partitions.update(state="BRAKED", state_code="TOO_MANY_OPEN_ERRORS")


def test_who_stands_on_a_link_stands_there_after_fresh_figures(
    open_page: OpenPage, complaints: list[str]
) -> None:
    some_live_processes()
    queue = a_busy_queue()
    page = open_page("Viewers", own_clock=True)
    page.goto("/")
    page.get_by_role("link", name="meter-readings").focus()
    stop_at_threshold(queue)
    page.clock.run_for(PAUSE_MS)
    expect(page.get_by_role("row", name="meter-readings")).to_contain_text("Too many failures")
    expect(page.get_by_role("row").get_by_role("link", name="meter-readings")).to_be_focused()
    assert complaints == []


def test_the_figures_rest_while_somebody_is_about_to_decide(
    open_page: OpenPage, complaints: list[str]
) -> None:
    some_live_processes()
    a_blocked_queue(name="orders")
    queue = a_busy_queue()
    page = open_page("Operators", own_clock=True)
    page.goto("/")
    page.get_by_text("Delete…").click()
    page.get_by_label("Why").fill("sent twi")
    stop_at_threshold(queue)
    page.clock.run_for(3 * PAUSE_MS)
    settled(page)
    expect(page.get_by_label("Why")).to_have_value("sent twi")
    expect(page.get_by_role("row", name="meter-readings")).to_contain_text("Running")
    page.get_by_text("Delete…").click()
    page.get_by_label("Why").evaluate("one => one.blur()")
    page.clock.run_for(PAUSE_MS)
    expect(page.get_by_role("row", name="meter-readings")).to_contain_text("Too many failures")
    assert complaints == []


@pytest.mark.parametrize("javascript", [True, False])
def test_a_blocked_queue_is_freed_from_the_first_page(
    open_page: OpenPage, complaints: list[str], *, javascript: bool
) -> None:
    some_live_processes()
    a_blocked_queue(name="orders")
    page = open_page("Operators", javascript=javascript)
    page.goto("/")
    page.get_by_text("Delete…").click()
    page.get_by_label("Why").fill("sent twice")
    page.get_by_role("button", name="Delete it and continue").click()
    expect(page.get_by_text("the queue continues as soon as a worker takes it")).to_be_visible()
    assert MessageError.objects.get().state == "DELETED"
    assert page.url.endswith("/")
    assert complaints == []


def a_bad_morning(servers: Servers) -> list[str]:
    """Every kind of card, problem, badge and line there is on the pages of queues."""
    # Brokers that do not answer would be waited for.
    a_provider(servers.kafka_bootstrap, "plant")
    some_live_processes(beats=False)
    queue, _, _ = a_blocked_queue(name="orders")
    a_place(a_queue_row(name="gone"), state="BLOCKED", state_code="TOPIC_GONE")
    off = ExternalSystem.objects.create(name="sap", enabled=False)
    a_place(a_queue_row(name="invoices", system=off))
    a_place(a_queue_row(name="catalogue"), state="WAITING", state_code="HANDLER_MISSING")
    readings = a_busy_queue()
    for offset in range(3):
        a_held(readings, offset)
    outbound = a_queue_row(name="outgoing", direction="outbound")
    a_message_to_send(outbound, "DEAD", strict_queue=outbound.pk)
    named = [reverse("queue", args=[one.name]) for one in (queue, readings, outbound)]
    return ["/", reverse("queues"), reverse("overview-causes"), *named]


def test_a_bad_morning_is_readable_for_everybody(
    open_page: OpenPage, servers: Servers, complaints: list[str]
) -> None:
    addresses = a_bad_morning(servers)
    page = open_page("Editors", width=WIDE)
    found = []
    for address in addresses:
        page.goto(address)
        found += faults(page, leave=True)
    assert found == []
    assert complaints == []
