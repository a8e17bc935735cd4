"""Sending a dead letter back to the topic it came from: to which one, as what, and how often."""

from collections.abc import Sequence
from uuid import UUID

from integration.actions import tracked
from integration.actions.errors import ReturnRefusedError, RowBusyError
from integration.actions.failures import COLUMNS, Request, as_seen, carry_out
from integration.actions.transaction import short_transaction
from integration.codec import decode_headers
from integration.envelope.dead_letters import without_telling
from integration.envelope.retry_wrapper import resends, unwrap, with_resends, wrap
from integration.handlers.failures import QueueLockTimeoutError
from integration.models import MessageError, Queue
from integration.policy.moves import GIVE_UP, SEND_BACK
from integration.policy.states import Ended
from integration.selectors.failures.returns import refusal
from integration.selectors.scope import EVERYTHING, Scope
from integration.store import outbox
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
        check(row)
        strict = _strict_queue(row.queue.provider_id, row.origin_topic)
        outgoing = _outgoing(row, sent_before, strict)
        carry_out(row, request, {**COLUMNS[SEND_BACK], "origin_topic": row.origin_topic})
        outbox.insert([outgoing])
        tracked.ended(row, Ended.RETURNED)
    leave_request(row.queue_id)


def give_up(error_id: UUID, *, version: int, actor: str, code: str, text: str, reason: str) -> None:
    """Leave a dead letter to people, with a code that says why it is not sent back any more.

    `text` is the failure's, and masked as such; `reason` is shown as it is, and outlives it.
    Raises StateMismatchError, RowBusyError.
    """
    request = Request(GIVE_UP, actor, reason)
    with short_transaction():
        row = as_seen(error_id, version, request)
        carry_out(row, request, {"code": code, "text": text})


def send_back_together(error_ids: Sequence[UUID], scope: Scope) -> dict[UUID, str]:
    """Write many dead letters to their topics, in this order, within the caller's transaction.

    The caller has locked them, and closes them in the same transaction, but those that are
    returned: they may not go, each with the sentence why. `scope` as for `check`. Raises
    RowBusyError where the turn of a strict queue among the topics is not to be had.
    """
    rows = MessageError.objects.select_related("queue__system").in_bulk(list(error_ids))
    ways = {(row.queue_id, row.origin_topic): row.queue for row in rows.values()}
    refused = {way: refusal(queue, way[1], scope) for way, queue in ways.items()}
    strict = {way: _strict_queue(queue.provider_id, way[1]) for way, queue in ways.items()}
    kept: dict[UUID, str] = {}
    gone: list[MessageError] = []
    for row in (rows[id_] for id_ in error_ids):
        if why := refused[row.queue_id, row.origin_topic]:
            kept[row.pk] = why
        else:
            gone.append(row)
    try:
        outbox.insert([_outgoing(row, 0, strict[row.queue_id, row.origin_topic]) for row in gone])
    except QueueLockTimeoutError as e:
        raise RowBusyError from e
    tracked.ended_together(gone, Ended.RETURNED)
    return kept


def check(error: MessageError, scope: Scope = EVERYTHING) -> None:
    """Raises ReturnRefusedError where it may not go to the topic that it came from.

    `scope` is that of a person who asks: limited ones write to topics of their own only.
    """
    if why := refusal(error.queue, error.origin_topic, scope):
        raise ReturnRefusedError(why)


def _outgoing(error: MessageError, sent_before: int, strict: int | None) -> Outgoing:
    """Return the record as it was before it failed."""
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
        strict_queue=strict,
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
