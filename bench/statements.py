"""The SQL that both sides of a benchmark share, so that only the road around it differs."""

from typing import Final

COLUMNS: Final = (
    "assetnum",
    "siteid",
    "description",
    "status",
    "price",
    "reading",
    "changed_at",
    "seq",
    "arrival_batch",
    "arrival_place",
)
_NAMES: Final = ", ".join(COLUMNS)
_NEWEST_WINS: Final = (
    "ON CONFLICT (assetnum) DO UPDATE SET "
    + ", ".join(f"{name} = excluded.{name}" for name in COLUMNS[1:])
    + " WHERE (bench_asset.arrival_batch, bench_asset.arrival_place)"
    " < (excluded.arrival_batch, excluded.arrival_place)"
)
UPSERT_ONE: Final = (
    f"INSERT INTO bench_asset ({_NAMES}) VALUES ({', '.join(['%s'] * len(COLUMNS))}) {_NEWEST_WINS}"
)
# The quickest of five ways tried (unnest of arrays 1.5 times, executemany twice as long).
MAKE_STAGE: Final = (
    "CREATE TEMPORARY TABLE IF NOT EXISTS bench_stage (LIKE bench_asset) ON COMMIT DELETE ROWS"
)
COPY_STAGE: Final = f"COPY bench_stage ({_NAMES}) FROM STDIN"
UPSERT_STAGE: Final = f"INSERT INTO bench_asset SELECT * FROM bench_stage {_NEWEST_WINS}"

TABLES: Final = """
CREATE TABLE bench_asset (
  assetnum text PRIMARY KEY, siteid text NOT NULL, description text NOT NULL,
  status text NOT NULL, price numeric NOT NULL, reading numeric NOT NULL,
  changed_at timestamptz NOT NULL, seq bigint NOT NULL,
  arrival_batch bigint NOT NULL, arrival_place bigint NOT NULL
);
-- One row per applied message; nothing keeps it from being written twice: doubles must show.
CREATE TABLE bench_effect (
  queue text NOT NULL, seq bigint NOT NULL, sent_at timestamptz,
  written_at timestamptz NOT NULL DEFAULT clock_timestamp()
);
-- While `slow` is true, the handler of slow messages stays in one long statement.
CREATE TABLE bench_control (slow boolean NOT NULL);
INSERT INTO bench_control VALUES (true);
-- What the hand-written loops keep besides the asset: position, tracking, failures set aside.
CREATE TABLE bench_position (topic text PRIMARY KEY, next_offset bigint NOT NULL);
CREATE TABLE bench_track (LIKE integration_messagetrack INCLUDING ALL);
-- Processor time of a hand-written loop and of its session, written as its last deed.
CREATE TABLE bench_cpu (process float8 NOT NULL, session float8 NOT NULL);
CREATE TABLE bench_aside (
  "offset" bigint PRIMARY KEY, payload bytea NOT NULL, text text NOT NULL,
  failed_at timestamptz NOT NULL DEFAULT clock_timestamp()
);
"""
DROP_TABLES: Final = (
    "DROP TABLE bench_asset, bench_effect, bench_control, bench_position, bench_track, "
    "bench_cpu, bench_aside"
)
NOTE_CPU: Final = "INSERT INTO bench_cpu VALUES (%s, %s)"
COPY_TRACKS: Final = (
    'COPY bench_track (queue_id, partition, "offset", arrival_batch, message_id, interface, ended) '
    "FROM STDIN"
)
SET_ASIDE: Final = 'INSERT INTO bench_aside ("offset", payload, text) VALUES (%s, %s, %s)'
MOVE_POSITION: Final = (
    "UPDATE bench_position SET next_offset = %s WHERE topic = %s AND next_offset = %s"
)
WRITE_EFFECT: Final = (
    "INSERT INTO bench_effect (queue, seq, sent_at) VALUES (%s, %s, to_timestamp(%s::float8))"
)
COPY_EFFECTS: Final = "COPY bench_effect (queue, seq) FROM STDIN"
SLEEP_WHILE_SLOW: Final = "SELECT pg_sleep(60) FROM bench_control WHERE slow"
