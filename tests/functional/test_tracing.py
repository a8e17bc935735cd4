"""The trace of a message: one through retries, a person's release and the delivery to a partner."""

import json
import logging
import os
from collections.abc import Iterator
from dataclasses import asdict
from pathlib import Path

import pytest
from django.conf import settings
from django.test import Client
from opentelemetry import trace
from pytest_django import Settings

from integration.actions import failures
from integration.codec import decode_headers
from integration.handlers import publish_to
from integration.models import EnterpriseService, MessageError, MessageTrack, OutboxRow, Queue
from integration.runs.queues import run_queue
from integration.runs.relay import run_relay
from integration.tracing.context import context_of
from sluice.logs import LogLines
from tests.support.builders import a_queue
from tests.support.collector import Received, Tracing, tracing
from tests.support.http_api import Partner, a_partner, forget
from tests.support.http_partner import HttpPartner
from tests.support.kafka_world import Kafka
from tests.support.partners import an_endpoint, an_outbound_queue
from tests.support.rows import a_person

pytestmark = [pytest.mark.servers, pytest.mark.django_db(transaction=True)]
SENT = "00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01"
TRACE, SENDER = SENT[3:35], SENT[36:52]
NOT_KEPT = f"{SENT[:-2]}00"


@pytest.fixture
def broker(servers) -> Kafka:
    return Kafka(servers.kafka_bootstrap)


@pytest.fixture
def traced() -> Iterator[Tracing]:
    with tracing() as made:
        yield made


@pytest.fixture
def other_side() -> Iterator[HttpPartner]:
    made = HttpPartner()
    yield made
    made.close()


def relayed(queue: Queue) -> None:
    run_relay(
        queue.provider_id, stop=lambda: not OutboxRow.objects.filter(state="PENDING").exists()
    )
    Kafka(queue.provider.bootstrap_servers).await_decided(queue.topic)


def an_inbound_queue(broker: Kafka, **fields: object) -> Queue:
    return a_queue(broker, stay_seconds=0.0, **fields)


def out(broker: Kafka, other_side: HttpPartner, **fields: object) -> Queue:
    """Where the handlers of tests publish to: it delivers over HTTP."""
    properties = {"url": f"{other_side.address}/take", "private_network": True}
    endpoint = an_endpoint(name="erp", endpoint_type="http", properties=properties)
    return an_outbound_queue(broker, endpoint=endpoint, name="out", stay_seconds=0.0, **fields)


def a_sender(queue: Queue) -> Partner:
    """The partner who posts into this queue."""
    partner = a_partner("")
    Queue.objects.filter(pk=queue.pk).update(system=partner.system)
    EnterpriseService.objects.get_or_create(interface="OBEY")
    forget()
    return partner


def named(spans: list[Received], name: str) -> list[Received]:
    return [span for span in spans if span.name.split()[0] == name]


def journey(broker: Kafka, other_side: HttpPartner) -> tuple[str, str]:
    """A post whose handler fails twice, is released, and publishes what a partner gets.

    Returns the topic and the id of the post's message.
    """
    # The names are those of the picture in docs/tracing.md.
    named_so = {"name": "orders", "topic": broker.topic(name="shop.orders"), "max_retries": 1}
    queue = an_inbound_queue(broker, **named_so)
    target = out(broker, other_side, topic=broker.topic(name="erp.orders"))
    body = {"n": 1, "do": "publish_at", "until": 3}
    answer = a_sender(queue).post(body, headers={"traceparent": SENT})
    assert answer.status_code == 202, answer.content
    relayed(queue)
    run_queue(queue.pk)
    run_queue(queue.pk)
    error = MessageError.objects.get()
    assert (error.state, error.attempts) == ("HOLD", 2)
    failures.release(error.pk, version=error.version, actor="olga")
    run_queue(queue.pk)
    relayed(target)
    run_queue(target.pk)
    return queue.topic, answer.json()["message_id"]


def test_one_trace_leads_from_a_post_over_a_retry_and_a_release_to_the_partner(
    broker: Kafka, traced: Tracing, other_side: HttpPartner
) -> None:
    topic, message_id = journey(broker, other_side)

    spans = traced.received()
    leave(spans)
    assert {span.trace_id for span in spans} == {TRACE}
    assert {span.service for span in spans} == {"sluice"}
    [post] = named(spans, "POST")
    said = (post.kind, post.parent_id, post.attributes["http.response.status_code"])
    assert said == ("SERVER", SENDER, 202)
    *tries, delivery = named(spans, "process")
    assert_tries(tries, post, message_id, topic)
    inward, outward = named(spans, "send")
    assert (inward.parent_id, outward.parent_id) == (post.span_id, tries[-1].span_id)
    [call] = named(spans, "call")
    assert (delivery.parent_id, call.parent_id) == (tries[-1].span_id, delivery.span_id)
    assert call.attributes["http.response.status_code"] == 201
    [request] = other_side.requests
    assert request.headers["traceparent"] == f"00-{TRACE}-{call.span_id}-01"
    assert {track.trace_id.hex for track in MessageTrack.objects.all()} == {TRACE}


def leave(spans: list[Received]) -> None:
    """Leave what came where tests.support.waterfall makes a picture of it."""
    if path := os.environ.get("TESTS_TRACE"):
        Path(path).write_text("\n".join(json.dumps(asdict(span)) for span in spans))


def assert_tries(tries: list[Received], post: Received, message_id: str, topic: str) -> None:
    """A try that failed, one more after which it is held, and one after a person's release."""
    created, first = (TRACE, post.span_id), (TRACE, tries[0].span_id)
    assert [one.links for one in tries] == [(created,), (created, first), (created, first)]
    assert [one.is_error for one in tries] == [True, True, False]
    assert [one.attributes.get("sluice.released") for one in tries] == [None, False, True]
    assert tries[-1].attributes["sluice.ended"] == "APPLIED"
    for number, one in enumerate(tries, 1):
        assert (one.kind, one.parent_id) == ("CONSUMER", post.span_id)
        assert one.attributes["sluice.attempt"] == number
        assert one.attributes["messaging.message.id"] == message_id
        assert one.attributes["messaging.destination.name"] == topic


def test_a_message_without_a_trace_begins_one_and_keeps_it_over_its_retries(
    broker: Kafka, traced: Tracing
) -> None:
    queue = an_inbound_queue(broker, max_retries=5)
    broker.send(queue.topic, [{"n": 1, "do": "until", "until": 2}])
    run_queue(queue.pk)
    run_queue(queue.pk)

    first, second = traced.received()
    assert first.trace_id == second.trace_id
    assert (first.parent_id, first.links) == ("", ())
    assert second.parent_id == first.span_id
    known = MessageTrack.objects.values_list("trace_id", flat=True)
    assert {id_.hex for id_ in known} == {first.trace_id}


def test_of_a_full_batch_without_traces_only_a_few_messages_begin_one(
    broker: Kafka, traced: Tracing
) -> None:
    queue = an_inbound_queue(broker)
    broker.send(queue.topic, [{"n": n} for n in range(200)])
    run_queue(queue.pk)
    assert MessageTrack.objects.count() == 200
    batches = MessageTrack.objects.values("arrival_batch").distinct().count()
    assert len(traced.received()) <= 10 * batches
    assert MessageTrack.objects.exclude(trace_id=None).count() == len(traced.received())


def test_what_its_sender_does_not_keep_makes_no_spans_and_is_carried_on(
    broker: Kafka, traced: Tracing
) -> None:
    queue = an_inbound_queue(broker)
    an_outbound_queue(broker, name="out")
    headers = [("traceparent", NOT_KEPT.encode()), ("tracestate", b"v=1")]
    broker.send(queue.topic, [{"n": 1, "do": "publish"}], headers=headers)
    run_queue(queue.pk)
    assert traced.received() == []
    context = context_of(decode_headers(OutboxRow.objects.get().headers))
    assert context is not None
    assert (context.trace_id, context.sampled, context.state) == (TRACE, False, "v=1")
    assert MessageTrack.objects.get().trace_id.hex == TRACE


def test_a_batch_that_is_rolled_back_leaves_no_span_of_that_try(
    broker: Kafka, traced: Tracing
) -> None:
    queue = an_inbound_queue(broker, max_retries=0)
    headers = [("traceparent", SENT.encode())]
    bodies = [{"n": 1}, {"n": 2, "do": "permanent"}, {"n": 3}]
    broker.send(queue.topic, bodies, headers=headers)
    run_queue(queue.pk)
    tries = traced.received()
    assert sorted(span.attributes["messaging.kafka.offset"] for span in tries) == [0, 1, 2]
    assert [span.attributes["error.type"] for span in tries if span.is_error] == ["REFUSED"]


def test_what_a_handler_and_a_program_trace_by_themselves_is_the_place_of_what_they_publish(
    broker: Kafka, traced: Tracing
) -> None:
    queue = an_inbound_queue(broker)
    an_outbound_queue(broker, name="out")
    broker.send(queue.topic, [{"n": 1, "do": "publish_in_span"}])
    run_queue(queue.pk)
    with trace.get_tracer("tests").start_as_current_span("a program"):
        publish_to("out", {"n": 2})

    process, inner, program = traced.received()
    assert (inner.name, inner.parent_id) == ("inner", process.span_id)
    contexts = [context_of(decode_headers(row.headers)) for row in OutboxRow.objects.order_by("id")]
    assert [None if one is None else (one.trace_id, one.span_id) for one in contexts] == [
        (span.trace_id, span.span_id) for span in (inner, program)
    ]


class TestWithoutTracing:
    """The context travels on all the same: nothing is measured, nothing is lost."""

    def test_what_a_handler_publishes_carries_the_context_of_its_cause(self, broker: Kafka) -> None:
        queue = an_inbound_queue(broker)
        an_outbound_queue(broker, name="out")
        body = {"n": 1, "do": "publish"}
        broker.send(queue.topic, [body], headers=[("traceparent", SENT.encode())])
        broker.send(queue.topic, [body], headers=[("traceparent", b"\xff")])
        broker.send(queue.topic, [body])
        run_queue(queue.pk)
        rows = OutboxRow.objects.order_by("id")
        carried = [dict(decode_headers(row.headers)).get("traceparent") for row in rows]
        assert carried == [SENT.encode(), None, None]

    def test_a_post_and_a_delivery_carry_it(self, broker: Kafka, other_side: HttpPartner) -> None:
        queue, target = an_inbound_queue(broker), out(broker, other_side)
        sender = a_sender(queue)
        given = {"traceparent": SENT, "tracestate": "v=1"}
        sender.post({"n": 1, "do": "publish"}, headers=given)
        sender.post({"n": 2, "do": "publish"}, headers={"traceparent": "no trace"})
        relayed(queue)
        run_queue(queue.pk)
        relayed(target)
        run_queue(target.pk)
        first, second = other_side.requests
        assert {name: first.headers[name] for name in given} == given
        assert "traceparent" not in second.headers

    def test_a_failure_and_its_message_are_found_by_the_trace(
        self, broker: Kafka, client: Client, settings: Settings
    ) -> None:
        settings.SLUICE_TRACE_URL = "https://traces.test/t/{trace_id}"
        queue = an_inbound_queue(broker)
        body = {"n": 1, "do": "permanent"}
        broker.send(queue.topic, [body], headers=[("traceparent", SENT.encode())])
        run_queue(queue.pk)
        error = MessageError.objects.get()
        client.force_login(a_person("Operators"))
        found = client.get("/tracking/", {"id": TRACE}).text
        assert error.message_id in found
        link = f'href="https://traces.test/t/{TRACE}"'
        assert link in client.get(f"/failures/{error.pk}/").text
        assert link in client.get("/tracking/message/", {"id": error.message_id}).text


def test_what_a_handler_logs_tells_of_its_message(
    broker: Kafka, traced: Tracing, caplog: pytest.LogCaptureFixture
) -> None:
    queue = an_inbound_queue(broker)
    lines: list[dict[str, str]] = []

    class Listening(logging.Handler):
        def emit(self, record: logging.LogRecord) -> None:
            lines.append(json.loads(LogLines().format(record)))

    heard = Listening()
    logging.getLogger("tests.support.world").addHandler(heard)
    try:
        headers = [("traceparent", SENT.encode())]
        broker.send(queue.topic, [{"n": 1, "do": "log"}], headers=headers)
        with caplog.at_level("INFO", logger="tests.support.world"):
            run_queue(queue.pk)
    finally:
        logging.getLogger("tests.support.world").removeHandler(heard)
    [line] = lines
    [span] = traced.received()
    told = {name: line[name] for name in ("queue", "message_id", "trace_id", "span_id")}
    assert told == {
        "queue": queue.name,
        "message_id": f"main~{queue.topic}~0~0",
        "trace_id": TRACE,
        "span_id": span.span_id,
    }
    assert settings.SLUICE_OTEL is False
