"""W3C Trace Context: what is read, what is ignored, how it travels; ids that follow from places."""

from collections.abc import Sequence

import pytest

from integration.tracing import derived
from integration.tracing.context import (
    Headers,
    TraceContext,
    carried,
    context_of,
    is_trace_id,
    read,
    texts_of,
    trace_id_of,
    trace_ids_of,
)
from integration.values import Record

pytestmark = pytest.mark.fast
TRACE, SPAN = "0af7651916cd43dd8448eb211c80319c", "b7ad6b7169203331"
SENT = f"00-{TRACE}-{SPAN}-01"


def test_a_context_is_read_and_written_as_it_came() -> None:
    context = read(SENT, "v=1,w=2")
    assert context == TraceContext(TRACE, SPAN, sampled=True, state="v=1,w=2")
    assert context is not None
    assert context.traceparent == SENT


@pytest.mark.parametrize(
    "wrong",
    [
        "",
        "nonsense",
        SENT.upper(),
        f" {SENT}",
        f"{SENT}\n",
        f"{SENT}-more",
        f"ff-{TRACE}-{SPAN}-01",
        f"00-{'0' * 32}-{SPAN}-01",
        f"00-{TRACE}-{'0' * 16}-01",
        f"00-{TRACE}-{SPAN}-1",
        f"00-{TRACE[:-1]}-{SPAN}-01",
    ],
)
def test_what_the_standard_forbids_is_no_context(wrong: str) -> None:
    assert read(wrong) is None
    assert texts_of({"traceparent": wrong}) == {}
    assert trace_id_of([("traceparent", wrong.encode())]) is None


def test_a_later_version_is_read_as_far_as_this_one_knows_it() -> None:
    context = read(f"cc-{TRACE}-{SPAN}-03-what-is-new")
    assert context is not None
    assert (context.sampled, context.traceparent) == (True, SENT)


@pytest.mark.parametrize("state", ["x" * 513, "ü=1", "a\nb"])
def test_a_state_that_no_header_can_hold_is_left_out(state: str) -> None:
    context = read(SENT, state)
    assert context is not None
    assert context.state == ""


def test_bytes_that_are_no_text_are_no_context() -> None:
    assert context_of([("traceparent", b"\xff\x00")]) is None
    assert context_of([("traceparent", None)]) is None
    assert context_of(None) is None


def test_what_is_caused_carries_the_place_of_its_cause_in_place_of_the_old_one() -> None:
    here = TraceContext(TRACE, "1" * 16, sampled=True, state="v=1")
    headers = [("a", b"1"), ("traceparent", SENT.encode()), ("tracestate", b"old=1")]
    assert carried(headers, here) == [
        ("a", b"1"),
        ("traceparent", here.traceparent.encode()),
        ("tracestate", b"v=1"),
    ]


def test_who_names_another_trace_wants_that_one() -> None:
    other = [("traceparent", f"00-{'a' * 32}-{SPAN}-01".encode())]
    assert carried(other, TraceContext(TRACE, SPAN, sampled=True)) == other


@pytest.mark.parametrize(
    "odd",
    [
        b"nonsense",
        f"00-{'0' * 32}-{SPAN}-01".encode(),
        f"00-{'A' * 32}-{SPAN}-01".encode(),
        f"00-{' ' * 32}-{SPAN}-01".encode(),
        f"cc-{TRACE}-{SPAN}-01-new".encode(),
        b"\xff" * 55,
        b"",
        None,
    ],
)
def test_the_traces_of_many_are_those_of_each(odd: bytes | None) -> None:
    one = [("a", b"1"), ("traceparent", SENT.encode())]
    every = [one, None, [], [("traceparent", odd)], [("a", b"1")], one]
    assert of_many(every) == [trace_id_of(headers) for headers in every]
    assert of_many(every)[0] == TRACE
    assert of_many([one, None]) == [TRACE, None]
    assert of_many([None, []]) == [None, None]


def of_many(every: Sequence[Headers | None]) -> list[str | None]:
    return list(trace_ids_of([Record(0, 0, None, None, None, headers) for headers in every]))


@pytest.mark.parametrize(
    ("text", "is_one"), [(TRACE, True), (TRACE[:-1], False), ("0" * 32, False), ("x" * 32, False)]
)
def test_the_id_of_a_trace_is_told_by_its_form(text: str, *, is_one: bool) -> None:
    assert is_trace_id(text) is is_one


class TestDerived:
    def test_the_same_place_gives_the_same_ids_in_every_process(self) -> None:
        partition = derived.partition_of("uuid-1", "orders", 3)
        trace = derived.trace_id(partition, 42)
        assert trace == "2f8411899b9bc0f56e5a12fe2d8f8496"
        assert derived.span_id(trace, 7, 42, 1001) == "7226c599ff4627ea"

    def test_another_life_of_a_topic_has_other_traces(self) -> None:
        lives = [derived.partition_of(uuid, "orders", 0) for uuid in ("a", "b")]
        assert derived.trace_id(lives[0], 0) != derived.trace_id(lives[1], 0)

    def test_of_any_offsets_in_a_row_the_wanted_share_begins_a_trace(self) -> None:
        partition, bound = derived.partition_of("uuid", "orders", 0), derived.HALF // 100
        for first in (0, 10**6, 10**12):
            kept = [derived.low_half(partition, first + number) < bound for number in range(10_000)]
            assert 95 <= sum(kept) <= 105
