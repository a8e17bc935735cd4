"""What endpoints answered, without what is masked of the messages that were sent to them."""

from collections.abc import Sequence
from uuid import UUID

from integration.models import Delivery, MessageError, Queue
from integration.selectors.masking.covers import UNCOVERED, Cover, covers_of, unknown_cover
from integration.selectors.masking.rules import Masks, masks

_Position = tuple[int, str, int, int]


def cover_calls(calls: Sequence[Delivery], rules: Masks | None = None) -> None:
    """Hide what is masked in the texts of calls that are only shown, and never saved.

    An answer may repeat what was sent. The failure of a call tells the values; where there is none,
    nobody knows them here, and of messages that a rule is for no text is shown.
    """
    known = masks() if rules is None else rules
    if not known.rules or not calls:
        return
    queues = Queue.objects.in_bulk({call.queue_id for call in calls})
    failures = _failures(calls)
    found = covers_of(failures.values(), known)
    for call in calls:
        error = failures.get(_position(call))
        cover = found.get(error, UNCOVERED) if error else _unknown(call, queues, known)
        call.text = cover.text(call.text)
        if "excerpt" not in call.get_deferred_fields():
            call.excerpt = cover.text(call.excerpt)


def _unknown(call: Delivery, queues: dict[int, Queue], rules: Masks) -> Cover:
    queue = queues.get(call.queue_id)
    system = None if queue is None else queue.system_id
    return unknown_cover(rules.of(call.queue_id, system, (call.interface,)))


def _failures(calls: Sequence[Delivery]) -> dict[_Position, UUID]:
    rows = MessageError.objects.filter(
        queue__in={call.queue_id for call in calls},
        partition__in={call.partition for call in calls},
        offset__in={call.offset for call in calls},
    )
    columns = ("queue", "topic_uuid", "partition", "offset", "pk")
    return {(q, u, p, o): pk for q, u, p, o, pk in rows.values_list(*columns)}


def _position(call: Delivery) -> _Position:
    return call.queue_id, call.topic_uuid, call.partition, call.offset
