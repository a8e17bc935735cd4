"""W3C Trace Context: what `traceparent` and `tracestate` say, and how they travel on. Pure."""

import re
from collections.abc import Mapping, Sequence
from typing import Final, NamedTuple, Protocol

TRACEPARENT: Final = "traceparent"
TRACESTATE: Final = "tracestate"
NAMES: Final = frozenset({TRACEPARENT, TRACESTATE})
SAMPLED: Final = 1
# Vendors may be promised no more (W3C Trace Context, 3.3.1.5).
LONGEST_STATE: Final = 512
_PARENT: Final = re.compile(
    r"(?!ff)([0-9a-f]{2})-(?!0{32})([0-9a-f]{32})-(?!0{16})([0-9a-f]{16})-([0-9a-f]{2})(-.*)?",
    re.DOTALL,
)
# Of the version that everybody writes.
_LENGTH: Final = 55
_DIGITS: Final = b"0123456789abcdef"
_NO_ID: Final = b"0" * 32
_TRACE_ID: Final = re.compile(r"(?!0{32})[0-9a-f]{32}")
Headers = Sequence[tuple[str, bytes | None]]


class HasHeaders(Protocol):
    """What has headers: a record of Kafka, for one."""

    @property
    def headers(self) -> Headers | None: ...


class TraceContext(NamedTuple):
    """A place in a trace: the span that whatever comes next belongs under. Ids are hex digits.

    `sampled`: spans of this trace are being kept. `state` is what vendors have to say of it.
    """

    trace_id: str
    span_id: str
    sampled: bool
    state: str = ""

    @property
    def traceparent(self) -> str:
        return f"00-{self.trace_id}-{self.span_id}-{SAMPLED if self.sampled else 0:02x}"


def read(traceparent: str, tracestate: str = "") -> TraceContext | None:
    """Return what the two headers say; None for a `traceparent` that is none.

    >>> read("00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01").sampled
    True
    >>> read("00-00000000000000000000000000000000-b7ad6b7169203331-01") is None
    True
    """
    matched = _PARENT.fullmatch(traceparent)
    # Only later versions of the standard may have more to say.
    if matched is None or (matched[1] == "00" and matched[5]):
        return None
    return TraceContext(
        matched[2], matched[3], bool(int(matched[4], 16) & SAMPLED), _state(tracestate)
    )


def context_of(headers: Headers | None) -> TraceContext | None:
    """Return the context that a record's headers carry, or None."""
    parent = state = None
    for name, value in headers or ():
        if name == TRACEPARENT:
            parent = value
        elif name == TRACESTATE:
            state = value
    if not parent:
        return None
    # Whatever bytes they are: what is not ASCII is no traceparent.
    return read(parent.decode("latin-1"), (state or b"").decode("latin-1"))


def trace_id_of(headers: Headers | None) -> str | None:
    """Return the trace of a record, or None."""
    context = context_of(headers)
    return None if context is None else context.trace_id


def trace_ids_of(records: Sequence[HasHeaders]) -> Sequence[str | None]:
    """Return the trace of each record, or None.

    Asked of every message, and so without a call for each. A trace whose span or flags are none is
    told of, too.
    """
    ids: list[str | None] = [None] * len(records)
    places, found = [], []
    for place, record in enumerate(records):
        if not record.headers:
            continue
        for name, value in record.headers:
            if name == TRACEPARENT and value:
                places.append(place)
                found.append(value[3:35] if len(value) == _LENGTH else _NO_ID)
                break
    if not found:
        return ids
    text = b"".join(found)
    if _NO_ID in found or text.translate(None, _DIGITS):
        return [trace_id_of(record.headers) for record in records]
    digits = text.decode()
    for number, place in enumerate(places):
        ids[place] = digits[32 * number : 32 * number + 32]
    return ids


def carried(headers: Headers, context: TraceContext) -> Headers:
    """These headers under the context.

    Those that name another trace stay as they are: whoever wrote them wanted that one.
    """
    own = context_of(headers)
    if own is not None and own.trace_id != context.trace_id:
        return headers
    return [*((n, v) for n, v in headers if n not in NAMES), *headers_of(context)]


def headers_of(context: TraceContext) -> list[tuple[str, bytes | None]]:
    pairs: list[tuple[str, bytes | None]] = [(TRACEPARENT, context.traceparent.encode())]
    return [*pairs, (TRACESTATE, context.state.encode())] if context.state else pairs


def texts_of(headers: Mapping[str, str]) -> dict[str, str]:
    """The two headers as a protocol of texts carries them; nothing where there is no context."""
    context = read(headers.get(TRACEPARENT, ""), headers.get(TRACESTATE, ""))
    if context is None:
        return {}
    state = {TRACESTATE: context.state} if context.state else {}
    return {TRACEPARENT: context.traceparent, **state}


def is_trace_id(text: str) -> bool:
    """Return whether it looks like the id of a trace, as people copy it out of other tools."""
    return _TRACE_ID.fullmatch(text) is not None


def _state(text: str) -> str:
    """What vendors said, as far as another header can hold it: all of it or nothing."""
    is_sendable = text.isascii() and text.isprintable() and len(text) <= LONGEST_STATE
    return text.strip() if is_sendable else ""
