"""publish(): messages for other systems, written to the outbox with the effects they belong to."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace

from django.conf import settings
from django.db import transaction

from integration.envelope import Flaw, body_of
from integration.handlers.channels import Channel, Target, channel_named, target_of_queue
from integration.handlers.outbound import Outbound, current, id_of
from integration.handlers.outgoing import Facts, GivenHeaders, record
from integration.handlers.payloads import Key, PayloadRefusedError, Prepared, as_text, prepare
from integration.handlers.ports import filled
from integration.tracing import spans
from integration.tracing.context import carried
from integration.values import Outgoing


@dataclass(frozen=True, slots=True)
class Publication:
    """The result of one publish(): the message id for each external system that gets one.

    `ids` is empty where the channel, or each of its targets, is switched off.
    """

    channel: str
    ids: Mapping[str, str]


def publish(
    channel: str, payload: object, *, key: Key = None, headers: GivenHeaders = ()
) -> Publication:
    """Send `payload` to every target of a publish channel, if and only if this transaction commits.

    `payload` in the channel's format. JSON: anything it can hold (Decimal stays exact, dates
    become ISO text), or text or bytes that are JSON already. XML: an lxml element, or text or
    bytes that are XML. None is a tombstone and needs a key. `key`: else the channel's key path
    finds it, else its structure's.

    Outside a transaction it is one of its own, committed when publish() returns. Inside a handler
    the ids derive from the consumed message, so that a repetition has the same ones. Raises
    UnknownChannelError, PayloadRefusedError, UnwritableMessage, OutageError where the schema of a
    registry cannot be had, and QueueLockTimeoutError where another transaction has published to the
    same sequential queue and does not end.
    """
    outbound = current.get()
    configured = channel_named(channel) if outbound is None else outbound.channel(channel)
    name = None if outbound is None else outbound.next_name()
    prepared = prepare(configured.rules, payload, key)
    cause = _cause(outbound)
    rows = []
    for target in configured.targets:
        message_id = id_of(None if name is None else f"{name}\n{target.system}")
        facts = Facts(target, channel, message_id, cause)
        text, mark = _text_for(target, configured, prepared), prepared.key
        wrapped = configured.envelope and not target.subject
        rows.append(record(facts, text, mark, headers=headers, wrapped=wrapped))
    _keep(rows, outbound)
    pairs = zip(configured.targets, rows, strict=True)
    return Publication(channel, {target.system: row.message_id for target, row in pairs})


def publish_to(
    queue: str,
    payload: object,
    *,
    key: Key = None,
    interface: str | None = None,
    headers: GivenHeaders = (),
    envelope: bool = True,
) -> str:
    """Send `payload` to one outbound queue, without a channel; otherwise as publish().

    `payload`: as for publish(), in either format, and unjudged. `interface` names the message
    type, by default as the queue. Without `envelope` the bare payload is sent, its facts in
    headers. Returns the message's id. Raises UnknownQueueError, and ValueError for a payload that
    cannot be written.
    """
    outbound = current.get()
    target = target_of_queue(queue) if outbound is None else outbound.target(queue)
    message_id = id_of(None if outbound is None else outbound.next_name())
    facts = Facts(target, interface or queue, message_id, _cause(outbound))
    text = None if payload is None else as_text(payload)
    mark = key.encode() if isinstance(key, str) else key
    _keep([record(facts, text, mark, headers=headers, wrapped=envelope)], outbound)
    return message_id


def publish_document(
    channel: str, body: bytes, key: str | None = None, *, headers: GivenHeaders = ()
) -> Publication:
    """Publish what came as bytes: JSON or XML text, as the channel's format has it.

    UTF-8, or any encoding that an XML text declares. Without a key the channel's paths find it.
    Raises what publish() raises; for an empty body PayloadRefusedError (EMPTY_BODY).
    """
    if not body.strip():
        text = f"{channel}: there is nothing in it. A tombstone is published by a program only."
        raise PayloadRefusedError(text, code="EMPTY_BODY")
    return publish(channel, body, key=key or None, headers=headers)


def _text_for(target: Target, channel: Channel, prepared: Prepared) -> str | bytes | None:
    """The payload as this target gets it. Raises PayloadRefusedError, OutageError."""
    if not target.subject or prepared.text is None:
        return prepared.text
    document = body_of(prepared.text)
    if isinstance(document, Flaw):
        raise PayloadRefusedError(f"{channel.name}: {document.message}", code=document.code)
    place = target.provider_id, target.registry, target.subject, channel.schema_version
    return filled().encoder(*place, document)


def _cause(outbound: Outbound | None) -> str | None:
    return None if outbound is None or outbound.cause is None else outbound.cause.message_id


def _keep(rows: Sequence[Outgoing], outbound: Outbound | None) -> None:
    """Leave rows to the engine's own insert, last in the transaction; elsewhere write them now."""
    if outbound is not None:
        for row in rows:
            outbound.append(row)
        return
    if not rows:
        return
    context = spans.current()
    if context is not None:
        rows = [replace(row, headers=carried(row.headers, context)) for row in rows]
    # All rows or none. With a savepoint a wait that was too long leaves the author's transaction
    # usable; without strict queues there is nothing to wait for.
    waits = any(row.strict_queue is not None for row in rows)
    with transaction.atomic(using=settings.SLUICE_DATABASE, savepoint=waits):
        filled().outbox(rows)
