"""Outgoing messages for the relay's benchmark: the rows that `publish` would have left."""

import base64
import json
import uuid
from typing import Final

from bench import workload
from bench.rig import Rig

KEYS: Final = 20_000
_STOCK: Final = """
CREATE TABLE bench_outgoing (
  place bigint, key bytea, value bytea, headers jsonb, message_id text)
"""
_FILL: Final = "COPY bench_outgoing FROM STDIN"
_COMMIT: Final = """
INSERT INTO integration_outboxrow (provider_id, shard, topic, key, headers, value, kind,
  message_id, state, created_at, dead_code, dead_text)
SELECT %s, 0, %s, key, headers, value, 'MESSAGE', message_id, 'PENDING', clock_timestamp(), '', ''
FROM bench_outgoing WHERE place >= %s AND place < %s ORDER BY place
"""


def stock(rig: Rig, count: int) -> None:
    """Make `count` messages of 300 bytes with the headers of published ones, once for all runs."""
    rig.write(_STOCK)
    with rig.session.cursor().copy(_FILL) as copy:
        for seq, value in enumerate(workload.assets(count, KEYS)):
            id_ = str(uuid.uuid4())
            copy.write_row((seq, f"A-{seq % KEYS:08d}".encode(), value, _headers(id_), id_))


def _headers(message_id: str) -> str:
    named = {"sluice-message-id": message_id, "sluice-interface": "ASSET", "sluice-sender": "bench"}
    pairs = [[name, base64.b64encode(text.encode()).decode()] for name, text in named.items()]
    return json.dumps(pairs)


def commit(rig: Rig, provider: int, topic: str, places: tuple[int, int]) -> None:
    """Put the messages of `places` (first, first after) into the outbox, in one commit."""
    rig.write(_COMMIT, [provider, topic, *places])


def empty(rig: Rig) -> None:
    """Leave no row of an earlier run, and no writing of the server's own for it."""
    rig.write("TRUNCATE integration_outboxrow")
    rig.write("CHECKPOINT")


def unsent(rig: Rig) -> int:
    waiting = "SELECT count(*) FROM integration_outboxrow WHERE state <> 'PUBLISHED'"
    return int(rig.value(waiting))
