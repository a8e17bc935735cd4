"""FastStream's side: `python -m bench.peers.faststream_side each|batch`, in their environment.

As its page on acknowledgement advises for at-least-once: a consumer group, and the offset committed
once the handler has returned (NACK_ON_ERROR). BENCH_ACK=ACK_FIRST is what it does unless told so.
"""

import asyncio
import os
import sys
from typing import Any

import psycopg
from faststream import AckPolicy, FastStream
from faststream.confluent import KafkaBroker
from faststream.confluent.annotations import KafkaMessage

from bench import statements
from bench.workload import row_of

BATCH = 500

broker = KafkaBroker(os.environ["SLUICE_KAFKA_BOOTSTRAP"], logger=None)
app = FastStream(broker, logger=None)
session: psycopg.AsyncConnection[Any]
subscription: dict[str, Any] = {
    "group_id": os.environ["BENCH_GROUP"],
    "ack_policy": AckPolicy[os.environ.get("BENCH_ACK", "NACK_ON_ERROR")],
    "auto_offset_reset": "earliest",
}


@app.on_startup  # type: ignore[untyped-decorator] # its package is in another environment
async def connect() -> None:
    global session  # noqa: PLW0603 - one session for the one consumer
    session = await psycopg.AsyncConnection.connect(
        os.environ["SLUICE_DATABASE_URL"], autocommit=True
    )


async def each(body: dict[str, Any], message: KafkaMessage) -> None:
    """One transaction for one message."""
    async with session.transaction(), session.cursor() as cursor:
        offset = message.raw_message.offset()
        await cursor.execute(statements.UPSERT_ONE, (*row_of(body), 0, offset))
        await cursor.execute(statements.WRITE_EFFECT, ("peer", body["seq"], None))


async def batch(bodies: list[dict[str, Any]], message: KafkaMessage) -> None:
    """One transaction for as many messages as came at once."""
    offsets = [one.offset() for one in message.raw_message]
    newest = {
        body["assetnum"]: (*row_of(body), 0, offset)
        for body, offset in zip(bodies, offsets, strict=True)
    }
    async with session.transaction(), session.cursor() as cursor:
        await cursor.execute(statements.MAKE_STAGE)
        async with cursor.copy(statements.COPY_STAGE) as stage:
            for row in newest.values():
                await stage.write_row(row)
        await cursor.execute(statements.UPSERT_STAGE)
        async with cursor.copy(statements.COPY_EFFECTS) as effects:
            for body in bodies:
                await effects.write_row(("peer", body["seq"]))


def main() -> None:
    """Consume until killed."""
    subscribe = broker.subscriber
    if sys.argv[1] == "batch":
        topic = os.environ["BENCH_TOPIC"]
        subscribe(topic, batch=True, max_records=BATCH, **subscription)(batch)
    else:
        subscribe(os.environ["BENCH_TOPIC"], **subscription)(each)
    asyncio.run(app.run())


if __name__ == "__main__":
    main()
