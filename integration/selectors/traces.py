"""The trace of a message or a failure, and where people look at it."""

from dataclasses import dataclass
from typing import Final

from django.conf import settings

from integration.codec import decode_headers
from integration.models import MessageError
from integration.tracing import derived
from integration.tracing.context import context_of
from integration.tracing.spans import tracer

FIELD: Final = "{trace_id}"


@dataclass(frozen=True, slots=True)
class ShownTrace:
    """A trace by its id; `url` is empty where this installation names no tool to look at it."""

    id: str
    url: str


def shown(trace_id: str) -> ShownTrace | None:
    """The trace as pages show it; None where there is none."""
    if not trace_id:
        return None
    return ShownTrace(trace_id, settings.SLUICE_TRACE_URL.replace(FIELD, trace_id))


def trace_of(error: MessageError) -> str:
    """The id of the trace that a failed message belongs to, "" for none.

    It came with the message. Else it follows from where that lay, if the message began one.
    """
    context = context_of(decode_headers(error.headers))
    if context is not None:
        return context.trace_id
    made = tracer()
    partition = derived.partition_of(error.topic_uuid, error.queue.topic, error.partition)
    if made is None or derived.low_half(partition, error.offset) >= made.bound:
        return ""
    return derived.trace_id(partition, error.offset)
