"""The forms a partner sends a document in: JSON or XML, bare with headers or in the envelope."""

import uuid
from random import Random
from typing import Final, NamedTuple

from lxml import etree

from integration import envelope
from integration.documents.exact_json import encode
from integration.values import Headers
from sample import names
from sample.documents import Fields

OBJECT: Final = {
    names.ASSET: "ASSET",
    names.ORDER: "PO",
    names.METER: "METERDATA",
    names.LOCATION: "LOCATIONS",
    names.LEVEL: "STOCK",
}
# Fields that name a document, and so its record's key.
IDENTIFIERS: Final = ("ponum", "assetnum", "location", "wonum", "itemnum")
USERS: Final = ("wilson", "maxadmin", "mueller")


class Sent(NamedTuple):
    """One record for Kafka. `why` says what is wrong with it; empty when nothing is."""

    queue: str
    key: bytes | None
    value: bytes | None
    headers: Headers
    why: str = ""


def send(queue: str, interface: str, fields: Fields, random: Random, why: str = "") -> Sent:
    """The document in one of the forms, chosen at random."""
    key = next((str(fields[name]).encode() for name in IDENTIFIERS if fields.get(name)), None)
    # Stored documents are found by JSON paths, so locations come as JSON only.
    as_xml = interface != names.LOCATION and random.random() < 0.4
    text = to_xml(interface, fields) if as_xml else encode(fields)
    if random.random() < 0.3:
        return bare(queue, interface, text, random, why)._replace(key=key)
    compress = True if random.random() < 0.5 else None
    return Sent(queue, key, wrapped(queue, interface, text, compress), (), why)


def as_json(queue: str, interface: str, fields: Fields, why: str = "") -> Sent:
    """The document as JSON in the envelope: one edit can set a path in many of them."""
    key = next((str(fields[name]).encode() for name in IDENTIFIERS if fields.get(name)), None)
    return Sent(queue, key, wrapped(queue, interface, encode(fields), None), (), why)


def bare(queue: str, interface: str, text: str, random: Random, why: str = "") -> Sent:
    """The payload as it is, with the facts about it in headers."""
    headers = [
        ("sluice-interface", interface.encode()),
        ("sluice-sender", names.SENDERS[queue].encode()),
        ("sluice-message-id", str(uuid.uuid4()).encode()),
        ("sluice-user", random.choice(USERS).encode()),
    ]
    return Sent(queue, None, text.encode(), headers, why)


def wrapped(queue: str, interface: str, text: str, compress: bool | None) -> bytes:
    """The founding envelope around the payload."""
    message = envelope.Outgoing(
        interface=interface,
        sender=names.SENDERS[queue],
        destination="sluice",
        topic=names.TOPICS[queue],
        message_id=str(uuid.uuid4()),
        payload=text,
    )
    return envelope.write(message, compress=compress)


def to_xml(interface: str, fields: Fields) -> str:
    """`<MXASSET><ASSET>…</ASSET></MXASSET>`, lists as repeated elements."""
    root = etree.Element(interface.removesuffix("Interface"))
    _fill(etree.SubElement(root, OBJECT.get(interface, "OBJECT")), fields)
    return etree.tostring(root, encoding="unicode")


def _fill(parent: etree._Element, fields: Fields) -> None:
    for name, value in fields.items():
        for item in value if isinstance(value, list) else [value]:
            child = etree.SubElement(parent, name.upper())
            if isinstance(item, dict):
                _fill(child, item)
            else:
                child.text = str(item)
