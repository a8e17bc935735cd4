"""The Spark jobs that a careful developer would write to load a folder of CSV files, by hand.

Spark reads the files, judges the rows by their kinds and required fields, and writes the documents,
all of it in the JVM. One job copies them into a staging table, a session for each partition, and
lets one statement store the last one of each key; the other gives that to Spark's own Kafka sink as
an envelope. Nothing is planned, and nothing is kept of what was done: a task that is tried again
stages its rows twice, and a job that dies begins anew.
"""

import os
from collections.abc import Iterable, Iterator, Mapping
from typing import Any, Final

import psycopg
from pyspark.sql import Window
from pyspark.sql import functions as fn

from bench.sparkside import Counts, serve, session_of
from bench.workload import COLUMNS, KEY_COLUMNS

SIDE: Final = "hand"
# So that no processor waits for the other's last partition.
PARTITION_BYTES: Final = 16 * 2**20
SCHEMA: Final = ", ".join(f"{name} string" for name, _, _ in COLUMNS)
TYPES: Final[Mapping[str, str]] = {"number": "decimal(20,2)", "integer": "bigint", "date": "date"}
STAGE: Final = """
DROP TABLE IF EXISTS hand_stage, hand_refused;
CREATE UNLOGGED TABLE hand_stage (place bigint NOT NULL, key text NOT NULL, document jsonb);
CREATE UNLOGGED TABLE hand_refused (place bigint NOT NULL, why text NOT NULL, raw text NOT NULL);
"""
COPY: Final = "COPY hand_stage (place, key, document) FROM STDIN"
COPY_REFUSED: Final = "COPY hand_refused (place, why, raw) FROM STDIN"
STORE: Final = """
INSERT INTO integration_storedobject AS o (structure_id, key, document, xml, version,
  arrival_batch, arrival_index, message_id, topic_uuid, updated_at)
SELECT %(structure)s::bigint, s.key, s.document, '', 1, %(arrival)s::bigint, s.place,
  %(run)s::text || '~' || s.place, '', clock_timestamp()
FROM (SELECT DISTINCT ON (key) * FROM hand_stage ORDER BY key, place DESC) s
ON CONFLICT (structure_id, key) DO UPDATE SET document = excluded.document,
  version = o.version + 1, arrival_batch = excluded.arrival_batch,
  arrival_index = excluded.arrival_index, message_id = excluded.message_id,
  updated_at = clock_timestamp()
WHERE (o.arrival_batch, o.arrival_index) < (excluded.arrival_batch, excluded.arrival_index)
"""
# As Sluice's own producer is set.
PRODUCER: Final[Mapping[str, str]] = {
    "kafka.enable.idempotence": "true",
    "kafka.acks": "all",
    "kafka.compression.type": "lz4",
    "kafka.linger.ms": "5",
    "kafka.batch.size": "1000000",
}


def judged(session: Any, folder: str) -> Any:
    """All rows: place, key and document, or why there is none and what the row was."""
    session.conf.set("spark.sql.files.maxPartitionBytes", PARTITION_BYTES)
    rows = session.read.csv(folder, schema=SCHEMA, header=True, escape='"')
    flaws = [flaw for name, kind, required in COLUMNS for flaw in _flaws(name, kind, required)]
    members = [_value(name, kind).alias(name) for name, kind, _ in COLUMNS]
    explained = rows.withColumn("why", fn.coalesce(*flaws))
    return explained.select(
        fn.monotonically_increasing_id().alias("place"),
        fn.to_json(fn.array(*KEY_COLUMNS)).alias("key"),
        fn.to_json(fn.struct(*members)).alias("document"),
        "why",
        fn.when(fn.col("why").isNotNull(), fn.to_json(fn.struct(*rows.columns))).alias("raw"),
    )


def _value(name: str, kind: str) -> Any:
    return fn.expr(f"try_cast({name} AS {TYPES[kind]})") if kind in TYPES else fn.col(name)


def _flaws(name: str, kind: str, required: object) -> Iterator[Any]:
    if required:
        yield fn.when(fn.col(name).isNull(), fn.lit(f"{name} is empty"))
    if kind in TYPES:
        is_wrong = fn.col(name).isNotNull() & _value(name, kind).isNull()
        yield fn.when(is_wrong, fn.lit(f"{name} is no {kind}"))


def store(session: Any, request: Mapping[str, Any]) -> Counts:
    """Copy all rows into the stage, then store the last document of each key."""
    database = os.environ["SLUICE_DATABASE_URL"]
    with psycopg.connect(database) as target:
        target.execute(STAGE)
        target.commit()
        rows = judged(session, request["source"]).rdd
        refused = rows.mapPartitions(lambda part: _copied(database, part)).sum()
        target.execute("SET LOCAL work_mem = '128MB'")
        sent = target.execute(STORE, request).rowcount
        target.execute("DROP TABLE hand_stage")
    return {"sent": sent, "rejected": refused}


def _copied(database: str, rows: Iterable[tuple[Any, ...]]) -> Iterator[int]:
    """Runs in a task: a partition goes into the stage in one transaction."""
    refused: list[tuple[int, str, str]] = []
    with psycopg.connect(database) as target, target.cursor() as cursor:
        with cursor.copy(COPY) as copy:
            for place, key, document, why, raw in rows:
                if why is None:
                    copy.write_row((place, key, document))
                else:
                    refused.append((place, why, raw))
        with cursor.copy(COPY_REFUSED) as copy:
            for row in refused:
                copy.write_row(row)
    yield len(refused)


def send(session: Any, request: Mapping[str, Any]) -> Counts:
    """Give the last document of each key to Spark's Kafka sink, as an envelope."""
    rows = judged(session, request["source"]).where("why IS NULL")
    newest = Window.partitionBy("key").orderBy(fn.col("place").desc())
    last = rows.withColumn("number", fn.row_number().over(newest)).where("number = 1")
    envelope = {
        "interfacetype": fn.lit("MAXIMO"),
        "INTERFACE": fn.lit(request["interface"]),
        "payload": fn.col("document"),
        "SENDER": fn.lit(request["sender"]),
        "destination": fn.lit(request["destination"]),
        "destjndiname": fn.lit(request["topic"]),
        "MEAMessageID": fn.concat(fn.lit(f"{request['run']}~"), fn.col("place")),
        "mimetype": fn.lit("application/json"),
    }
    members = [column.alias(name) for name, column in envelope.items()]
    records = last.select("key", fn.to_json(fn.struct(*members)).alias("value"))
    where = {
        "kafka.bootstrap.servers": os.environ["SLUICE_KAFKA_BOOTSTRAP"],
        "topic": request["topic"],
    }
    records.write.format("kafka").options(**PRODUCER, **where).save()
    return {}


def main() -> None:
    """Serve both jobs from one session."""
    session = session_of()
    serve(SIDE, lambda request: (send if "topic" in request else store)(session, request))


if __name__ == "__main__":
    main()
