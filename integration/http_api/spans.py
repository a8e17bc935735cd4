"""The span of a post, from its arrival to its answer, and the place that its messages carry."""

from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Final

from integration.http_api.errors import HttpApiError
from integration.http_api.receipts import Post
from integration.tracing import context, spans
from integration.tracing.context import TraceContext
from integration.tracing.spans import Attribute, Kind, Span, tracer

ROUTES: Final[Mapping[str, str]] = {
    "esqueue": "/esqueue/{system}/{service}",
    "es": "/es/{system}/{service}",
    "publish": "/api/publish/{channel}",
}
BROKEN: Final = 500


@dataclass(slots=True)
class Told:
    """What is to be told of a post once it is answered."""

    status: int = BROKEN
    error: str = ""
    is_repeat: bool = False


def place(traceparent: str, tracestate: str) -> tuple[TraceContext | None, TraceContext | None]:
    """The place that a request came from, and the one that what it posts carries.

    While nothing is traced here it is the same one, or none.
    """
    sent = context.read(traceparent, tracestate)
    made = tracer()
    if made is None:
        return sent, sent
    return sent, made.new_trace() if sent is None else made.new_span(sent)


@contextmanager
def of_post(post: Post) -> Iterator[Told]:
    """Tell of the post when the block ends, with what was said of it there."""
    told, made = Told(), tracer()
    if made is None or post.context is None:
        yield told
        return
    began_ns = made.now()
    try:
        yield told
    except HttpApiError as refusal:
        told.status, told.error = refusal.status, refusal.code
        raise
    finally:
        made.ended([_span(post, told, post.context, (began_ns, made.now()))])


def _span(post: Post, told: Told, own: TraceContext, times: tuple[int, int]) -> Span:
    attributes: dict[str, Attribute] = {
        spans.METHOD: "POST",
        spans.ROUTE: ROUTES[post.address],
        spans.STATUS: told.status,
        spans.SYSTEM_NAME: post.system,
        spans.SERVICE: post.service,
        spans.MESSAGE_ID: post.message_id,
        spans.REPEATED: told.is_repeat,
    }
    return Span(
        name=f"POST {ROUTES[post.address]}",
        kind=Kind.SERVER,
        context=own,
        parent=post.sent_context,
        start_ns=times[0],
        end_ns=times[1],
        attributes=attributes,
        error=told.error or ("" if told.status < BROKEN else str(told.status)),
    )
