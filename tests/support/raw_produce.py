"""Writes records that no client library of ours would: headers that are no text, no transaction."""

import socket
import struct
import time
from dataclasses import dataclass

CASTAGNOLI = 0x82F63B78
PRODUCE, VERSION = 0, 3
TRANSACTIONAL = 0x10
RawRecord = tuple[bytes | None, bytes | None, list[tuple[bytes, bytes]]]


@dataclass(frozen=True, slots=True)
class Owner:
    """Whose transaction the records belong to, and how many it wrote to the partition before."""

    transactional_id: str
    producer: int
    epoch: int
    sequence: int = 0


def produce(port: int, topic: str, records: list[RawRecord], owner: Owner | None = None) -> None:
    """One batch to partition 0, in Kafka's own format, acknowledged by the broker."""
    name, made = topic.encode(), batch(records, owner)
    own = b"" if owner is None else owner.transactional_id.encode()
    head = (
        struct.pack(">hhih", PRODUCE, VERSION, 1, 3)
        + b"raw"
        + struct.pack(">h", len(own) if own else -1)
        + own
        + struct.pack(">hii", -1, 5000, 1)
    )
    body = struct.pack(">h", len(name)) + name + struct.pack(">iii", 1, 0, len(made)) + made
    with socket.create_connection(("127.0.0.1", port), timeout=5) as connection:
        connection.sendall(struct.pack(">i", len(head + body)) + head + body)
        with connection.makefile("rb") as stream:
            answer = stream.read(struct.unpack(">i", stream.read(4))[0])
    # Correlation id, one topic, its name, one partition, its number; then the error code.
    place = 4 + 4 + 2 + len(name) + 4 + 4
    assert struct.unpack_from(">h", answer, place) == (0,)


def batch(records: list[RawRecord], owner: Owner | None) -> bytes:
    now = time.time_ns() // 1_000_000
    last = len(records) - 1
    mine = (-1, -1, -1) if owner is None else (owner.producer, owner.epoch, owner.sequence)
    attributes = 0 if owner is None else TRANSACTIONAL
    body = struct.pack(">hiqqqhii", attributes, last, now, now, *mine, len(records))
    body += b"".join(record(*parts, place) for place, parts in enumerate(records))
    tail = struct.pack(">I", checksum(body)) + body
    return struct.pack(">qiib", 0, 5 + len(tail), -1, 2) + tail


def record(
    key: bytes | None, value: bytes | None, headers: list[tuple[bytes, bytes]], place: int
) -> bytes:
    body = b"\0" + number(0) + number(place) + text(key) + text(value) + number(len(headers))
    body += b"".join(text(name) + text(content) for name, content in headers)
    return number(len(body)) + body


def text(content: bytes | None) -> bytes:
    return number(-1) if content is None else number(len(content)) + content


def number(value: int) -> bytes:
    """A zigzag variable-length integer."""
    rest = (value << 1) ^ (value >> 63)
    out = bytearray()
    while rest > 0x7F:
        out.append(rest & 0x7F | 0x80)
        rest >>= 7
    return bytes([*out, rest])


def checksum(content: bytes) -> int:
    """CRC-32C, bit by bit: it is a handful of bytes."""
    found = 0xFFFFFFFF
    for byte in content:
        found ^= byte
        for _ in range(8):
            found = found >> 1 ^ (CASTAGNOLI if found & 1 else 0)
    return found ^ 0xFFFFFFFF
