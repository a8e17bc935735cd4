"""OpenTelemetry as the tracer: an extra package, told by its standard variables where spans go.

Spans are made when they have ended, from values, and given to OpenTelemetry's own batch processor:
it sends them by OTLP over HTTP in a thread of its own, and drops what is too much. That takes a
third of the time of spans that are started and ended one by one.
"""

import atexit
import random
import time
from collections.abc import Sequence
from contextlib import AbstractContextManager
from threading import Thread
from typing import Final

from opentelemetry import trace
from opentelemetry.exporter.otlp.proto.http.trace_exporter import OTLPSpanExporter
from opentelemetry.sdk.resources import SERVICE_NAME, Resource
from opentelemetry.sdk.trace import ReadableSpan, SpanProcessor, TracerProvider
from opentelemetry.sdk.trace.export import BatchSpanProcessor
from opentelemetry.sdk.util.instrumentation import InstrumentationScope
from opentelemetry.trace import (
    Link,
    NonRecordingSpan,
    SpanContext,
    SpanKind,
    TraceFlags,
    use_span,
)
from opentelemetry.trace.span import TraceState
from opentelemetry.trace.status import Status, StatusCode

from integration.tracing.context import TraceContext
from integration.tracing.derived import HALF
from integration.tracing.spans import ERROR, Kind, Span
from integration.version import sluice_version
from integration.worker import worker_name

SCOPE: Final = "sluice"
LEAVE_SECONDS: Final = 2.0
PARENT_BASED: Final = "parentbased_"
KINDS: Final = {
    Kind.SERVER: SpanKind.SERVER,
    Kind.CLIENT: SpanKind.CLIENT,
    Kind.CONSUMER: SpanKind.CONSUMER,
}
_SET: Final = TraceFlags(TraceFlags.SAMPLED)
_NOT_SET: Final = TraceFlags(TraceFlags.DEFAULT)
# Nothing that a span needs has to be hard to guess, and this is asked for each.
_chance: Final = random.Random()  # noqa: S311 - ids, no secrets


class OtelTracer:
    """See integration.tracing.spans.Tracer. Made once in a process that traces, after any fork."""

    def __init__(self, sampler: str, ratio: float, processor: SpanProcessor | None = None) -> None:
        """`sampler` is a name of OTEL_TRACES_SAMPLER, `ratio` its argument."""
        self._follows = sampler.startswith(PARENT_BASED)
        self.bound = bound_of(sampler.removeprefix(PARENT_BASED), ratio)
        self._resource = _resource()
        self._processor = processor or BatchSpanProcessor(OTLPSpanExporter())
        self._scope = InstrumentationScope(SCOPE, sluice_version())
        self._set_provider()
        atexit.register(self.close)

    def keeps(self, context: TraceContext) -> bool:
        if self._follows:
            return context.sampled
        return int(context.trace_id[16:], 16) < self.bound

    def now(self) -> int:
        return time.time_ns()

    def new_trace(self) -> TraceContext:
        number = _chance.getrandbits(128) or 1
        sampled = number % HALF < self.bound
        return TraceContext(f"{number:032x}", self._new_id(), sampled)

    def new_span(self, parent: TraceContext) -> TraceContext:
        return TraceContext(parent.trace_id, self._new_id(), self.keeps(parent), parent.state)

    def ended(self, spans: Sequence[Span]) -> None:
        for span in spans:
            if span.context.sampled:
                self._processor.on_end(self._readable(span))

    def current(self) -> TraceContext | None:
        here = trace.get_current_span().get_span_context()
        if not here.is_valid:
            return None
        state = here.trace_state.to_header()
        ids = f"{here.trace_id:032x}", f"{here.span_id:016x}"
        return TraceContext(*ids, here.trace_flags.sampled, state)

    def within(self, context: TraceContext) -> AbstractContextManager[object]:
        return use_span(NonRecordingSpan(_place(context, is_remote=False)), end_on_exit=False)

    def close(self) -> None:
        # Left to itself it would try for half a minute where the collector is away.
        leaving = Thread(target=self._processor.shutdown, daemon=True)
        leaving.start()
        leaving.join(LEAVE_SECONDS)

    def _new_id(self) -> str:
        return f"{_chance.getrandbits(64) or 1:016x}"

    def _readable(self, span: Span) -> ReadableSpan:
        attributes = dict(span.attributes)
        if span.error:
            attributes[ERROR] = span.error
        return ReadableSpan(
            name=span.name,
            context=_place(span.context, is_remote=False),
            parent=None if span.parent is None else _place(span.parent, is_remote=True),
            resource=self._resource,
            attributes=attributes,
            links=[Link(_place(place, is_remote=True)) for place in span.links],
            kind=KINDS[span.kind],
            status=Status(StatusCode.ERROR) if span.error else Status(),
            start_time=span.start_ns,
            end_time=span.end_ns,
            instrumentation_scope=self._scope,
        )

    def _set_provider(self) -> None:
        """Let spans that handlers make go the same way, unless their project has set another."""
        if isinstance(trace.get_tracer_provider(), trace.ProxyTracerProvider):
            provider = TracerProvider(resource=self._resource, shutdown_on_exit=False)
            provider.add_span_processor(self._processor)
            trace.set_tracer_provider(provider)


def bound_of(sampler: str, ratio: float) -> int:
    """Return below which low half of its id a new trace is kept.

    >>> bound_of("always_off", 1.0), bound_of("traceidratio", 0.5) == HALF // 2
    (0, True)
    """
    match sampler:
        case "always_on":
            return HALF
        case "always_off":
            return 0
        case _:
            return round(ratio * HALF)


def _resource() -> Resource:
    """What the standard variables say of this process, and what they do not."""
    said = Resource.create({"service.instance.id": worker_name()})
    if str(said.attributes.get(SERVICE_NAME, "")).startswith("unknown_service"):
        return said.merge(Resource({SERVICE_NAME: SCOPE}))
    return said


def _place(context: TraceContext, *, is_remote: bool) -> SpanContext:
    return SpanContext(
        int(context.trace_id, 16),
        int(context.span_id, 16),
        is_remote,
        _SET if context.sampled else _NOT_SET,
        TraceState.from_header([context.state]) if context.state else None,
    )
