"""The loop that one would write to post a topic to a partner, without Sluice.

It reads Kafka, posts each message with httpx, and commits the position after each answer. It
does not retry, keeps nothing of its calls, and cannot tell after a crash what arrived.
"""

import os
import sys
import time

import httpx
import psycopg

from bench.handwritten import BATCH, WAIT_SECONDS, Loop

NOTE_RATE = (
    "CREATE TABLE IF NOT EXISTS bench_rate (rate float8); TRUNCATE bench_rate; "
    "INSERT INTO bench_rate VALUES ({rate!r})"
)


def main() -> None:
    """Post everything up to an offset; the rate from the first commit to the last is noted."""
    topic, until_offset, address = sys.argv[1], int(sys.argv[2]), sys.argv[3]
    with (
        psycopg.connect(os.environ["SLUICE_DATABASE_URL"]) as session,
        httpx.Client(trust_env=False) as client,
    ):
        loop = Loop(session, topic)
        began = 0.0
        while loop.next_offset < until_offset:
            for message in loop.consumer.consume(BATCH, WAIT_SECONDS):
                headers = {
                    "Content-Type": "application/json",
                    "Idempotency-Key": f"{topic}~{message.offset()}",
                }
                answer = client.post(address, content=message.value(), headers=headers)
                answer.raise_for_status()
                loop.commit((message.offset() or 0) + 1)
                began = began or time.perf_counter()
        seconds = time.perf_counter() - began
        loop.consumer.close()
        session.execute(NOTE_RATE.format(rate=(until_offset - 1) / seconds).encode())
        session.commit()


if __name__ == "__main__":
    main()
