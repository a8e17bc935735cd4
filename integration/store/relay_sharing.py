"""The SQL by which the shards of a relay hold topics: no bucket is ever in two leases."""

from typing import Any, Final

import psycopg

from integration.delivery.relay.ports import RelayLostError
from integration.policy.relay_shares import Share
from integration.store.locks import LockClass

Session = psycopg.Connection[tuple[Any, ...]]
# The lease, its epoch and its provider.
Mine = dict[str, int]

# As policy.relay_shares.bucket, and as the index `outbox_due` has it.
BUCKET: Final = "get_byte(decode(md5(topic), 'hex'), 0)"
# The shards that people want, and those beyond that still hold something.
SERVED: Final = """
SELECT p.id, shard FROM integration_provider p CROSS JOIN generate_series(0, p.shards - 1) shard
UNION
SELECT provider_id, shard::int FROM integration_relaylease WHERE first_bucket < end_bucket
ORDER BY 1, 2
"""
# Only who takes meets others who do, and instead of waiting it tries again: so a process that is
# stopped in between holds up nobody's sending.
TURN: Final = f"SELECT pg_try_advisory_xact_lock({LockClass.RELAY_SHARE:d}, %(provider)s)"
HELD_ELSEWHERE: Final = """
SELECT EXISTS (SELECT 1 FROM integration_relaylease
  WHERE provider_id = %(provider)s AND id <> %(lease)s
    AND first_bucket < %(wanted_end)s AND end_bucket > %(wanted_first)s
    AND first_bucket < end_bucket)
"""
HOLD: Final = """
UPDATE integration_relaylease SET first_bucket = %(wanted_first)s, end_bucket = %(wanted_end)s
WHERE id = %(lease)s AND epoch = %(epoch)s AND batch IS NULL AND in_doubt_since IS NULL
"""


def give_up(session: Session, mine: Mine, kept: Share) -> bool:
    """Hold no more than `kept`. Raises RelayLostError, also while a batch is on its way."""
    return _hold(session, _wanting(mine, kept))


def take(session: Session, mine: Mine, share: Share) -> bool:
    """Hold `share`; False if somebody else holds any of it, or takes just now.

    Raises RelayLostError.
    """
    values = _wanting(mine, share)
    with session.transaction():
        # Each a statement of its own: the look sees what was committed before the turn.
        if not _is(session, TURN, values) or _is(session, HELD_ELSEWHERE, values):
            return False
        return _hold(session, values)


def _wanting(mine: Mine, share: Share) -> Mine:
    return {**mine, "wanted_first": share.first, "wanted_end": share.end}


def _is(session: Session, sql: str, values: Mine) -> bool:
    row = session.execute(sql, values).fetchone()
    return row is not None and bool(row[0])


def _hold(session: Session, values: Mine) -> bool:
    if session.execute(HOLD, values).rowcount != 1:
        raise RelayLostError
    return True
