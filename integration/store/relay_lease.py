"""The lease of a shard's relay: an advisory lock on a session of its own, an epoch, a time."""

import threading
import time
import uuid
from contextlib import suppress
from typing import Any, Final

import psycopg
from django.conf import settings

from integration.delivery.relay.ports import RelayLostError
from integration.policy import relay_shares
from integration.policy.relay_shares import Share
from integration.store import locks
from integration.store.relay_rows import Ownership, RelayOutbox
from integration.store.sessions import Session, fetch_all, raw_connection

# A terminated session frees its locks as soon as the server has ended it.
TAKEOVER_TRIES: Final = 40
# Longer than any call to Kafka lasts; a relay that hangs beyond it loses the lease.
LONGEST_STEP_SECONDS: Final = 120.0

ENTER: Final = """
INSERT INTO integration_relaylease
  (provider_id, shard, owner, epoch, in_doubt_text, first_bucket, end_bucket)
VALUES (%s, %s, '', 0, '', 0, 0) ON CONFLICT (provider_id, shard) DO NOTHING
"""
LOOK: Final = (
    "SELECT id, owner, lease_until < clock_timestamp() FROM integration_relaylease "
    "WHERE provider_id = %s AND shard = %s"
)
# Where the cluster is. Who saves a provider stores its secrets in other bytes, and a release may
# add a column; neither moves it.
PLACE: Final = "md5(concat_ws('/', p.kind, p.bootstrap_servers))"
# Then what a client is made of, and more; the time at which idle queues were looked at changes
# always.
AS_OF: Final = (
    f"{PLACE} || '/' || md5((to_jsonb(p) - '{{name,shards,idle_watched_at}}'::text[])::text)"
)
NOW: Final = f"SELECT {AS_OF} FROM integration_provider p WHERE p.id = %s"
CHANGED_SINCE: Final = f"""
SELECT l.shard FROM integration_relaylease l JOIN integration_provider p ON p.id = l.provider_id
WHERE p.id = %s AND l.provider_as_of <> '' AND split_part(l.provider_as_of, '/', 1) <> {PLACE}
"""
# Both tell how many shards people want and what the provider is, so that nobody has to ask for it.
RAISE: Final = f"""
UPDATE integration_relaylease l SET epoch = epoch + 1, owner = %s, seen_at = clock_timestamp(),
  lease_until = clock_timestamp() + %s * interval '1 second'
FROM integration_provider p WHERE l.id = %s AND p.id = l.provider_id
RETURNING l.epoch, {AS_OF}, p.shards, l.first_bucket, l.end_bucket
"""
RENEW: Final = f"""
UPDATE integration_relaylease l SET seen_at = clock_timestamp(),
  lease_until = clock_timestamp() + %s * interval '1 second'
FROM integration_provider p WHERE l.id = %s AND l.epoch = %s AND p.id = l.provider_id
RETURNING {AS_OF}, p.shards
"""
# Whoever holds the row for longer is told in the log, as the reason why the relay is tried again:
# a lock that is held while nothing comes of it would let no other relay take its place.
PATIENT: Final = f"SET lock_timeout = '5s'; SELECT {locks.SESSION_HAS_NO_LEASE}"
AS_EVER: Final = f"RESET lock_timeout; SELECT {locks.SESSION_HAS_LEASE}"
# At least so often, also where the lease would last: a new number of shards is noticed by it.
RENEW_SECONDS: Final = 1.0
# All sessions of an owner carry its mark in their name. One statement finds and ends them, so
# that no recycled pid can be hit.
TERMINATE: Final = (
    "SELECT pg_terminate_backend(pid) FROM pg_stat_activity "
    "WHERE application_name = %s AND datname = current_database() AND pid <> pg_backend_pid()"
)


def session_name(owner: str) -> str:
    """The application name of an owner's sessions; PostgreSQL keeps 63 characters of it."""
    return f"sluice-relay {owner[-40:]}"


class RelayTenure:
    """Implements integration.delivery.relay.ports.Tenure.

    The lock, held, with a thread that renews the lease while the relay makes progress.
    """

    def __init__(
        self, session: Session, outbox: RelayOutbox, ownership: Ownership, found: tuple[str, Share]
    ) -> None:
        self.outbox = outbox
        self.provider_as_of, self.share = found
        self._ownership = ownership
        self._session = session
        self._over = threading.Event()
        self._is_lost = False
        self._last_sign = time.monotonic()
        self._thread = threading.Thread(target=self._renew, name="relay lease", daemon=True)
        self._thread.start()

    def provider_now(self) -> str:
        try:
            [as_of] = _first(self._session, NOW, [self._ownership.provider])
        except psycopg.Error as e:
            raise RelayLostError(str(e)) from e
        return str(as_of)

    def sign(self) -> None:
        if self._is_lost:
            raise RelayLostError
        self._last_sign = time.monotonic()

    def _renew(self) -> None:
        seconds: float = settings.SLUICE_LEASE_SECONDS
        mine = [seconds, self._ownership.lease, self._ownership.epoch]
        while not self._over.wait(min(seconds / 3, RENEW_SECONDS)):
            if time.monotonic() - self._last_sign > LONGEST_STEP_SECONDS:
                continue
            try:
                renewed = self._session.execute(RENEW, mine).fetchone()
            except psycopg.Error:
                renewed = None
            if renewed is None:
                self._is_lost = True
                return
            self.provider_as_of, shards = renewed
            self.share = relay_shares.share(self._ownership.shard, shards)

    def close(self) -> None:
        self._over.set()
        self._thread.join()
        self.outbox.close()
        # The server ends a closed session a moment later: who asks meanwhile would be refused.
        with suppress(psycopg.Error):
            self._session.execute(locks.RELEASE_ALL)
        self._session.close()


def changed_since(provider_id: int) -> set[int]:
    """The shards whose last batch went to the provider while it named another place."""
    return {shard for (shard,) in fetch_all(CHANGED_SINCE, [provider_id])}


def take(provider_id: int, shard: int, worker: str) -> RelayTenure | None:
    """Become the owner of a shard; None when another process is. Raises RelayLostError."""
    try:
        return _open(provider_id, shard, worker)
    except psycopg.Error as e:
        raise RelayLostError(str(e)) from e


def _open(provider_id: int, shard: int, worker: str) -> RelayTenure | None:
    owner = f"{worker}/{uuid.uuid4().hex[:12]}"[-200:]
    session = raw_connection(session_name(owner))
    try:
        tenure = _take(session, owner, provider_id, shard)
    except BaseException:
        session.close()
        raise
    if tenure is None:
        session.close()
    return tenure


def _take(session: Session, owner: str, provider_id: int, shard: int) -> RelayTenure | None:
    session.execute(PATIENT)
    session.execute(ENTER, [provider_id, shard])
    if not _lock(session, provider_id, shard):
        return None
    lease_id = _first(session, LOOK, [provider_id, shard])[0]
    seconds: float = settings.SLUICE_LEASE_SECONDS
    epoch, as_of, shards, *held = _first(session, RAISE, [owner, seconds, lease_id])
    session.execute(AS_EVER)
    ownership = Ownership(lease_id, epoch, provider_id, shard, Share(*held))
    outbox = RelayOutbox(lambda: raw_connection(session_name(owner)), ownership)
    return RelayTenure(session, outbox, ownership, (as_of, relay_shares.share(shard, shards)))


def _lock(session: Session, provider_id: int, shard: int) -> bool:
    key = [locks.LockClass.RELAY, locks.relay_key(provider_id, shard)]
    if locks.take(session, key):
        return True
    _, owner, is_over = _first(session, LOOK, [provider_id, shard])
    if not is_over:
        return False
    # The lease is over but the lock is not free: its owner is stopped, not dead.
    session.execute(TERMINATE, [session_name(owner)])
    return locks.take(session, key, tries=TAKEOVER_TRIES)


def _first(session: Session, sql: str, values: list[Any]) -> tuple[Any, ...]:
    row = session.execute(sql, values).fetchone()
    if row is None:
        # The provider was deleted meanwhile, and its lease with it.
        raise RelayLostError
    return row
