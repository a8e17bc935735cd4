"""For tests of handlers: one handler, one payload, one verdict; no broker, no worker.

outcome = run_handler("MXASSETInterface", {"assetnum": "P-1", "siteid": "NORTH"})
assert outcome.is_applied
"""

import inspect
import uuid
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from itertools import count
from typing import Any, Final

from django.db import DatabaseError, transaction
from lxml import etree

from integration import envelope
from integration.delivery.calling import call_batch, call_one
from integration.delivery.outcome import SUPERSEDED, Failed, Good
from integration.delivery.unit import Unit
from integration.documents.exact_json import encode
from integration.documents.refusals import permanent
from integration.errors import IntegrationError
from integration.handlers.databases import guarded
from integration.handlers.failures import Applied, Superseded, Verdict, classify
from integration.handlers.outbound import Outbound, current
from integration.handlers.registry import Registration, registry
from integration.handlers.user_proof import PROOF, proof_of
from integration.message import Arrival, Message, Origin
from integration.models import (
    EnterpriseService,
    ExternalSystem,
    Provider,
    PublishChannel,
    Queue,
)
from integration.policy.failure import Failure
from integration.store.sessions import alias, django_connection, next_arrival
from integration.store.takers import Missing, resolve
from integration.values import Outgoing, Record

Headers = Mapping[str, str | bytes | None] | Sequence[tuple[str, str | bytes | None]]
_arrivals: Final = count(1)


class NoHandlerError(IntegrationError):
    """Nothing takes messages of this interface here."""

    code = "HANDLER_MISSING"

    def __init__(self, interface: str) -> None:
        names = ", ".join(entry.interface for entry in registry) or "none"
        super().__init__(
            f"No handler for {interface!r} is installed. Registered are: {names}.",
            next_step="Check the name, and that the handler's app is in SLUICE_INTEGRATIONS.",
        )


class UnreadablePayloadError(IntegrationError):
    """The payload given to a_message() is one that the engine would not hand to any handler."""

    code = "UNREADABLE_PAYLOAD"

    def __init__(self, flaw: envelope.Flaw) -> None:
        super().__init__(f"{flaw.code}: {flaw.message}", next_step=flaw.hint)
        self.flaw = flaw


@dataclass(frozen=True, slots=True)
class Published:
    """One message a handler published, as it would reach Kafka."""

    topic: str
    message_id: str
    key: bytes | None
    headers: Mapping[str, bytes | None]
    value: bytes | None

    @property
    def interface(self) -> str:
        return (self.headers.get("sluice-interface") or b"").decode()

    @property
    def system(self) -> str:
        """The external system it is for; empty where its queue belongs to none."""
        return (self.headers.get("sluice-destination") or b"").decode()

    @property
    def body(self) -> Any:
        """The payload, out of its envelope and parsed; None for a tombstone."""
        if self.value is None:
            return None
        read = envelope.read(self.value, list(self.headers.items()))
        return None if isinstance(read, envelope.Flaw) else read.body


@dataclass(frozen=True, slots=True)
class Outcome:
    """The fate of the message: the verdict as the engine would see it, and what went out.

    After a Failure nothing the handler wrote or published is left, as in the engine.
    """

    verdict: Verdict
    published: list[Published] = field(default_factory=list)

    @property
    def is_applied(self) -> bool:
        return isinstance(self.verdict, Applied)

    @property
    def is_superseded(self) -> bool:
        return isinstance(self.verdict, Superseded)

    @property
    def failure(self) -> Failure | None:
        return self.verdict if isinstance(self.verdict, Failure) else None


def a_message(
    payload: object = None,
    *,
    interface: str = "TEST",
    headers: Headers = (),
    system: str | None = None,
    user: str | None = None,
    **facts: Any,
) -> Message:
    """Build a message as a handler gets it.

    `payload`: an object for JSON, an lxml element, the record's own text or bytes (bare or in
    an envelope), or None for a tombstone. `user` is proven to the handler: see `verified_user`;
    a header `sluice-user` is not. `facts` set further attributes, such as key, attempt,
    late, message_id or arrival; by default each message arrives after the one before. Raises
    UnreadablePayloadError.
    """
    document = None
    pairs = _headers(headers, user)
    if payload is not None:
        read = envelope.read(_bytes(payload), pairs)
        if isinstance(read, envelope.Flaw):
            raise UnreadablePayloadError(read)
        document = read
    partition, offset, key = (facts.pop(name, None) for name in ("partition", "offset", "key"))
    value = None if payload is None else _bytes(payload)
    record = Record(partition or 0, offset or 0, None, key, value, pairs)
    queue, topic = (facts.pop(name, "test") for name in ("queue", "topic"))
    named = (document.interface if document else None) or interface
    origin = Origin(named, system, queue, topic)
    message_id = (document.message_id if document else None) or str(uuid.uuid4())
    body = None if document is None else document.body
    message = Message(record, origin, message_id, body, document)
    message.arrival, message.topic_uuid = Arrival(next(_arrivals), 0), ""
    for name, value in facts.items():
        setattr(message, name, value)
    if user is not None:
        pairs.append((PROOF, _proof(message, user).encode()))
    return message


def _proof(message: Message, user: str) -> str:
    """As of a sender that may speak for this user."""
    payload = message.record.value or b""
    return proof_of(user, message.message_id, message.interface, message.origin.topic, payload)


def run_handler(
    taker: str | Callable[..., Any],
    payload: object,
    *,
    headers: Headers = (),
    system: str | None = None,
    user: str | None = None,
    **facts: Any,
) -> Outcome:
    """Hand one payload to the handler of an interface, or to a handler itself.

    Runs in a savepoint of the caller's transaction (in a transaction of its own where there is
    none): kept when applied or superseded, undone after a failure. Deferred constraints are
    checked, as the engine does before it settles. Raises NoHandlerError.
    """
    entry = _registration(taker)
    facts.setdefault("arrival", Arrival(next_arrival(), 0))
    try:
        message = a_message(
            payload, interface=entry.interface, headers=headers, system=system, user=user, **facts
        )
    except UnreadablePayloadError as e:
        return Outcome(permanent(f"{e.flaw.message} {e.flaw.hint}", e.flaw.code))
    return _run(entry, message)


def an_outbound_queue(name: str, *, topic: str | None = None) -> Queue:
    """Register what publish_to() may name: rows in the test's database, nothing a broker sees.

    They go with the test's transaction. A queue that is there already is left as it is. `topic`
    is by default the name.
    """
    # Nothing listens on port 1: a test that tried to send would fail and not reach anybody.
    provider, _ = Provider.objects.get_or_create(
        name="test", defaults={"bootstrap_servers": "127.0.0.1:1"}
    )
    facts = {
        "provider": provider,
        "topic": topic or name,
        "kind": Queue.Kind.CONTINUOUS,
        "start_from": Queue.StartFrom.END,
    }
    queue, _ = Queue.objects.get_or_create(
        name=name, direction=Queue.Direction.OUTBOUND, defaults=facts
    )
    return queue


def a_publish_channel(name: str, *systems: str, **fields: Any) -> PublishChannel:
    """Set up what publish() may name, with a target and an outbound queue for each system.

    Rows in the test's database, which go with its transaction. `fields` are those of the channel:
    format, envelope, key_path, structure.
    """
    channel, _ = PublishChannel.objects.get_or_create(name=name, defaults=fields)
    for system in systems:
        partner, _ = ExternalSystem.objects.get_or_create(name=system)
        queue = an_outbound_queue(f"{system}-out")
        channel.targets.get_or_create(system=partner, defaults={"queue": queue})
    return channel


def _run(registration: Registration, message: Message) -> Outcome:
    outbound = Outbound()
    token = current.set(outbound)
    verdict: Verdict
    try:
        with transaction.atomic(using=alias()):
            outbound.begin(message)
            verdict = _verdict(registration, message)
            rows = list(outbound.rows)
            if isinstance(verdict, Failure):
                transaction.set_rollback(True, using=alias())
    finally:
        current.reset(token)
    if isinstance(verdict, Failure):
        return Outcome(verdict)
    return Outcome(verdict, [_published(row) for row in rows])


def _verdict(registration: Registration, message: Message) -> Verdict:
    record = Record(message.partition, message.offset, None, message.key, b"", message.headers)
    unit = Unit(record, message, registration, None, message.message_id, message.interface)
    ended = _called(registration, unit)
    if isinstance(ended, Failure):
        return ended
    try:
        with django_connection().cursor() as cursor:
            cursor.execute("SET CONSTRAINTS ALL IMMEDIATE")
            cursor.execute("SET CONSTRAINTS ALL DEFERRED")
    except DatabaseError as e:
        return classify(e)
    return ended


def _called(registration: Registration, unit: Unit) -> Applied | Superseded | Failure:
    if registration.batch:
        ended = call_batch(registration.call, [unit])
        outcome = Failed(ended[1]) if isinstance(ended, tuple) else ended[0]
    else:
        outcome = call_one(unit)
    if isinstance(outcome, Failed):
        return outcome.failure
    is_late = isinstance(outcome, Good) and outcome.ended == SUPERSEDED.ended
    return Superseded() if is_late else Applied()


def _registration(taker: str | Callable[..., Any]) -> Registration:
    if isinstance(taker, str):
        row = EnterpriseService.objects.select_related("structure").filter(interface=taker).first()
        registration = resolve(taker, row)
        if isinstance(registration, Missing):
            raise NoHandlerError(taker)
        return registration
    for entry in registry:
        own = inspect.unwrap(entry.call)
        if own is taker or type(own) is taker:
            return guarded(entry)
    call = taker() if isinstance(taker, type) else taker
    name = getattr(taker, "__name__", "handler")
    return guarded(Registration("TEST", call, False, False, False, name))


def _headers(headers: Headers, user: str | None) -> list[tuple[str, bytes | None]]:
    pairs = list(headers.items() if isinstance(headers, Mapping) else headers)
    if user is not None:
        pairs.append(("sluice-user", user))
    return [(name, value.encode() if isinstance(value, str) else value) for name, value in pairs]


def _bytes(payload: object) -> bytes:
    if isinstance(payload, bytes):
        return payload
    if isinstance(payload, str):
        return payload.encode()
    if isinstance(payload, etree._Element):  # noqa: SLF001 - lxml's only name for it
        return etree.tostring(payload)
    return encode(payload).encode()


def _published(row: Outgoing) -> Published:
    return Published(row.topic, row.message_id, row.key, dict(row.headers), row.value)
