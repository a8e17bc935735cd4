"""The loop that one would write for several partitions and two statements, without Sluice.

It takes what comes of all partitions together: one transaction for each 500 messages, with an
upsert, a row of history and a tracking row for each message, and the position of every partition.
"""

import os
import sys
import time
from collections.abc import Sequence
from typing import Any, Final

import psycopg
from confluent_kafka import Consumer, KafkaException, Message, TopicPartition

from bench import statements
from bench.cpu import seconds_of
from bench.handwritten import (
    BATCH,
    QUEUE_ID,
    WAIT_SECONDS,
    Session,
    consumer_settings,
    parse,
    text_of,
    upsert_all,
)
from bench.workload import row_of

TRACK_END: Final = "\tBenchHistory\tAPPLIED\n"


class Loop:
    """One consumer of all partitions, and one session."""

    def __init__(self, session: Session, topic: str, partitions: int) -> None:
        self.session, self.cursor, self.topic = session, session.cursor(), topic
        self.positions = dict.fromkeys(range(partitions), 0)
        # The name of a place is that of a topic of one partition elsewhere.
        self.places = [f"{topic}-{partition}" for partition in self.positions]
        places = [(place, 0) for place in self.places]
        self.cursor.executemany("INSERT INTO bench_position VALUES (%s, %s)", places)
        session.commit()
        self.consumer = Consumer(consumer_settings())
        self.consumer.assign([TopicPartition(topic, *at) for at in self.positions.items()])

    def run(self, count: int) -> None:
        """Consume so many messages."""
        while sum(self.positions.values()) < count:
            messages = self.consumer.consume(BATCH, WAIT_SECONDS)
            for message in messages:
                if message.error() is not None:
                    raise KafkaException(message.error())
            if messages:
                self._settle(messages)
        self.consumer.close()

    def _settle(self, messages: Sequence[Message]) -> None:
        newest: dict[str, tuple[Any, ...]] = {}
        history, tracks, ends = [], [], {}
        for message in messages:
            partition: int = message.partition()  # type: ignore[assignment] # one without an error
            offset: int = message.offset()  # type: ignore[assignment] # likewise
            body = parse(text_of(message))
            newest[body["assetnum"]] = (*row_of(body), 0, offset)
            history.append((self.topic, body["seq"]))
            name = f"bench~{self.topic}~{partition}~{offset}"
            tracks.append(f"{QUEUE_ID}\t{partition}\t{offset}\t0\t{name}{TRACK_END}")
            ends[partition] = offset + 1
        upsert_all(self.cursor, newest.values())
        with self.cursor.copy(statements.COPY_EFFECTS) as copy:
            for row in history:
                copy.write_row(row)
        with self.cursor.copy(statements.COPY_TRACKS) as copy:
            copy.write("".join(tracks))
        self._commit(ends)

    def _commit(self, ends: dict[int, int]) -> None:
        """Move the positions in the same transaction; somebody else's move undoes the batch."""
        for partition, end in ends.items():
            moved = end, self.places[partition], self.positions[partition]
            self.cursor.execute(statements.MOVE_POSITION, moved)
            if self.cursor.rowcount != 1:
                raise RuntimeError("the position was moved by somebody else")
        self.session.commit()
        self.positions |= ends


def main() -> None:
    """Consume the topic, of so many partitions and messages; what it took is noted."""
    topic, partitions, count = sys.argv[1], int(sys.argv[2]), int(sys.argv[3])
    # What the interpreter and the imports took is not the loop's.
    began = time.process_time()
    with psycopg.connect(os.environ["SLUICE_DATABASE_URL"]) as session:
        Loop(session, topic, partitions).run(count)
        used = time.process_time() - began, seconds_of(session.info.backend_pid)
        session.execute(statements.NOTE_CPU, used)


if __name__ == "__main__":
    main()
