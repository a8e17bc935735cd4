"""Offsets and records of a transaction that is none: Kafka never ends them.

Brokers are left with them when they die at a bad moment. It takes requests that no client makes, so
they are written here byte by byte: InitProducerId and TxnOffsetCommit, both of version 0.
"""

import socket
import struct
import time
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Final

from confluent_kafka.admin import (
    AdminClient,
    AlterConfigOpType,
    ConfigEntry,
    ConfigResource,
    ResourceType,
)

from tests.support.raw_produce import Owner, produce

INIT_PRODUCER_ID: Final = 22
TXN_OFFSET_COMMIT: Final = 28
# The one before is not quite over.
CONCURRENT_TRANSACTIONS: Final = 51
INVALID_TXN_STATE: Final = 48
VERIFIES: Final = "transaction.partition.verification.enable"
TIMEOUT_MS: Final = 60_000


def leave_stray(bootstrap: str, transactional_id: str, topic: str, text: str) -> None:
    """Leave one in the group that is called as the transactional id, at partition 0 of a topic."""
    own = _text(transactional_id)
    producer, epoch = _begun(bootstrap, transactional_id)
    place = struct.pack(">iiq", 1, 0, 7) + _text(text)
    topics = struct.pack(">i", 1) + _text(topic) + place
    who = own + own + struct.pack(">qh", producer, epoch)
    with _unverified(bootstrap):
        deadline, error = time.monotonic() + 10, INVALID_TXN_STATE
        # What was configured takes effect a moment later.
        while error == INVALID_TXN_STATE and time.monotonic() < deadline:
            (error,) = struct.unpack(">h", _ask(bootstrap, TXN_OFFSET_COMMIT, who + topics)[-2:])
    assert error == 0, error


def leave_records(bootstrap: str, transactional_id: str, topic: str, value: bytes) -> None:
    """Leave a record in partition 0 of a topic."""
    owner = Owner(transactional_id, *_begun(bootstrap, transactional_id))
    port = int(bootstrap.rpartition(":")[2])
    with _unverified(bootstrap):
        # What was configured takes effect a moment later.
        for left in reversed(range(100)):
            try:
                produce(port, topic, [(None, value, [])], owner)
            except AssertionError:
                if not left:
                    raise
                time.sleep(0.1)
            else:
                return


def _begun(bootstrap: str, transactional_id: str) -> tuple[int, int]:
    own, error = _text(transactional_id), CONCURRENT_TRANSACTIONS
    while error == CONCURRENT_TRANSACTIONS:
        answer = _ask(bootstrap, INIT_PRODUCER_ID, own + struct.pack(">i", TIMEOUT_MS))
        error, producer, epoch = struct.unpack(">4xhqh", answer[:16])
    assert error == 0, error
    return producer, epoch


@contextmanager
def _unverified(bootstrap: str) -> Iterator[None]:
    """Let the broker not ask whether there is such a transaction, as those before 3.6 did not."""
    admin = AdminClient({"bootstrap.servers": bootstrap})
    [name] = map(str, admin.list_topics(timeout=10).brokers)

    def verify(value: str) -> None:
        wanted = ConfigEntry(VERIFIES, value, incremental_operation=AlterConfigOpType.SET)
        broker = ConfigResource(ResourceType.BROKER, name, incremental_configs=[wanted])
        admin.incremental_alter_configs([broker])[broker].result(10)

    verify("false")
    try:
        yield
    finally:
        verify("true")


def _ask(bootstrap: str, key: int, body: bytes) -> bytes:
    host, _, port = bootstrap.rpartition(":")
    request = struct.pack(">hhi", key, 0, 1) + _text("stray") + body
    with socket.create_connection((host, int(port)), timeout=10) as wire:
        wire.sendall(struct.pack(">i", len(request)) + request)
        whole = wire.makefile("rb")
        (size,) = struct.unpack(">i", whole.read(4))
        answer = whole.read(size)
    return answer[4:]


def _text(text: str) -> bytes:
    return struct.pack(">h", len(text.encode())) + text.encode()
