"""The form of an outbound queue where it differs: its parts, words and effects."""

from collections.abc import Iterator, Mapping
from typing import Final

from console.forms.setup_form import Part
from console.setup.queues import fields
from integration.counting import so_many
from integration.models import Endpoint, Queue
from integration.models.forwards import target_of

PARTS: Final[Mapping[str, Part]] = {
    "part-queue": fields.PARTS["part-queue"],
    "part-topic": (
        *fields.PARTS["part-topic"][:2],
        (*fields.PARTS["part-topic"][2], "retry_wrapper"),
    ),
    "part-delivery": (
        "Delivery",
        (
            "With an endpoint, each message is delivered to the partner from here. Without "
            "one, the partner reads the topic, unless a channel's target names an endpoint."
        ),
        ("endpoint",),
    ),
    "part-start": (
        "Where delivery begins",
        (
            "Chosen once, when the queue gets its endpoint. An existing topic has no default: "
            "check what each choice delivers and skips."
        ),
        fields.STARTS,
    ),
    "part-order": ("Order and concurrency", "", ("ordering", "concurrency")),
    fields.RETRY: (
        "Retries",
        (
            "For messages that the partner refuses for a reason that may pass. A message that "
            "can never be accepted is put on hold at once, and while the endpoint is down no "
            "retry is spent."
        ),
        tuple(name for name in fields.PARTS[fields.RETRY][2] if name != "carrier"),
    ),
    "part-failures": ("Failures", "", ("error_queue", "create_error_queue", "error_queue_strict")),
    "part-limits": fields.PARTS["part-limits"],
    "part-pace": ("Pace: batches, runs, calls", "", fields.PACE),
    "part-tracking": fields.PARTS["part-tracking"],
}
# What matters only where messages are delivered from here.
DELIVERING: Final = tuple(PARTS)[3:]
# Marks that the style sheet hides a part by; without it all parts are seen.
ONLY_DELIVERS: Final = "only-delivers"
ONLY_CONTINUOUS: Final = "only-continuous"
ONLY_ADOPTED: Final = "only-adopted"
MARKS: Final = {"part-order": ONLY_CONTINUOUS, "part-start": ONLY_ADOPTED}

KINDS: Final = (
    (Queue.Kind.SEQUENTIAL.value, "Sequential: in the order they were published"),
    (Queue.Kind.CONTINUOUS.value, "Continuous: no order, or the order within a key"),
)
NO_ENDPOINT: Final = "None: the partner reads the topic"
LABELS: Final = {
    "kind": "Order",
    "ordering": "What keeps its order",
    "handler_timeout_seconds": "Time for one call",
}
HELPS: Final = {
    "retry_wrapper": "On: each message is written as {“retryCount”: 0, “message”: …}, so that the "
    "partner can count how often it sent it again.",
    "kind": "Sequential needs a topic with one partition. With an endpoint, it sends one message "
    "at a time, and nothing passes one that failed.",
    "endpoint": "An endpoint of the partner that the queue belongs to. Once you choose one, enter "
    "the start, order, retries and limits below.",
    "start_from": "Not needed for a topic that is created now: it is empty, and delivered from its "
    "beginning.",
    "ordering": "Within a key: while a message is under way or has failed, later ones of its key "
    "wait. Other keys continue. It needs keys from the channel's key path or publish().",
    "concurrency": "How many calls may be under way at once, 1 to 64. The endpoint's own limit "
    "counts too.",
    "batch_size": "How many messages are taken from the topic at a time, to choose the next calls "
    "from. With fewer than the concurrency, some calls stay unused.",
    "handler_timeout_seconds": "A call that takes longer is given up. It is then unknown whether "
    "its messages arrived: if the endpoint drops repeats they are sent again, otherwise put on "
    "hold.",
    "max_open_errors": "With more open failures than this, the queue stops sending and "
    "shows why, instead of filling the table overnight.",
    "crash_limit": "A message is put on hold once this many workers have died while sending it.",
}


def delivery_words(
    queue: Queue, *, was_delivered: bool, by_target: bool, goes_on: bool
) -> Iterator[str]:
    """Sentences on where messages are delivered, and what of the endpoint is in the way.

    `goes_on` is of a queue that had an endpoint once: its position is kept.
    """
    end = queue.endpoint
    if end is None:
        if by_target:
            yield "Targets of channels name their own endpoints: those messages are delivered."
        elif was_delivered:
            yield (
                "Nothing is delivered any longer, and open failures wait until there is an "
                "endpoint again. The messages stay in the topic for other readers. With an "
                "endpoint again, those that were added in the meantime are sent, too."
            )
        else:
            yield "Nothing is delivered from here: the partner reads the topic."
        return
    yield f"Each message is delivered to {end} ({end.get_endpoint_type_display()}, {end.system})."
    yield _once(queue, end)
    if goes_on:
        yield (
            "Delivery continues from the position where it ended: everything that the topic still "
            "has from there on is sent now."
        )
    if not (end.enabled and end.system.enabled):
        off = end if not end.enabled else end.system
        yield f"{off} is switched off: its messages wait in the topic until it is on."


def _once(queue: Queue, end: Endpoint) -> str:
    """Tell what becomes of a message that may have arrived."""
    if queue.forwards:
        provider, topic = target_of(end)
        return (
            f"It is forwarded to the topic {topic} of {provider} exactly once: position and new "
            "record are one commit. No call is made: concurrency and the time for a call do not "
            "count."
        )
    if end.repeats_for(is_sequential=queue.keeps_order):
        return "A message that may have arrived is sent again: this endpoint drops repeats."
    why = "this endpoint may not recognize a repeat"
    if end.idempotent:
        why += " where several messages share a file"
    return f"A message that may have arrived is put on hold for a person to check: {why}."


def order_words(queue: Queue) -> Iterator[str]:
    """Sentences on order and concurrency within the limits of the endpoint."""
    if queue.forwards:
        kept = queue.is_sequential or queue.ordering == Queue.Ordering.KEY
        how = "in the order of the topic" if queue.is_sequential else "each key keeps its order"
        yield f"Batch by batch; {how if kept else 'what failed follows later, out of its order'}."
        return
    if queue.is_sequential:
        yield "One call at a time, in the order of the topic."
        return
    end = queue.endpoint
    concurrency = queue.concurrency if end is None else min(queue.concurrency, end.max_concurrent)
    at_once = (
        "One call at a time"
        if concurrency == 1
        else f"Up to {so_many(concurrency, 'call')} at a time"
    )
    kept = queue.ordering == Queue.Ordering.KEY
    yield f"{at_once}; {'each key keeps its order' if kept else 'no order between messages'}."
    if end is not None and queue.concurrency > end.max_concurrent:
        most = so_many(end.max_concurrent, "call")
        yield f"{end} accepts {most} at a time: the rest of the concurrency stays unused."
