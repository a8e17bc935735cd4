"""Forwarding: each message of a queue becomes a record of another topic, in the same commit."""

from collections.abc import Iterable, Sequence
from typing import Final

from integration.delivery.reading import COPY_HEADER, DEPLOYMENT, DIGEST
from integration.delivery.snapshot import Forward
from integration.documents.exact_json import encode
from integration.documents.refusals import permanent
from integration.endpoint_types.forwards import place_of
from integration.endpoint_types.kafka.properties import (
    AS_IT_IS,
    BY_FUNCTION,
    NEW_KEY,
    NO_KEY,
    KafkaProperties,
)
from integration.endpoints.codes import EndpointCode
from integration.endpoints.outbound import outbound_of
from integration.endpoints.properties import read
from integration.endpoints.registry import functions
from integration.endpoints.templates import FieldMissingError, Fields, Template
from integration.handlers.databases import guarded
from integration.handlers.failures import Applied, Forwarded, Verdict
from integration.handlers.outbound import current
from integration.handlers.outgoing import MESSAGE_ID
from integration.handlers.registry import Registration
from integration.jms_headers import ENTRY_TYPES, FLAW
from integration.message import Message
from integration.models import Endpoint, Provider, Queue
from integration.policy.failure import Failure
from integration.policy.forwards import TRAIL, goes_round, onward, trail_of
from integration.values import Headers, Outgoing

# Of copies of failures, and of failures themselves: another reader would take the record for one.
_LEFT_OUT: Final = frozenset({TRAIL, MESSAGE_ID, COPY_HEADER, DEPLOYMENT, DIGEST, FLAW})


def forward_of(endpoint: Endpoint, queue: Queue) -> Forward:
    """What forwards the messages of this queue to the topic of its endpoint, or why nothing can."""
    try:
        properties = read(endpoint.endpoint_type, endpoint.properties, {})
    except ValueError as problem:
        return _unusable(endpoint, str(problem))
    assert isinstance(properties, KafkaProperties)  # noqa: S101 - registered for these
    provider = Provider.objects.filter(name=properties.provider).first()
    if provider is None:
        return _unusable(endpoint, f"There is no provider {properties.provider}.")
    if provider.is_jms:
        return _unusable(endpoint, f"{provider} is a JMS broker, which has no topics of Kafka.")
    name = properties.function
    if properties.content == BY_FUNCTION and functions.get(name) is None:
        return _unusable(endpoint, f"No function {name} is installed on this worker.")
    strict = _strict_queue(provider, properties.topic, queue)
    made = Forwarder(properties, provider.pk, strict, place_of(queue.name))
    return Forward(
        taker=guarded(made.registration(endpoint)),
        is_parsed=made.is_parsed,
        mark=(provider.pk, strict),
    )


def _unusable(endpoint: Endpoint, why: str) -> Forward:
    return Forward(None, problem=f"The endpoint {endpoint.name} cannot be used: {why}")


def _strict_queue(provider: Provider, topic: str, queue: Queue) -> int | None:
    """Return whose order the records keep: that of a sequential queue of the topic, or its own."""
    there = Queue.objects.filter(
        provider=provider,
        topic=topic,
        direction=Queue.Direction.OUTBOUND,
        kind=Queue.Kind.SEQUENTIAL,
    )
    own = queue.pk if queue.is_sequential else None
    return there.values_list("pk", flat=True).first() or own


class Forwarder:
    """The handler of a queue that forwards: it writes to the outbox of its transaction only."""

    def __init__(
        self, properties: KafkaProperties, provider_id: int, strict: int | None, place: str
    ) -> None:
        self._properties = properties
        self._provider_id = provider_id
        self._strict = strict
        self._place = place
        self._fields = {name: Template(text) for name, text in properties.fields.items()}
        self._key = Template(properties.key)

    @property
    def is_parsed(self) -> bool:
        """Return whether anything of a message's content is asked for."""
        is_read = self._properties.content != AS_IT_IS
        return is_read or self._properties.key_from == NEW_KEY

    def registration(self, endpoint: Endpoint) -> Registration:
        """Itself as the handler of every message; a function is called for one at a time."""
        is_single = self._properties.content == BY_FUNCTION
        return Registration(
            interface="",
            call=self.take if is_single else self.take_all,
            batch=not is_single,
            isolated=False,
            at_least_once=False,
            origin=f"endpoint {endpoint.name}",
        )

    def take_all(self, messages: Sequence[Message]) -> list[Verdict | Forwarded]:
        return [self.take(message) for message in messages]

    def take(self, message: Message) -> Verdict | Forwarded:
        """Write the record for one message, or say why there is none."""
        trail = trail_of(message.headers)
        if why := goes_round(trail, self._place):
            return permanent(why, code=EndpointCode.FORWARD_LOOP)
        try:
            made = self._made(message)
            key = self._key_of(message)
        except FieldMissingError as missing:
            return permanent(missing.answer.text, code=missing.answer.code)
        if not (made is None or isinstance(made, bytes)):
            return made
        outbound = current.get()
        assert outbound is not None  # noqa: S101 - handlers are called within a transaction
        outbound.append(self._record(message, made, key, trail))
        return Forwarded()

    def _record(
        self, message: Message, value: bytes | None, key: bytes | None, trail: Sequence[str]
    ) -> Outgoing:
        properties = self._properties
        return Outgoing(
            topic=properties.topic,
            value=value,
            key=key,
            headers=[
                *(self._kept(message.headers) if properties.keep_headers else ()),
                (MESSAGE_ID, message.message_id.encode()),
                (TRAIL, onward(trail, self._place).encode()),
            ],
            provider_id=self._provider_id,
            message_id=message.message_id,
            strict_queue=self._strict,
            timestamp_ms=message.record.timestamp_ms if properties.keep_timestamp else None,
        )

    def _made(self, message: Message) -> bytes | Applied | Failure | None:
        """The value of the new record; a tombstone stays one."""
        if message.record.value is None or self._properties.content == AS_IT_IS:
            return message.record.value
        if self._properties.content == BY_FUNCTION:
            return self._returned(message)
        fields = Fields(outbound_of(message))
        values = {name: template.value(fields) for name, template in self._fields.items()}
        return encode(values).encode()

    def _returned(self, message: Message) -> bytes | Applied | Failure:
        name = self._properties.function
        function = functions.get(name)
        # Looked for when the queue's configuration was read; what is installed stays.
        answer = None if function is None else function(outbound_of(message))
        match answer:
            case bytes():
                return answer
            case str():
                return answer.encode()
            case dict() | list():
                return encode(answer).encode()
            case Applied() | Failure():
                return answer
            case _:
                what = type(answer).__name__
                text = (
                    f"{name} returned {what}. It returns what is to be written (bytes, a text, or "
                    "an object or array for JSON), Applied() where nothing is, or a Failure."
                )
                return permanent(text, code=EndpointCode.FUNCTION_ANSWER)

    def _key_of(self, message: Message) -> bytes | None:
        if self._properties.key_from == NO_KEY:
            return None
        if self._properties.key_from != NEW_KEY:
            return message.key
        return self._key.filled(Fields(outbound_of(message))).encode()

    def _kept(self, headers: Iterable[tuple[str, bytes | None]]) -> Headers:
        is_same = self._properties.content == AS_IT_IS
        # Types of entries are those of the content that came.
        left_out = _LEFT_OUT if is_same else _LEFT_OUT | {ENTRY_TYPES}
        return [(name, value) for name, value in headers if name not in left_out]
