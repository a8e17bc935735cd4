"""Sending test messages through the outbox, in one transaction with their rows of audit."""

import uuid
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Final

from django.conf import settings
from django.db import connection, transaction

from integration import envelope as envelopes
from integration.actions.configuration import Author
from integration.actions.errors import QueueAtJmsError
from integration.handlers.outgoing import INTERFACE, MESSAGE_ID, SENDER
from integration.handlers.publishing import Publication, publish_document
from integration.models import (
    ChannelTarget,
    ConfigurationChange,
    ExternalSystem,
    OutboxRow,
    PublishChannel,
    Queue,
)
from integration.models.configuration_change import TEST_MESSAGE
from integration.store import outbox
from integration.store.sessions import database_now
from integration.values import Headers, Outgoing

TEST: Final = "sluice-test"
# What a person writes never stands for what Sluice says itself.
OURS: Final = "sluice-"
_NEXT_ROW: Final = "SELECT nextval(pg_get_serial_sequence('integration_outboxrow', 'id'))"


@dataclass(frozen=True, slots=True, kw_only=True)
class Draft:
    """The message to send. `wrapped` = in the founding envelope; an empty `key` = without one."""

    payload: str
    interface: str = ""
    wrapped: bool = True
    key: str = ""
    headers: tuple[tuple[str, str], ...] = ()


def send(queue: Queue, draft: Draft, author: Author) -> str:
    """Write the message to the outbox, and how to find it again; return its id.

    It takes the same way as everything that is published: the relay sends it to the queue's
    topic. Raises UnwritableMessage, QueueAtJmsError.
    """
    refuse_jms(queue)
    message_id = str(uuid.uuid4())
    with transaction.atomic():
        before = _next_row()
        outbox.insert([_outgoing(queue, draft, message_id)])
        facts = {"interface": draft.interface, "envelope": draft.wrapped}
        _record(message_id, (queue, queue.system), facts, author=author, before=before)
    return message_id


def refuse_jms(queue: Queue) -> None:
    """Raises QueueAtJmsError where the outbox has no way to the queue."""
    if queue.provider.is_jms:
        raise QueueAtJmsError(
            queue=queue.name,
            why="to which nothing is written from here",
            instead="Send the message with a client of that broker; the next run reads it.",
        )


def publish(channel: PublishChannel, payload: str, key: str, author: Author) -> Publication:
    """Publish the payload to every enabled target; each message gets a row of audit.

    The audit rows are those of other test messages, so that each is followed to its outcome in
    the same way. Raises what publish() raises.
    """
    with transaction.atomic():
        before = _next_row()
        done = publish_document(channel.name, payload.encode(), key, headers={TEST: "1"})
        targets = ChannelTarget.objects.filter(channel=channel).select_related("queue", "system")
        by_system = {target.system.name: target for target in targets}
        for system, message_id in done.ids.items():
            target = by_system[system]
            facts = {"interface": channel.name, "envelope": channel.envelope}
            facts |= {"channel": channel.name, "destination": system}
            way = (target.queue, target.system)
            _record(message_id, way, facts, author=author, before=before)
    return done


def _next_row() -> int:
    """A number that no row of the outbox has; those written from now on have higher ones."""
    with connection.cursor() as cursor:
        cursor.execute(_NEXT_ROW)
        number: int = cursor.fetchone()[0]
    return number


def _record(
    message_id: str,
    way: tuple[Queue, ExternalSystem | None],
    facts: Mapping[str, object],
    *,
    author: Author,
    before: int,
) -> None:
    """Write who sent it and how to find it again: its row of the outbox, behind `before`."""
    queue, system = way
    row = OutboxRow.objects.get(pk__gt=before, message_id=message_id)
    place = {"queue": queue.name, "queue_id": queue.pk, "topic": queue.topic}
    ConfigurationChange.objects.create(
        at=database_now(),
        actor=author.actor,
        action="send",
        kind=TEST_MESSAGE,
        subject=message_id,
        name=queue.name,
        system=system,
        before=None,
        after={**facts, **place, "outgoing_row": row.pk},
        reason=author.reason.strip(),
    )


def _outgoing(queue: Queue, draft: Draft, message_id: str) -> Outgoing:
    is_strict = queue.direction == Queue.Direction.OUTBOUND and queue.is_sequential
    return Outgoing(
        topic=queue.topic,
        value=_value(queue, draft, message_id),
        key=draft.key.encode() if draft.key else None,
        headers=_headers(draft, message_id),
        provider_id=queue.provider_id,
        message_id=message_id,
        strict_queue=queue.pk if is_strict else None,
    )


def _value(queue: Queue, draft: Draft, message_id: str) -> bytes:
    if not draft.wrapped:
        return draft.payload.encode()
    return envelopes.write(
        envelopes.Outgoing(
            interface=draft.interface,
            sender=settings.SLUICE_DEPLOYMENT,
            destination="" if queue.system is None else queue.system.name,
            topic=queue.topic,
            message_id=message_id,
            payload=draft.payload,
        )
    )


def _headers(draft: Draft, message_id: str) -> Headers:
    """The person's headers and ours: the id is known before the message is sent."""
    ours = [
        (MESSAGE_ID, message_id.encode()),
        (SENDER, str(settings.SLUICE_DEPLOYMENT).encode()),
        (TEST, b"1"),
    ]
    if draft.interface:
        ours.append((INTERFACE, draft.interface.encode()))
    return [*((name, value.encode()) for name, value in draft.headers), *ours]
