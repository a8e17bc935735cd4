"""OpenTelemetry as the tracer: what is kept of traces, and when it is sent."""

import pytest

from integration.otel import OtelTracer
from integration.tracing.context import TraceContext
from integration.tracing.spans import Kind, Span
from tests.support.collector import Collector, exporting_to

pytestmark = pytest.mark.fast
# The low half of the one is the lowest there is, of the other the highest.
LOW, HIGH = f"{'a' * 16}{1:016x}", f"{'a' * 16}{'f' * 16}"


def place(trace_id: str = LOW, *, sampled: bool = True) -> TraceContext:
    return TraceContext(trace_id, "b" * 16, sampled, "v=1")


def a_span(context: TraceContext) -> Span:
    return Span(
        name="process orders",
        kind=Kind.CONSUMER,
        context=context,
        parent=None,
        start_ns=1,
        end_ns=2,
        error="REFUSED",
    )


@pytest.mark.parametrize(
    ("sampler", "ratio", "kept"),
    [
        ("always_on", 1.0, {"low", "high", "low not sampled"}),
        ("always_off", 1.0, set()),
        ("traceidratio", 0.5, {"low", "low not sampled"}),
        ("parentbased_always_on", 1.0, {"low", "high"}),
        ("parentbased_always_off", 1.0, {"low", "high"}),
        ("parentbased_traceidratio", 0.5, {"low", "high"}),
    ],
)
def test_a_trace_that_began_elsewhere_is_kept_as_the_sampler_says(
    sampler: str, ratio: float, kept: set[str]
) -> None:
    places = {"low": place(), "high": place(HIGH), "low not sampled": place(sampled=False)}
    collector = Collector()
    tracer = OtelTracer(sampler, ratio, exporting_to(collector))
    assert {name for name, context in places.items() if tracer.keeps(context)} == kept
    tracer.close()
    collector.close()


def test_what_waits_is_sent_when_the_process_ends_and_what_is_not_kept_never() -> None:
    collector = Collector()
    tracer = OtelTracer("parentbased_always_on", 1.0, exporting_to(collector))
    tracer.ended([a_span(place()), a_span(place(HIGH, sampled=False))])
    tracer.close()
    tracer.close()
    collector.close()
    [span] = collector.spans
    assert (span.trace_id, span.is_error, span.attributes) == (LOW, True, {"error.type": "REFUSED"})


def test_a_span_below_another_keeps_its_trace_and_what_vendors_said() -> None:
    collector = Collector()
    tracer = OtelTracer("parentbased_always_on", 1.0, exporting_to(collector))
    below = tracer.new_span(place())
    assert (below.trace_id, below.sampled, below.state) == (LOW, True, "v=1")
    assert below.span_id != place().span_id
    with tracer.within(below):
        assert tracer.current() == below
    assert tracer.current() is None
    tracer.close()
    collector.close()
