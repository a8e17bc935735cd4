"""Sending a dead letter back to the topic it came from: to which one, as what, and how often."""

from uuid import UUID

from integration import registration
from integration.actions import tracked
from integration.actions.errors import Request, as_seen, carry_out
from integration.actions.problems import ReturnRefusedError
from integration.actions.transaction import short_transaction
from integration.codec import decode_headers
from integration.envelope.dead_letters import without_telling
from integration.envelope.retry_wrapper import resends, unwrap, with_resends, wrap
from integration.models import MessageError, Queue
from integration.policy.moves import GIVE_UP, SEND_BACK
from integration.policy.states import Ended
from integration.selectors.scope import Scope
from integration.selectors.setup.queues import is_foreign
from integration.store import outbox
from integration.store.sessions import database_now
from integration.store.starts import leave_request
from integration.values import Outgoing


def send_back(
    error_id: UUID,
    *,
    version: int,
    actor: str,
    reason: str = "",
    origin: str = "",
    sent_before: int = 0,
) -> None:
    """Write a dead letter to the topic it came from, through the outbox; it is closed then.

    As it is now, also edited, without the headers that tell of its failure, and with one more
    resend counted. `origin` where its headers name no topic; `sent_before` where they count too
    few. Raises ReturnRefusedError, StateMismatchError, RowBusyError.
    """
    request = Request(SEND_BACK, actor, reason)
    with short_transaction():
        row = as_seen(error_id, version, request)
        row.origin_topic = row.origin_topic or origin
        outgoing = _outgoing(row, sent_before)
        closed = {"closed_at": database_now(), "ended": Ended.RETURNED, "not_before": None}
        carry_out(row, request, {**closed, "origin_topic": row.origin_topic})
        outbox.insert([outgoing])
        tracked.ended(row, Ended.RETURNED)
    leave_request(row.queue_id)


def give_up(error_id: UUID, *, version: int, actor: str, code: str, text: str) -> None:
    """Leave a dead letter to people, with a code that says why it is not sent back any more.

    Raises StateMismatchError, RowBusyError.
    """
    request = Request(GIVE_UP, actor, text)
    with short_transaction():
        row = as_seen(error_id, version, request)
        carry_out(row, request, {"code": code, "text": text})


def check(error: MessageError, scope: Scope | None = None) -> None:
    """Raises ReturnRefusedError where it may not go to the topic that it came from.

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


def _outgoing(error: MessageError, sent_before: int) -> Outgoing:
    """Return the record as it was before it failed. Raises ReturnRefusedError."""
    check(error)
    queue = error.queue
    value, headers = error.current_payload, decode_headers(error.headers)
    count = max(resends(value, headers), sent_before) + 1
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


def _strict_queue(provider_id: int, topic: str) -> int | None:
    """The outbound queue whose order the topic keeps, if it is one."""
    strict = Queue.objects.filter(
        provider=provider_id,
        topic=topic,
        direction=Queue.Direction.OUTBOUND,
        kind=Queue.Kind.SEQUENTIAL,
    )
    return strict.values_list("pk", flat=True).first()
