"""The advisory locks of the installation: one number a kind, so that nobody takes another's.

All are taken as `pg_try_advisory_lock(class, id)`, or waited for: for a moment as
`pg_advisory_lock(class, id)`, until the transaction's end as `pg_advisory_xact_lock(class, id)`.
In pg_locks they are the rows with locktype = 'advisory', classid = the class, objid = the id and
objsubid = 2.
"""

import time
from collections.abc import Sequence
from enum import IntEnum
from typing import Any

import psycopg

from integration.policy.relay_shares import MOST_SHARDS


class LockClass(IntEnum):
    """First number of a lock; the second tells which of the kind."""

    PARTITION = 20_001  # a partition's owner; id = QueuePartition.id
    RELAY = 20_002  # a relay; id = relay_key(provider_id, shard)
    BEAT = 20_003  # the beat that leads; id = 0
    DISPATCHER = 20_004  # the dispatcher that leads; id = 0
    INSTANCE = 20_005  # a cron instance's run; id = CronInstance.id
    STRICT_QUEUE = 20_006  # the turn to publish to a sequential queue; id = Queue.id
    KEY_ORDER = 20_007  # what waits behind what within a key; id = see store.key_order
    CONFIGURATION = 20_008  # a configuration file that is being applied; id = 0
    PROBE = 20_009  # what `doctor` tries things out with; id = any
    RUN = 20_010  # shared by all runs of a queue; id = Queue.id
    IDLE = 20_011  # the watch of idle queues that leads; id = 0
    XA = 20_012  # a transaction that decides about a branch; id = a hash of its Xid
    XA_START = 20_013  # a branch that is being entered in a log's topic; id = a hash of its Xid


TAKEOVER_PAUSE_SECONDS = 0.05


def relay_key(provider_id: int, shard: int) -> int:
    """Second number of a relay's lock."""
    return provider_id * MOST_SHARDS + shard


TRY = "SELECT pg_try_advisory_lock(%s, %s)"
TRY_SHARED = "SELECT pg_try_advisory_lock_shared(%s, %s)"
RELEASE = "SELECT pg_advisory_unlock(%s, %s)"
RELEASE_ALL = "SELECT pg_advisory_unlock_all()"
# Who stands still between a lock and its lease would hold the lock for ever, for only a lease tells
# when it is over. So the server ends such a session itself. Before it has a lease, none is silent
# for so long, not even one that waits for Kafka to say what became of a two-phase commit.
UNLEASED_SECONDS = 120
SESSION_HAS_NO_LEASE = f"set_config('idle_session_timeout', '{UNLEASED_SECONDS}s', false)"
SESSION_HAS_LEASE = "set_config('idle_session_timeout', '0', false)"
# Locks held in this database; objid is unsigned there.
_HERE = (
    "locktype = 'advisory' AND granted AND objsubid = 2 "
    "AND database = (SELECT oid FROM pg_database WHERE datname = current_database())"
)


def of(lock: LockClass) -> str:
    """SQL condition over pg_locks: a lock of this class that is held in this database."""
    return f"{_HERE} AND classid = {lock:d}"


def held(lock: LockClass) -> str:
    """SQL: the `id` of every lock of this class that is held in this database."""
    return f"SELECT objid::bigint AS id FROM pg_locks WHERE {of(lock)}"


def is_held(lock: LockClass, key: str) -> str:
    """SQL condition: the lock of this class whose id is the SQL expression `key` is held."""
    return f"EXISTS ({held(lock)} AND objid::bigint = {key})"


def relay_key_sql(provider: str, shard: str) -> str:
    """SQL: `relay_key` of two SQL expressions."""
    return f"({provider} * {MOST_SHARDS} + {shard})"


def take(session: psycopg.Connection[Any], key: Sequence[int], tries: int = 1) -> bool:
    """Take a lock (class, id) on this session; whether it was free, or became so meanwhile.

    One whose owner was terminated is free as soon as the server has ended its session.
    """
    for left in reversed(range(tries)):
        row = session.execute(TRY, key).fetchone()
        if row is not None and row[0]:
            return True
        if left:
            time.sleep(TAKEOVER_PAUSE_SECONDS)
    return False
