"""Sending a test message to a queue: through the outbox, in one transaction with its audit row."""

import uuid
from dataclasses import dataclass
from typing import Final

from django.conf import settings
from django.db import connection, transaction

from integration import envelope as envelopes
from integration.actions.configuration import Author
from integration.clock import database_now
from integration.handlers.outgoing import INTERFACE, MESSAGE_ID, SENDER
from integration.models import ConfigurationChange, Queue
from integration.models.configuration_change import TEST_MESSAGE
from integration.store import outbox
from integration.values import Headers, Outgoing

TEST: Final = "sluice-test"
# What a person writes never stands for what Sluice says itself.
OURS: Final = "sluice-"
_LAST_ROW: Final = "SELECT currval(pg_get_serial_sequence('integration_outboxrow', 'id'))"


@dataclass(frozen=True, slots=True, kw_only=True)
class Draft:
    """What a person wants to send. `wrapped` = in the founding envelope; `key` "" = without."""

    payload: str
    interface: str = ""
    wrapped: bool = True
    key: str = ""
    headers: tuple[tuple[str, str], ...] = ()


def send(queue: Queue, draft: Draft, author: Author) -> str:
    """Write the message to the outbox, and how to find it again; return its id.

    It takes the same way as everything that is published: the relay sends it to the queue's
    topic. Raises UnwritableMessage.
    """
    message_id = str(uuid.uuid4())
    row = _outgoing(queue, draft, message_id)
    with transaction.atomic():
        outbox.insert([row])
        with connection.cursor() as cursor:
            cursor.execute(_LAST_ROW)
            (number,) = cursor.fetchone()
        ConfigurationChange.objects.create(
            at=database_now(),
            actor=author.actor,
            action="send",
            kind=TEST_MESSAGE,
            subject=message_id,
            name=queue.name,
            system=queue.system,
            before=None,
            after={
                "queue": queue.name,
                "queue_id": queue.pk,
                "topic": queue.topic,
                "interface": draft.interface,
                "envelope": draft.wrapped,
                "outgoing_row": number,
            },
            reason=author.reason.strip(),
        )
    return message_id


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
