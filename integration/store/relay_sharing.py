"""The SQL by which the shards of a relay hold topics: no bucket is ever in two leases."""

from typing import Final

from psycopg.errors import DeadlockDetected, ExclusionViolation

from integration.delivery.relay.ports import RelayLostError
from integration.policy.relay_shares import Share
from integration.store.sessions import Session

# The lease, its epoch and its provider.
Mine = dict[str, int]

# As policy.relay_shares.bucket, and as the index `outbox_due` has it.
BUCKET: Final = "get_byte(decode(md5(topic), 'hex'), 0)"
# The shards that people want, and those beyond that still hold something; JMS brokers have none.
SERVED: Final = """
SELECT p.id, shard FROM integration_provider p CROSS JOIN generate_series(0, p.shards - 1) shard
WHERE p.kind = 'kafka'
UNION
SELECT provider_id, shard::int FROM integration_relaylease WHERE first_bucket < end_bucket
ORDER BY 1, 2
"""
# Spares the log an error where one is to be expected; the constraint `one_holder_per_bucket` says
# the last word.
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
    """Hold `share`; False if somebody else holds any of it. Raises RelayLostError."""
    values = _wanting(mine, share)
    if _is_held_elsewhere(session, values):
        return False
    try:
        return _hold(session, values)
    except (ExclusionViolation, DeadlockDetected):
        # Somebody took some of it after the look: the database refuses one of the two.
        return False


def _wanting(mine: Mine, share: Share) -> Mine:
    return {**mine, "wanted_first": share.first, "wanted_end": share.end}


def _is_held_elsewhere(session: Session, values: Mine) -> bool:
    row = session.execute(HELD_ELSEWHERE, values).fetchone()
    return row is not None and bool(row[0])


def _hold(session: Session, values: Mine) -> bool:
    if session.execute(HOLD, values).rowcount != 1:
        raise RelayLostError
    return True
