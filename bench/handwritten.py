"""The loops that a careful developer would write for one workload, without Sluice.

Each consumes one partition into PostgreSQL with the position in the same transaction, parses by
Sluice's rules (exact numbers, no duplicate keys, no NaN) and writes the same rows with the same
statements. None of them retries, tells anybody, or survives anything but a restart.
"""

import argparse
import json
import os
import time
from collections.abc import Callable, Iterable
from decimal import Decimal
from typing import Any, Final

import psycopg
from confluent_kafka import Consumer, KafkaException, Message, TopicPartition

from bench import statements
from bench.cpu import seconds_of
from bench.workload import row_of

BATCH: Final = 500
WAIT_SECONDS: Final = 0.1
QUEUE_ID: Final = 1

Session = psycopg.Connection[tuple[Any, ...]]
Settle = Callable[["Loop", list[Message]], None]


def _unique(pairs: list[tuple[str, object]]) -> dict[str, object]:
    members = dict(pairs)
    if len(members) != len(pairs):
        raise ValueError("a key is there twice")
    return members


def _refuse(name: str) -> object:
    raise ValueError(f"{name} is not a JSON number")


parse: Final[Callable[[str], Any]] = json.JSONDecoder(
    object_pairs_hook=_unique, parse_float=Decimal, parse_constant=_refuse
).decode


def consumer_settings() -> dict[str, str | int | bool]:
    return {
        "bootstrap.servers": os.environ["SLUICE_KAFKA_BOOTSTRAP"],
        "group.id": "bench-handwritten",
        "enable.auto.commit": False,
        "enable.auto.offset.store": False,
        "auto.offset.reset": "error",
        "isolation.level": "read_committed",
        "fetch.wait.max.ms": 50,
        "fetch.queue.backoff.ms": 5,
        "queued.min.messages": 20_000,
    }


class Loop:
    """One consumer and one session; `settle` writes a batch, the loop moves the position."""

    def __init__(self, session: Session, topic: str) -> None:
        self.session = session
        self.cursor = session.cursor()
        self.topic = topic
        self.next_offset = self._stored()
        self.consumer = Consumer(consumer_settings())
        self.consumer.assign([TopicPartition(topic, 0, self.next_offset)])

    def _stored(self) -> int:
        self.cursor.execute(
            "INSERT INTO bench_position VALUES (%s, 0) ON CONFLICT (topic) DO NOTHING",
            [self.topic],
        )
        self.cursor.execute("SELECT next_offset FROM bench_position WHERE topic = %s", [self.topic])
        row = self.cursor.fetchone()
        self.session.commit()
        return int(row[0]) if row else 0

    def run(self, until_offset: int, settle: Settle, size: int) -> None:
        """Consume up to the offset, one transaction for each `size` messages."""
        while self.next_offset < until_offset:
            fetched = self.consumer.consume(BATCH, WAIT_SECONDS)
            for message in fetched:
                if message.error() is not None:
                    raise KafkaException(message.error())
            for start in range(0, len(fetched), size):
                settle(self, fetched[start : start + size])
        self.consumer.close()

    def track(self, interface: str, offsets: list[int]) -> None:
        """One tracking row per message that went through, by COPY."""
        head, tail = f"{QUEUE_ID}\t0\t", f"\t{interface}\tAPPLIED\n"
        identity = f"\t0\tbench~{self.topic}~0~"
        lines = [f"{head}{offset}{identity}{offset}{tail}" for offset in offsets]
        with self.cursor.copy(statements.COPY_TRACKS) as copy:
            copy.write("".join(lines))

    def commit(self, next_offset: int) -> None:
        """Move the position in the same transaction; somebody else's move undoes the batch."""
        self.cursor.execute(statements.MOVE_POSITION, (next_offset, self.topic, self.next_offset))
        if self.cursor.rowcount != 1:
            raise RuntimeError("the position was moved by somebody else")
        self.session.commit()
        self.next_offset = next_offset


def settle_batch(loop: Loop, messages: list[Message]) -> None:
    """One upsert for the whole batch, the newest message of each key."""
    newest: dict[str, tuple[Any, ...]] = {}
    offsets = []
    for message in messages:
        offset: int = message.offset()  # type: ignore[assignment] # a message without an error
        body = parse(text_of(message))
        newest[body["assetnum"]] = (*row_of(body), 0, offset)
        offsets.append(offset)
    upsert_all(loop.cursor, newest.values())
    loop.track("BenchBatch", offsets)
    loop.commit(offsets[-1] + 1)


def upsert_all(cursor: psycopg.Cursor[tuple[Any, ...]], rows: Iterable[tuple[Any, ...]]) -> None:
    cursor.execute(statements.MAKE_STAGE)
    with cursor.copy(statements.COPY_STAGE) as stage:
        for row in rows:
            stage.write_row(row)
    cursor.execute(statements.UPSERT_STAGE)


def settle_each(loop: Loop, messages: list[Message]) -> None:
    """One upsert per message, one commit for all of them."""
    offsets = []
    for message in messages:
        offset: int = message.offset()  # type: ignore[assignment] # a message without an error
        _upsert(loop, parse(text_of(message)), offset)
        offsets.append(offset)
    loop.track("BenchAsset", offsets)
    loop.commit(offsets[-1] + 1)


def settle_aside(loop: Loop, messages: list[Message]) -> None:
    """A savepoint per message; what fails is set aside in a table.

    The release of one savepoint and the next one are one round trip.
    """
    cursor, good, aside = loop.cursor, [], []
    cursor.execute("SAVEPOINT one")
    for message in messages:
        offset: int = message.offset()  # type: ignore[assignment] # a message without an error
        try:
            body = parse(text_of(message))
            _upsert(loop, body, offset)
            if "fails" in body:
                raise ValueError("This try is made to fail.")  # noqa: TRY301 - as a handler would
            cursor.execute("RELEASE SAVEPOINT one; SAVEPOINT one")
        except (ValueError, psycopg.Error) as e:
            cursor.execute("ROLLBACK TO SAVEPOINT one")
            aside.append((offset, message.value(), str(e)))
        else:
            good.append(offset)
    if aside:
        cursor.executemany(statements.SET_ASIDE, aside)
    loop.track("BenchAsset", good)
    loop.commit((messages[-1].offset() or 0) + 1)


def _upsert(loop: Loop, body: Any, offset: int) -> None:
    loop.cursor.execute(statements.UPSERT_ONE, (*row_of(body), 0, offset))


def text_of(message: Message) -> str:
    value = message.value()
    if value is None:
        raise ValueError("a message without a value")
    return value.decode()


LOOPS: Final[dict[str, tuple[Settle, int]]] = {
    "batch": (settle_batch, BATCH),
    "each": (settle_each, BATCH),
    "single": (settle_each, 1),
    "aside": (settle_aside, BATCH),
}


def main() -> None:
    """Run one loop until an offset is reached; everything it did is in the database."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("loop", choices=LOOPS)
    parser.add_argument("topic")
    parser.add_argument("until_offset", type=int)
    options = parser.parse_args()
    settle, size = LOOPS[options.loop]
    # What the interpreter and the imports took is not the loop's.
    began = time.process_time()
    with psycopg.connect(os.environ["SLUICE_DATABASE_URL"]) as session:
        Loop(session, options.topic).run(options.until_offset, settle, size)
        used = time.process_time() - began, seconds_of(session.info.backend_pid)
        session.execute(statements.NOTE_CPU, used)


if __name__ == "__main__":
    main()
