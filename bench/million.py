"""A database after some busy months: a million failures, most of them closed, and their tracks."""

import uuid
from typing import Final

from bench.rig import Rig

QUEUES: Final = 10
# Of one hundred failures: 3 on hold, 2 waiting for a retry, 90 resolved, 5 deleted.
# Row n fails n times 2.6 s before now: one million of them reach back 30 days. Payload and
# envelope are those of the workload, about 300 bytes.
FAILURES: Final = """
INSERT INTO integration_messageerror (
  id, queue_id, topic_uuid, partition, "offset", message_id, interface, sender, key, headers,
  payload, edited_by, state, failure_class, code, text, detail, fingerprint, attempts, retry_no,
  spent, crashes, not_before, carrier, arrival_batch, arrival_index, late, apply_as_newest,
  version, first_failed_at, last_failed_at, closed_at, ended
)
SELECT gen_random_uuid(), q.ids[1 + n %% %(queues)s], 'bench', 0, n, 'bench/' || n,
  'Service' || n %% 20, 'EAM', convert_to('K-' || n %% 5000, 'UTF8'), '[]',
  convert_to('{"assetnum":"A-' || n || '","siteid":"BEDFORD","note":"' || repeat('x', 240) || '"}',
             'UTF8'),
  '', s.state, 'permanent', 'CODE_' || n %% 40, 'Field ' || n %% 200 || ' is missing.', '',
  lpad(to_hex(n %% 200), 16, '0'), 3, 2, 2, 0,
  CASE WHEN s.state = 'RETRY' THEN now() + interval '1 hour' END, 'row', n, 0, false, false, 4,
  t.at, t.at, CASE WHEN s.state IN ('RESOLVED', 'DELETED') THEN t.at END,
  CASE WHEN s.state = 'RESOLVED' THEN 'APPLIED' ELSE '' END
FROM generate_series(1, %(count)s) AS n
CROSS JOIN (SELECT array_agg(id ORDER BY id) AS ids FROM integration_queue) AS q
CROSS JOIN LATERAL (SELECT CASE
    WHEN n / 10 %% 100 < 3 THEN 'HOLD' WHEN n / 10 %% 100 < 5 THEN 'RETRY'
    WHEN n / 10 %% 100 < 95 THEN 'RESOLVED' ELSE 'DELETED' END AS state) AS s
CROSS JOIN LATERAL (SELECT now() - n * interval '2.6 s' AS at) AS t
"""
ATTEMPTS: Final = """
INSERT INTO integration_errorattempt
  (error_id, number, at, ended, code, text, detail, worker, edited)
SELECT e.id, 1, e.first_failed_at, 'RETRY', e.code, e.text, '', 'worker', false
FROM integration_messageerror e
"""
# Every second queue is read message by message, the others in batches of some hundred.
TRACKS: Final = """
INSERT INTO integration_messagetrack (
  queue_id, partition, "offset", arrival_batch, message_id, interface, ended, at, key, kafka_ms,
  external_id, search_a, search_b, batch_rows
)
SELECT queue_id, partition, "offset", (%(count)s - first) * 100 + queue_id, message_id, interface,
  CASE WHEN "offset" %% 100 = 0 THEN 'HOLD' ELSE 'APPLIED' END,
  now() - first * interval '80 ms', convert_from(key, 'UTF8'),
  extract(epoch FROM now() - "offset" * interval '80 ms') * 1000 - 250,
  'PO-' || "offset", 'SITE-' || "offset" %% 50, 'WO-' || "offset" %% 100000,
  CASE WHEN "offset" = max("offset") OVER batch THEN count(*) OVER batch END
FROM (
  SELECT *, "offset" - CASE WHEN queue_id %% 2 = 0 THEN 0 ELSE "offset" %% 1000 END AS first
  FROM integration_messageerror
) failed
WINDOW batch AS (PARTITION BY queue_id, first)
ORDER BY first DESC, queue_id, "offset" DESC
"""
SUMMARIES: Final = """
SELECT i.indexrelid::regclass::text FROM pg_index i JOIN pg_class c ON c.oid = i.indexrelid
JOIN pg_am a ON a.oid = c.relam
WHERE a.amname = 'brin' AND c.relkind = 'i' AND pg_relation_size(i.indrelid) > 0
"""


def fill(rig: Rig, count: int) -> None:
    """Make `count` failures, an attempt and a track of each, and let the planner know of them."""
    # Each benchmark has its own database, but all share one Kafka.
    own = uuid.uuid4().hex[:8]
    rig.configure(
        *(
            {
                "name": f"busy-{number}",
                "topic": rig.topic(f"busy-{number}-{own}"),
                "kind": "continuous",
                "interface": "BenchPing",
            }
            for number in range(QUEUES)
        )
    )
    # Committed like everything else, but the disk's order of doing it is not what is measured.
    rig.write("SET synchronous_commit = off")
    rig.write(FAILURES, {"queues": QUEUES, "count": count})
    rig.write(ATTEMPTS)
    # All of a day: what is searched by default. It is summarised by the VACUUM below.
    rig.write(TRACKS, {"count": count})
    rig.write("VACUUM ANALYZE")
    # It ends autovacuum's own summarising, which may leave a range half done; PostgreSQL 15 then
    # takes every range behind that one for a match. No traffic does that, so begin without it.
    for index in rig.rows(SUMMARIES):
        rig.write(f"REINDEX INDEX {index[0]}")
