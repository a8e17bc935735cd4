"""The properties of an endpoint that is a queue or topic of a JMS broker, over AMQP 1.0."""

import re
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, ClassVar, Final

from integration.endpoint_types import checks
from integration.endpoints.declared import (
    FIELDS,
    Properties,
    Shape,
    at_once,
    declare,
    part,
    private_network,
    seconds,
    secret,
)
from integration.policy.forwards import TRAIL_PROPERTY

QUEUE: Final = "queue"
TOPIC: Final = "topic"
AS_TEXT: Final = "text"
AS_BYTES: Final = "bytes"
PLAIN: Final = "none"
TLS: Final = "tls"
_NAME: Final = re.compile(r"[A-Za-z_$][A-Za-z0-9_$.-]{0,99}", re.ASCII)


def _property(value: str) -> str:
    if value == TRAIL_PROPERTY:
        return "must not be the one that tells which forwards a message came by"
    return "" if _NAME.fullmatch(value) else "must be the name of a property"


def _address(value: str) -> str:
    parts = value.split(".")
    return "must be one queue or topic, without * and #" if {"*", "#"} & set(parts) else ""


def _properties(value: Mapping[str, str]) -> str:
    mistake = next((f"{t} (“{name[:80]}”)" for name in value if (t := _property(name))), "")
    return f"has a name that {mistake}" if mistake else ""


@dataclass(frozen=True, slots=True, kw_only=True)
class AmqpProperties(Properties):
    """A message for each message."""

    label: ClassVar[str] = "JMS queue or topic (AMQP 1.0)"
    about: ClassVar[str] = (
        "A queue or topic of a message broker that speaks AMQP 1.0, such as ActiveMQ Artemis; "
        "JMS clients receive from it."
    )
    repeats: ClassVar[str] = (
        "Switch it on only when the broker drops repeats of the property with the message id, "
        "as Artemis does, or the receiver does."
    )
    parts = (
        part(
            "Broker",
            "host port security username password ca_certificate client_certificate client_key "
            "private_network",
        ),
        part("Destination", "address_kind address"),
        part(
            "Message",
            "restores body subject message_properties duplicate_property key_is_group priority "
            "expires_seconds correlation_id reply_to",
        ),
        part("Limits", "at_once connect_seconds answer_seconds"),
    )
    is_at_jms: ClassVar[bool] = True
    as_it_is = "restores"
    sends_id_by = ("duplicate_property", "_AMQ_DUPL_ID")
    secrets_go_by = ("host", "port", "security", "username", "ca_certificate")

    host: str = declare("Host", is_needed=True, check=checks.host)
    port: int = declare("Port", 5672, shape=Shape.NUMBER, least=1, most=65_535, is_whole=True)
    security: str = declare(
        "Encryption",
        PLAIN,
        shape=Shape.CHOICE,
        help="TLS checks the broker's certificate and name; its port is usually 5671.",
        choices=((PLAIN, "None"), (TLS, "TLS")),
    )
    username: str = declare("User", help="Empty: without a login.")
    ca_certificate: str = declare(
        "CA certificates",
        shape=Shape.PEM,
        help="PEM. Empty: those that this machine trusts.",
        only=("security", (TLS,)),
    )
    client_certificate: str = declare(
        "Our certificate", shape=Shape.PEM, help="PEM.", only=("security", (TLS,))
    )
    private_network: bool = private_network()
    address_kind: str = declare(
        "Kind of destination",
        QUEUE,
        shape=Shape.CHOICE,
        help="A queue hands each message to one receiver, a topic to all who subscribe.",
        choices=((QUEUE, "Queue"), (TOPIC, "Topic")),
    )
    address: str = declare(
        "Destination", help="Its name, as the broker has it.", is_needed=True, check=_address
    )
    restores: bool = declare(
        "Give back what JMS had",
        False,
        shape=Shape.FLAG,
        help="Of messages that came from a JMS broker: kind, headers, properties and entries of "
        "maps and streams with their types, as the record's headers tell them. Payloads are sent "
        "whatever is in them.",
    )
    body: str = declare(
        "Body",
        AS_TEXT,
        shape=Shape.CHOICE,
        help="A payload that is no UTF-8 text is refused as text, and held.",
        choices=((AS_TEXT, "A text (TextMessage)"), (AS_BYTES, "Bytes (BytesMessage)")),
    )
    subject: str = declare("JMS type", shape=Shape.TEMPLATE, help=f"With {FIELDS}. Empty: none.")
    message_properties: Mapping[str, str] = declare(
        "Properties",
        {},
        shape=Shape.PAIRS,
        help="One NAME = VALUE a line, with the same fields. Receivers select by them.",
        check=_properties,
    )
    duplicate_property: str = declare(
        "Property with the message id",
        "_AMQ_DUPL_ID",
        help="Artemis drops a message whose value it had lately.",
        check=_property,
    )
    key_is_group: bool = declare(
        "Group messages by key",
        False,
        shape=Shape.FLAG,
        help="The key is sent as the message group: one receiver gets all of it, in order.",
    )
    priority: int = declare(
        "Priority", 4, shape=Shape.NUMBER, help="0 to 9.", least=0, most=9, is_whole=True
    )
    expires_seconds: float = declare(
        "Seconds until it expires",
        0,
        shape=Shape.NUMBER,
        help="0: never. After that the broker drops it, or moves it to its expiry queue.",
        least=0,
        most=4_294_967,
    )
    correlation_id: str = declare(
        "Correlation id", shape=Shape.TEMPLATE, help="With the same fields. Empty: none."
    )
    reply_to: str = declare("Reply to", help="The address that an answer is to go to. Empty: none.")
    at_once: int = at_once("How many messages are sent before the broker's answers are awaited.")
    connect_seconds: float = seconds(
        "Seconds to connect", 5.0, "No connection within them counts as an outage."
    )
    answer_seconds: float = seconds(
        "Seconds for an answer", 30.0, "Until the broker has said that it keeps the messages."
    )
    password: str = secret("Password")
    client_key: str = secret("Key of our certificate", shape=Shape.PEM, only=("security", (TLS,)))

    @classmethod
    def conflicts(cls, values: Mapping[str, Any]) -> dict[str, str]:
        own = values.get("duplicate_property", "_AMQ_DUPL_ID")
        if own in values.get("message_properties", {}):
            sentence = f"{own} is filled with the message id; take it off message_properties."
            return {"message_properties": sentence}
        return {}
