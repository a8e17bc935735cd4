"""A message as JMS clients get it over AMQP 1.0, by the mapping that brokers and clients share.

The mapping is that of "AMQP JMS Mapping" (OASIS working draft): a text is one value, bytes are a
data section, and an annotation names JMS's own type.
"""

from typing import Any, Final

from cproton import PN_OVERFLOW, pn_message_encode
from proton import Message, ProtonException, byte, symbol

from integration.amqp.records import UNREADABLE
from integration.endpoint_types.amqp.properties import AS_TEXT, TOPIC, AmqpProperties
from integration.endpoint_types.amqp.restoring import (
    JAVA_OBJECT,
    body_of,
    number_of,
    properties_of,
    restore,
)
from integration.endpoint_types.forwards import place_of
from integration.endpoints.codes import EndpointCode
from integration.endpoints.port import NotDeliveredError, OutboundMessage, Refused
from integration.endpoints.templates import Fields, Template
from integration.jms_headers import JmsBody
from integration.policy.forwards import TRAIL, TRAIL_PROPERTY, goes_round, onward, trail_of
from integration.tracing.context import texts_of

JMS_TYPE: Final = symbol("x-opt-jms-msg-type")
DESTINATION: Final = symbol("x-opt-jms-dest")
BYTES_MESSAGE: Final = byte(3)
TEXT_MESSAGE: Final = byte(5)
NUL: Final = "\x00"
# AMQP counts milliseconds, and takes none of them for ever.
SHORTEST_SECONDS: Final = 0.001
LEAST_ROOM: Final = 512


class _Sized(Message):
    """A message that is written into about as much room as the last one took.

    The library begins with 16 bytes, and writes all of it anew after each doubling.
    """

    room: int = LEAST_ROOM

    def encode(self) -> bytes:
        """Raises ProtonException."""
        self._pre_encode()
        while True:
            ending, data = pn_message_encode(self._msg, self.room)
            if ending != PN_OVERFLOW:
                self._check(ending)
                self.room = max(2 * len(data), LEAST_ROOM)
                return bytes(data)
            self.room *= 2


class Writer:
    """Encodes messages as the properties say."""

    def __init__(self, properties: AmqpProperties) -> None:
        self._properties = properties
        self._subject = Template(properties.subject)
        self._correlation = Template(properties.correlation_id)
        self._own = {name: Template(text) for name, text in properties.message_properties.items()}

    def blank(self) -> Any:
        """What all messages have in common, to be filled in for one after the other.

        To make one costs a third of what it takes to write it.
        """
        own = self._properties
        return _Sized(
            durable=True,
            priority=own.priority,
            ttl=max(own.expires_seconds, SHORTEST_SECONDS) if own.expires_seconds else 0,
            address=own.address,
            reply_to=own.reply_to or None,
        )

    def encoded(self, message: OutboundMessage, blank: Any = None) -> bytes:
        """Raises FieldMissingError, NotDeliveredError. `blank` is for one thread at a time."""
        # What is restored may be anything, and would stay in it.
        made = self.blank() if blank is None or self._properties.restores else blank
        try:
            self._fill_in(made, message)
            data: bytes = made.encode()
        except (ValueError, OverflowError, ProtonException) as problem:
            raise _unwritable(f"it cannot be written: {problem}") from problem
        except RecursionError as problem:
            raise _unwritable("its body or its headers are nested too deeply") from problem
        except UNREADABLE as problem:
            # What is raised here would end the call, with all of its messages.
            raise _unwritable("a value has a type that cannot be written") from problem
        return data

    def _fill_in(self, made: Any, message: OutboundMessage) -> None:
        own, fields = self._properties, Fields(message)
        made.id = message.message_id
        made.subject = _without_nul(self._subject.filled(fields), "JMS type") or None
        made.correlation_id = self._correlation.filled(fields) or None
        has_group = own.key_is_group and message.key
        made.group_id = _without_nul(message.key, "group") if has_group else None
        made.creation_time = 0 if message.sent_at is None else message.sent_at.timestamp()
        if own.restores:
            restore(made, message.headers)
        made.properties = {
            **(properties_of(message.headers) if own.restores else {}),
            **texts_of(message.headers),
            **{name: template.filled(fields) for name, template in self._own.items()},
            own.duplicate_property: message.message_id,
            **_trail(message),
        }
        made.annotations = {DESTINATION: byte(int(own.address_kind == TOPIC))}
        self._fill_body(made, message)

    def _fill_body(self, made: Any, message: OutboundMessage) -> None:
        """Raises NotDeliveredError."""
        known = body_of(message.body, message.headers) if self._properties.restores else None
        if known is not None:
            made.body, kind, made.inferred = known
            made.content_type = JAVA_OBJECT if kind is JmsBody.OBJECT else None
            made.annotations[JMS_TYPE] = number_of(kind)
            return
        if self._properties.body == AS_TEXT:
            made.inferred, made.body, made.content_type = False, _text(message.body), None
            made.annotations[JMS_TYPE] = TEXT_MESSAGE
            return
        made.inferred, made.body = True, message.body
        content = message.content_type
        made.content_type = symbol(content) if content and NUL not in content else None
        made.annotations[JMS_TYPE] = BYTES_MESSAGE


def _trail(message: OutboundMessage) -> dict[str, str]:
    """The forwards that it came by and this one, by which whoever reads it notices a circle.

    A sample is forwarded by none. Raises NotDeliveredError for what would go round.
    """
    if not message.queue:
        return {}
    trail = trail_of([(TRAIL, message.headers.get(TRAIL, "").encode())])
    place = place_of(message.queue)
    if why := goes_round(trail, place):
        raise NotDeliveredError(Refused(code=EndpointCode.FORWARD_LOOP, text=why))
    return {TRAIL_PROPERTY: onward(trail, place)}


def _text(body: bytes) -> str:
    try:
        return body.decode()
    except UnicodeDecodeError as problem:
        text = (
            f"The payload is no UTF-8 text (at byte {problem.start:,}), and the endpoint sends "
            "texts. Send bytes, or have the message corrected."
        )
        answer = Refused(code=EndpointCode.PAYLOAD_UNREADABLE, text=text)
        raise NotDeliveredError(answer) from problem


def _without_nul(text: str, what: str) -> str:
    """The text; the library would send it up to the first NUL, as if the rest were not there."""
    if NUL in text:
        raise _unwritable(f"its {what} would hold a NUL character")
    return text


def _unwritable(why: str) -> NotDeliveredError:
    text = f"The message is none that AMQP can carry: {why}."
    return NotDeliveredError(Refused(code=EndpointCode.AMQP_UNWRITABLE, text=text))
