"""The tables of the chaos run, and the SQL that its handler and its accounting share."""

from typing import Final

# What messages wait for, as `MissingDependencyError` and `arrived` name it.
KIND: Final = "chaos"

TABLES: Final = """
-- One row per applied message; nothing keeps it from being written twice: doubles must show. The
-- number is drawn by the statement itself, so that it tells the order in which effects were made.
CREATE TABLE chaos_effect (
  id bigserial PRIMARY KEY, queue text NOT NULL, seq bigint NOT NULL, attempt int NOT NULL,
  pid int NOT NULL, written_at timestamptz NOT NULL DEFAULT clock_timestamp()
);
CREATE INDEX ON chaos_effect (queue, seq);
CREATE TABLE chaos_object (name text NOT NULL);
CREATE INDEX ON chaos_object (name);
-- What Kafka has, by a reader of committed records.
CREATE TABLE chaos_book (
  queue text NOT NULL, seq bigint NOT NULL, key text NOT NULL, partition int NOT NULL,
  "offset" bigint NOT NULL, publishes text, PRIMARY KEY (queue, seq)
);
"""
WRITE_EFFECT: Final = "INSERT INTO chaos_effect (queue, seq, attempt, pid) VALUES (%s, %s, %s, %s)"
STORE_OBJECT: Final = "INSERT INTO chaos_object (name) VALUES (%s)"
IS_THERE: Final = "SELECT 1 FROM chaos_object WHERE name = %s"
# The server says it as in a deadlock of two sessions, and refuses the rest of the transaction.
CLASH: Final = "DO $$ BEGIN RAISE EXCEPTION 'made to clash' USING ERRCODE = '40P01'; END $$"
