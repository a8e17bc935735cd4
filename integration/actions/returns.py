"""Sending a dead letter back: to which topic, and as what."""

from integration import registration
from integration.actions.problems import ReturnRefusedError
from integration.codec import decode_headers
from integration.envelope.dead_letters import without_telling
from integration.envelope.retry_wrapper import resends, unwrap, with_resends, wrap
from integration.models import MessageError, Queue
from integration.selectors.scope import Scope
from integration.selectors.setup.queues import is_foreign
from integration.values import Outgoing


def outgoing_of(error: MessageError) -> Outgoing:
    """Return the record as it was before it failed, with one more resend counted.

    Raises ReturnRefusedError.
    """
    queue = error.queue
    check(error)
    value, headers = error.current_payload, decode_headers(error.headers)
    count = resends(value, headers) + 1
    if value is not None and (queue.retry_wrapper or unwrap(value) is not None):
        value = wrap(value, count)
    return Outgoing(
        topic=error.origin_topic,
        value=value,
        key=None if error.key is None else bytes(error.key),
        headers=with_resends(list(without_telling(headers)), count),
        provider_id=queue.provider_id,
        message_id=error.message_id,
        strict_queue=_strict_queue(queue.provider_id, error.origin_topic),
    )


def check(error: MessageError, scope: Scope | None = None) -> None:
    """Raises ReturnRefusedError where it may not go to the topic that its headers name.

    `scope` is that of a person who asks: limited ones write to topics of their own only.
    """
    topic, queue = error.origin_topic, error.queue
    if not topic:
        raise ReturnRefusedError("Its headers do not tell from which topic it came.")
    if topic == queue.topic:
        raise ReturnRefusedError(
            f"It came from {topic}, which this error queue reads itself: it would be back at once."
        )
    there = Queue(provider_id=queue.provider_id, topic=topic, system=queue.system)
    if sentences := registration.topic_name_mistakes(topic):
        raise ReturnRefusedError(sentences[0])
    if scope is not None and is_foreign(there, scope, is_made=False):
        raise ReturnRefusedError(
            f"You may not write to {topic}: it is no topic of the external systems you look after."
        )


def _strict_queue(provider_id: int, topic: str) -> int | None:
    """The outbound queue whose order the topic keeps, if it is one."""
    strict = Queue.objects.filter(
        provider=provider_id,
        topic=topic,
        direction=Queue.Direction.OUTBOUND,
        kind=Queue.Kind.SEQUENTIAL,
    )
    return strict.values_list("pk", flat=True).first()
