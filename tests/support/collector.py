"""A collector of spans on this machine: what comes by OTLP over HTTP, as it was sent."""

import threading
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from functools import partial
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any

from opentelemetry import trace
from opentelemetry.exporter.otlp.proto.http.trace_exporter import OTLPSpanExporter
from opentelemetry.proto.collector.trace.v1.trace_service_pb2 import ExportTraceServiceRequest
from opentelemetry.proto.trace.v1.trace_pb2 import Span, Status
from opentelemetry.sdk.trace import TracerProvider
from opentelemetry.sdk.trace.export import BatchSpanProcessor

from integration.otel import OtelTracer
from integration.tracing import spans


@dataclass(frozen=True)
class Received:
    """One span that came. Ids are hex digits; `service` is the name of who sent it."""

    name: str
    kind: str
    trace_id: str
    span_id: str
    parent_id: str
    links: tuple[tuple[str, str], ...]
    start_ns: int
    end_ns: int
    attributes: Mapping[str, Any]
    is_error: bool
    service: str


class Collector:
    """Listens at a port of its own."""

    def __init__(self) -> None:
        self.spans: list[Received] = []
        collector = self

        class Handler(_Handler):
            own = collector

        self._server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
        self._server.daemon_threads = True
        self.address = f"http://127.0.0.1:{self._server.server_port}/v1/traces"
        serve = partial(self._server.serve_forever, poll_interval=0.02)
        threading.Thread(target=serve, daemon=True).start()

    def take(self, body: bytes) -> None:
        for of_service in ExportTraceServiceRequest.FromString(body).resource_spans:
            service = _attributes(of_service.resource.attributes).get("service.name", "")
            for of_scope in of_service.scope_spans:
                self.spans += [_received(span, service) for span in of_scope.spans]

    def close(self) -> None:
        self._server.shutdown()
        self._server.server_close()


class _Handler(BaseHTTPRequestHandler):
    own: Collector

    def do_POST(self) -> None:
        self.own.take(self.rfile.read(int(self.headers["Content-Length"])))
        self.send_response(200)
        self.send_header("Content-Length", "0")
        self.end_headers()

    def log_message(self, *_args: Any) -> None:
        """A test says itself what it wants to see."""


@dataclass(frozen=True)
class Tracing:
    """A process that traces, and what came of that at the collector."""

    collector: Collector
    processor: BatchSpanProcessor

    def received(self) -> list[Received]:
        """All spans so far, in the order in which they began."""
        assert self.processor.force_flush(10_000)
        return sorted(self.collector.spans, key=lambda span: (span.start_ns, span.end_ns))


def exporting_to(collector: Collector) -> BatchSpanProcessor:
    return BatchSpanProcessor(OTLPSpanExporter(endpoint=collector.address))


@contextmanager
def tracing(sampler: str = "parentbased_always_on", ratio: float = 1.0) -> Iterator[Tracing]:
    """Let this process trace to a collector of its own within the block."""
    collector = Collector()
    processor = exporting_to(collector)
    known = trace.get_tracer_provider()
    tracer = OtelTracer(sampler, ratio, processor)
    if isinstance(known, TracerProvider):
        # A process can be given only one, and an earlier test has.
        known.add_span_processor(processor)
    spans.use(lambda: tracer)
    try:
        yield Tracing(collector, processor)
    finally:
        spans.use(None)
        processor.shutdown()
        collector.close()


def _received(span: Span, service: str) -> Received:
    return Received(
        name=span.name,
        kind=Span.SpanKind.Name(span.kind).removeprefix("SPAN_KIND_"),
        trace_id=span.trace_id.hex(),
        span_id=span.span_id.hex(),
        parent_id=span.parent_span_id.hex(),
        links=tuple((link.trace_id.hex(), link.span_id.hex()) for link in span.links),
        start_ns=span.start_time_unix_nano,
        end_ns=span.end_time_unix_nano,
        attributes=_attributes(span.attributes),
        is_error=span.status.code == Status.STATUS_CODE_ERROR,
        service=service,
    )


def _attributes(pairs: Any) -> dict[str, Any]:
    return {pair.key: getattr(pair.value, pair.value.WhichOneof("value")) for pair in pairs}
