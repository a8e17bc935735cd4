"""publish(): messages for other systems, written to the outbox with the effects they belong to."""

import uuid
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from contextvars import ContextVar
from dataclasses import dataclass
from typing import Any, Final

from django.conf import settings
from django.db import connections
from lxml import etree

from integration import envelope as envelopes
from integration.delivery.values import Headers, Outgoing
from integration.errors import IntegrationError
from integration.handlers.exact_json import encode
from integration.handlers.message import Message

MESSAGE_ID: Final = "sluice-message-id"
INTERFACE: Final = "sluice-interface"
SENDER: Final = "sluice-sender"
# Published ids are uuid5 of this and of what they derive from; it must never change.
ID_SPACE: Final = uuid.UUID("5b1f1c52-3c0e-5e0e-9d6a-6d5f2a0c7a11")
GivenHeaders = Mapping[str, str | bytes | None] | Sequence[tuple[str, str | bytes | None]]


class UnknownQueueError(IntegrationError):
    """publish() names a queue that is not registered as outbound."""

    code = "UNKNOWN_QUEUE"

    def __init__(self, queue: str) -> None:
        super().__init__(
            f"There is no outbound queue named {queue!r}.",
            next_step="Register it, or correct the name given to publish().",
        )
        self.queue = queue


@dataclass(frozen=True, slots=True)
class Target:
    """Where an outbound queue leads; `strict` is its id when its order must be kept."""

    topic: str
    provider_id: int
    system: str
    strict: int | None


class Outbound:
    """What the handlers of one transaction have published so far, in order.

    The engine makes one per transaction, calls `begin` before each handler call, cuts `rows` at
    a savepoint's rollback and inserts them last. Rows published under an atomic block that was
    rolled back inside the handler are no longer among `rows`.
    """

    def __init__(self) -> None:
        self.cause: Message | None = None
        self.targets: dict[str, Target] = {}
        self._rows: list[Outgoing] = []
        self._guarded: list[tuple[Outgoing, _Mark]] = []
        self._ordinals: dict[str, int] = {}

    def begin(self, message: Message | None) -> None:
        """A handler is called now for this message: ids derive from it, from 1 on."""
        self.cause = message
        self._ordinals.clear()

    @property
    def rows(self) -> list[Outgoing]:
        if self._guarded:
            self._drop_rolled_back()
        return self._rows

    def next_id(self) -> str:
        if self.cause is None:
            return str(uuid.uuid4())
        cause = _identity(self.cause)
        ordinal = self._ordinals[cause] = self._ordinals.get(cause, 0) + 1
        return str(uuid.uuid5(ID_SPACE, f"{cause}\n{ordinal}"))

    def append(self, row: Outgoing) -> None:
        self._rows.append(row)
        connection = connections[settings.SLUICE_DATABASE]
        if any(connection.savepoint_ids):
            mark = _Mark()
            connection.on_commit(mark)
            self._guarded.append((row, mark))

    def _drop_rolled_back(self) -> None:
        """Django forgets the commit hooks of a savepoint it rolls back: those rows go as well."""
        hooks = connections[settings.SLUICE_DATABASE].run_on_commit
        alive = {id(hook[1]) for hook in hooks}
        gone = {id(row) for row, mark in self._guarded if id(mark) not in alive}
        self._guarded = [pair for pair in self._guarded if id(pair[0]) not in gone]
        self._rows[:] = [row for row in self._rows if id(row) not in gone]


def _identity(message: Message) -> str:
    """What no other consumed message has, and this one has at every try and after every edit.

    Its first position: a partner may use an id for several messages. And its id: a cluster that
    lost its last records gives their offsets away again.
    """
    place = f"{message.topic_uuid}\n{message.partition}\n{message.offset}"
    return f"{place}\n{message.message_id}"


class _Mark:
    """A commit hook that does nothing; while Django keeps it, its savepoint stands."""

    def __call__(self) -> None:
        return


current: ContextVar[Outbound | None] = ContextVar("sluice_outbound", default=None)


def publish(
    queue: str,
    payload: object,
    *,
    key: str | bytes | None = None,
    interface: str | None = None,
    headers: GivenHeaders = (),
    envelope: bool = True,
) -> str:
    """Send `payload` to an outbound queue, if and only if this transaction commits.

    `payload`: anything JSON can hold (Decimal stays exact, dates become ISO text), an lxml
    element, or text or bytes that are JSON or XML already; None is a tombstone. `interface`
    names the message type, by default as the queue. Without `envelope` the bare payload is
    sent, its facts in headers. Returns the message's id; inside a handler it derives from the
    consumed message, so a repetition has the same id. Raises UnknownQueueError, and ValueError
    for a payload that cannot be written.
    """
    outbound = current.get()
    target = _target(queue) if outbound is None else _remembered(outbound, queue)
    message_id = str(uuid.uuid4()) if outbound is None else outbound.next_id()
    name = interface or queue
    row = Outgoing(
        topic=target.topic,
        value=_value(payload, (target, name, message_id), wrapped=envelope),
        key=key.encode() if isinstance(key, str) else key,
        headers=_headers(headers, name, message_id),
        provider_id=target.provider_id,
        message_id=message_id,
        strict_queue=target.strict,
    )
    if outbound is None:
        from integration.store import outbox  # noqa: PLC0415 - as below

        outbox.insert([row])
    else:
        outbound.append(row)
    return message_id


@contextmanager
def caused_by(message: Message) -> Iterator[None]:
    """Inside a batch handler: what is published in the block derives its ids from this message.

    Without it ids derive from the batch's first message, and another batching after a restore
    of the database gives other ids.
    """
    outbound = current.get()
    if outbound is None:
        yield
        return
    before, outbound.cause = outbound.cause, message
    try:
        yield
    finally:
        outbound.cause = before


def _remembered(outbound: Outbound, queue: str) -> Target:
    target = outbound.targets.get(queue)
    if target is None:
        target = outbound.targets[queue] = _target(queue)
    return target


def _target(name: str) -> Target:
    # Authors may import this module where Django's models are not loaded yet.
    from integration.models import Queue  # noqa: PLC0415 - see above

    rows = Queue.objects.using(settings.SLUICE_DATABASE).select_related("system")
    row = rows.filter(name=name, direction=Queue.Direction.OUTBOUND).first()
    if row is None:
        raise UnknownQueueError(name)
    system = "" if row.system is None else row.system.name
    return Target(row.topic, row.provider_id, system, row.pk if row.is_sequential else None)


def _value(payload: object, facts: tuple[Target, str, str], *, wrapped: bool) -> bytes | None:
    if payload is None:
        return None
    text = _text(payload)
    if not wrapped:
        return text.encode() if isinstance(text, str) else text
    target, interface, message_id = facts
    message = envelopes.Outgoing(
        interface=interface,
        sender=settings.SLUICE_DEPLOYMENT,
        destination=target.system,
        topic=target.topic,
        message_id=message_id,
        payload=text,
    )
    return envelopes.write(message)


def _text(payload: Any) -> str | bytes:  # noqa: ANN401 - what an author hands over
    if isinstance(payload, str | bytes):
        return payload
    if isinstance(payload, etree._Element):  # noqa: SLF001 - lxml's only name for it
        return etree.tostring(payload, encoding="unicode")
    return encode(payload)


def _headers(given: GivenHeaders, interface: str, message_id: str) -> Headers:
    """The author's headers, and ours in place of any of the same names."""
    ours = {
        MESSAGE_ID: message_id.encode(),
        INTERFACE: interface.encode(),
        SENDER: str(settings.SLUICE_DEPLOYMENT).encode(),
    }
    pairs = given.items() if isinstance(given, Mapping) else given
    kept = [(name, _bytes(value)) for name, value in pairs if name.lower() not in ours]
    return [*kept, *ours.items()]


def _bytes(value: str | bytes | None) -> bytes | None:
    return value.encode() if isinstance(value, str) else value
