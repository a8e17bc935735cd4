"""Endpoints at work: how they stand in words, their page, and what people do with them."""

from datetime import timedelta
from html import unescape
from typing import Any

import pytest
from django.test import Client
from django.urls import reverse
from django.utils import timezone

from integration.models import (
    ConfigurationChange,
    Delivery,
    Endpoint,
    EndpointCircuit,
    ExternalSystem,
    MessageError,
    Queue,
    QueuePartition,
)
from integration.selectors.delivering import endpoints, open_calls
from integration.selectors.delivering.standing import Standing
from tests.support.rows import a_held, a_person, a_place, a_queue_row, some_live_processes

pytestmark = [pytest.mark.servers, pytest.mark.django_db]


@pytest.fixture
def client() -> Client:
    client = Client()
    client.force_login(a_person("Operators", "otto"))
    return client


@pytest.fixture
def endpoint() -> Endpoint:
    system = ExternalSystem.objects.create(name="plant")
    return Endpoint.objects.create(
        name="plant-orders", system=system, endpoint_type="http", properties={"url": "http://x/"}
    )


def a_sender(endpoint: Endpoint, **fields: Any) -> Queue:
    """An outbound queue of that endpoint, five messages behind."""
    queue = a_queue_row(direction="outbound", endpoint=endpoint, system=endpoint.system, **fields)
    a_place(queue)
    return queue


def a_call(queue: Queue, state: str = "DELIVERED", **fields: Any) -> Delivery:
    now = timezone.now()
    values: dict[str, Any] = {
        "topic_uuid": "first-topic",
        "partition": 0,
        "offset": 9,
        "message_id": "m-9",
        "interface": "ORDERS",
        "epoch": 3,
        "started_at": now,
        "ended_at": None if state == "SENDING" else now,
        "took_ms": 12,
    }
    return Delivery.objects.create(
        queue=queue, endpoint=queue.endpoint, state=state, **{**values, **fields}
    )


def text_of(client: Client, name: str, *args: object) -> str:
    response = client.get(reverse(name, args=args))
    assert response.status_code == 200
    return unescape(response.text)


def test_an_endpoint_that_is_down_says_since_when_why_and_what_waits(client, endpoint) -> None:
    a_sender(endpoint)
    now = timezone.now()
    EndpointCircuit.objects.create(
        endpoint=endpoint,
        state="OPEN",
        probes=2,
        opened_at=now - timedelta(minutes=3),
        resume_at=now + timedelta(seconds=2),
        code="CONNECTION_FAILED",
        text="Connection refused.",
    )
    [row] = endpoints.standing()
    assert row.standing is Standing.DOWN
    assert "Connection refused. Next try in " in row.situation.why
    assert "5 messages wait" in row.situation.why
    for page in (text_of(client, "delivery"), text_of(client, "delivery-endpoint", endpoint.name)):
        assert "Connection refused." in page
        assert "5 messages wait" in page


def test_figures_come_from_the_calls_of_the_window(client, endpoint) -> None:
    queue = a_sender(endpoint)
    for took in range(1, 101):
        a_call(queue, took_ms=took, offset=took)
    long_ago = timezone.now() - timedelta(hours=2)
    a_call(queue, "FAILED", ended_at=long_ago, code="HTTP_FAILED", status=500, text="Broken.")
    found = endpoints.detail(endpoint.name, reveal=True)
    assert found is not None
    quarter = found.row.quarter
    assert (quarter.delivered, quarter.failed, found.day.failed) == (100, 0, 1)
    assert quarter.p50_ms == pytest.approx(50.5)
    assert quarter.p95_ms == pytest.approx(95.05)
    page = text_of(client, "delivery-endpoint", endpoint.name)
    assert "HTTP_FAILED" in page
    assert "95 ms" in page


def test_excerpts_are_for_those_who_may_see_payloads(endpoint) -> None:
    queue = a_sender(endpoint)
    a_call(queue, "FAILED", excerpt="order 4711 of Brightwater", text="Status 400.")
    for role, is_shown in (("Viewers", False), ("Administrators", True)):
        client = Client()
        client.force_login(a_person(role))
        page = text_of(client, "delivery-endpoint", endpoint.name)
        assert ("Brightwater" in page) is is_shown


def test_a_pause_has_an_end_a_reason_and_a_row_of_audit(client, endpoint) -> None:
    address = reverse("pause-endpoint", args=[endpoint.name])
    response = client.post(address, {"lasts": "20 min", "reason": "maintenance"})
    assert response.status_code == 303
    endpoint.refresh_from_db()
    assert endpoint.paused_until is not None
    left = endpoint.paused_until - timezone.now()
    assert timedelta(minutes=19) < left < timedelta(minutes=21)
    change = ConfigurationChange.objects.get(kind="endpoint", action="change")
    assert (change.actor, change.reason) == ("otto", "maintenance")
    resume = reverse("resume-endpoint", args=[endpoint.name])
    assert resume in text_of(client, "delivery-endpoint", endpoint.name)
    client.post(resume)
    endpoint.refresh_from_db()
    assert endpoint.paused_until is None


@pytest.mark.parametrize(
    "said",
    [{"lasts": "soon", "reason": "x"}, {"lasts": "20 min"}, {"lasts": "90 d", "reason": "x"}],
)
def test_a_pause_that_cannot_be_read_is_told_at_its_field(client, endpoint, said) -> None:
    response = client.post(reverse("pause-endpoint", args=[endpoint.name]), said)
    assert response.status_code == 422
    assert 'role="alert"' in response.text
    endpoint.refresh_from_db()
    assert endpoint.paused_until is None


def test_ending_a_pause_lets_the_waiting_queue_look_at_once(client, endpoint) -> None:
    queue = a_sender(endpoint)
    later = timezone.now() + timedelta(hours=1)
    Endpoint.objects.update(paused_until=later)
    QueuePartition.objects.update(state="OUTAGE", state_code="ENDPOINT_PAUSED", resume_at=later)
    client.post(reverse("resume-endpoint", args=[endpoint.name]))
    place = queue.partitions.get()
    assert place.resume_at is not None
    assert place.resume_at <= timezone.now()
    queue.refresh_from_db()
    assert queue.start_requested_at is not None


def test_switching_off_needs_a_reason_and_a_second_click_is_told(client, endpoint) -> None:
    off = reverse("disable-endpoint", args=[endpoint.name])
    assert client.post(off).status_code == 409
    assert client.post(off, {"reason": "broken"}).status_code == 303
    assert client.post(off, {"reason": "broken"}).status_code == 409
    [row] = endpoints.standing()
    assert row.standing is Standing.OFF
    client.post(reverse("enable-endpoint", args=[endpoint.name]))
    [row] = endpoints.standing()
    assert row.standing is Standing.UNUSED


def test_what_may_have_arrived_is_decided_on_the_queues_page(client, endpoint) -> None:
    some_live_processes()
    queue = a_sender(endpoint, kind="continuous")
    a_call(queue, "UNKNOWN", offset=4, message_id="m-4")
    held = a_held(queue, offset=4, message_id="m-4", code="DELIVERY_UNKNOWN", attempts=1)
    assert open_calls.counts().of_queue(queue.pk).unknown == 1
    page = text_of(client, "queue", queue.name)
    assert "m-4" in page
    assert "Idempotency-Key" in page
    address = reverse("arrived", args=[held.pk])
    assert client.post(address, {"version": held.version}).status_code == 409
    said = {"version": held.version, "reason": "seen in their list"}
    assert client.post(address, said).status_code == 303
    assert MessageError.objects.get(pk=held.pk).state == "RESOLVED"
    assert Delivery.objects.get(offset=4).state == "DELIVERED"
    assert open_calls.counts().of_queue(queue.pk).unknown == 0


def test_a_released_doubt_waits_for_nobody_any_more(client, endpoint) -> None:
    queue = a_sender(endpoint, kind="continuous")
    a_call(queue, "UNKNOWN", offset=4)
    held = a_held(queue, offset=4, code="DELIVERY_UNKNOWN")
    client.post(reverse("release", args=[held.pk]), {"version": held.version})
    assert open_calls.counts().of_endpoint(endpoint.pk).unknown == 0
    assert open_calls.doubts(queue.pk, reveal=True) == []
