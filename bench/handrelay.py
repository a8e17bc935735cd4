"""The loop that a careful developer would write to send an outbox to Kafka, without Sluice.

It reads the oldest waiting rows, produces them in one Kafka transaction and marks them. It never
finds out what became of a transaction whose answer it did not get: after a crash it sends again.
"""

import argparse
import base64
import os
import time
from typing import Any, Final

import psycopg
from confluent_kafka import KafkaError, Message

from bench import statements, traffic
from bench.cpu import seconds_of

BATCH: Final = 5_000
_DUE: Final = (
    "SELECT id, topic, key, value, headers FROM integration_outboxrow "
    "WHERE provider_id = %s AND shard = 0 AND state = 'PENDING' AND not_before IS NULL "
    "ORDER BY id LIMIT %s"
)
_MARK: Final = (
    "UPDATE integration_outboxrow SET state = 'PUBLISHED', published_at = clock_timestamp() "
    "WHERE id = ANY(%s)"
)


def main() -> None:
    """Send until nothing waits; everything it did is in the database."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("provider", type=int)
    options = parser.parse_args()
    producer = traffic.producer(
        os.environ["SLUICE_KAFKA_BOOTSTRAP"],
        **{"transactional.id": "bench-handrelay", "linger.ms": 5, "retry.backoff.ms": 1},
    )
    producer.init_transactions(30)
    failures: list[KafkaError] = []

    def reported(error: KafkaError | None, _: Message) -> None:
        if error is not None:
            failures.append(error)

    began = time.process_time()
    with psycopg.connect(os.environ["SLUICE_DATABASE_URL"]) as session:
        while rows := session.execute(_DUE, [options.provider, BATCH]).fetchall():
            producer.begin_transaction()
            for _, topic, key, value, headers in rows:
                producer.produce(topic, value, key, headers=_decoded(headers), on_delivery=reported)
                producer.poll(0)
            producer.flush(30)
            if failures:
                raise RuntimeError(str(failures[0]))
            producer.commit_transaction(30)
            session.execute(_MARK, [[row[0] for row in rows]])
            session.commit()
        used = time.process_time() - began, seconds_of(session.info.backend_pid)
        session.execute(statements.NOTE_CPU, used)


def _decoded(headers: list[list[Any]]) -> list[tuple[str, str | bytes | None]]:
    return [(name, None if text is None else base64.b64decode(text)) for name, text in headers]


if __name__ == "__main__":
    main()
