"""Messages that wait for an object, and what makes them due: its arrival.

Whoever stores an object wakes, in the same commit, those that wait for it. One that begins to wait
looks again after its commit, under a lock that arrivals of the kind share: so either the arrival
sees it waiting, or it sees the arrival. What is lost between its two commits, when the process dies
there, the next run of its queue finds.
"""

from collections.abc import Callable, Sequence
from typing import Any, Final
from uuid import UUID

from integration.handlers.arrivals import Arrived
from integration.policy.dependency import object_hash
from integration.store.locks import LockClass
from integration.store.sessions import django_connection

Run = Callable[[str, Any], Any]

# The kinds are few, and held until the commit that follows at once.
_SHARE: Final = f"""
SELECT pg_advisory_xact_lock_shared({LockClass.DEPENDENCY:d}, kind) FROM (
  SELECT DISTINCT hashtext(k.kind) AS kind FROM unnest(%s::text[]) k (kind) ORDER BY 1) kinds"""
_LOCK: Final = f"""
SELECT pg_advisory_xact_lock({LockClass.DEPENDENCY:d}, kind) FROM (
  SELECT DISTINCT hashtext(e.waits_kind) AS kind FROM integration_messageerror e
  WHERE e.id = ANY(%s) ORDER BY 1) kinds"""
# How long the second look waits for arrivals under way; the message's own pause follows then.
PATIENCE: Final = "SET LOCAL lock_timeout = '1s'"
_IS_WAITED_FOR: Final = """
SELECT EXISTS (SELECT 1 FROM integration_messageerror
  WHERE waits_kind = ANY(%s) AND state = 'RETRY' AND waits_for IS NOT NULL)"""
_REMEMBER: Final = """
INSERT INTO integration_arrivedobject (object, kind, key, arrived_at)
SELECT v.object, v.kind, v.key, clock_timestamp()
FROM unnest(%s::bytea[], %s::text[], %s::text[]) v (object, kind, key) ORDER BY v.object
ON CONFLICT (object) DO UPDATE SET arrived_at = clock_timestamp()"""
_DUE_NOW: Final = """
UPDATE integration_messageerror e SET not_before = clock_timestamp(), carrier = 'row',
  version = e.version + 1 {}
  AND e.state = 'RETRY' AND e.waits_for IS NOT NULL AND e.not_before > clock_timestamp()
RETURNING e.id"""
_WAKE: Final = _DUE_NOW.format("WHERE e.waits_kind = ANY(%s) AND e.waits_for = ANY(%s)")
# Over a waiting failure `e`: when its object came last, NULL when it has not.
_CAME: Final = """greatest(
  (SELECT a.arrived_at FROM integration_arrivedobject a WHERE a.object = e.waits_for),
  (SELECT o.updated_at FROM integration_storedobject o
   JOIN integration_objectstructure s ON s.id = o.structure_id
   WHERE s.name = e.waits_kind AND o.key = e.waits_key
     AND (o.document IS NOT NULL OR o.xml <> '')))"""
_LOOK_AGAIN: Final = _DUE_NOW.format(f"WHERE e.id = ANY(%s) AND {_CAME} IS NOT NULL")
_WAKE_MISSED: Final = _DUE_NOW.format(f"WHERE e.queue_id = %s AND {_CAME} > e.last_failed_at")
_CANCEL_RETRY_MARKERS: Final = (
    "UPDATE integration_outboxrow SET state = 'CANCELLED' "
    "WHERE error = ANY(%s) AND kind = 'TICKET' AND state = 'PENDING'"
)


def arrived(run: Run, arrivals: Sequence[Arrived]) -> None:
    """Wake what waits for these objects, at the end of the transaction that stores them."""
    kinds = sorted({objects.kind for objects in arrivals})
    run(_SHARE, [kinds])
    told = {(o.kind, key) for o in arrivals if not o.is_stored for key in o.keys}
    if told:
        # In one order, so that two transactions cannot deadlock.
        rows = sorted((object_hash(*one), one[0][:100], one[1][:500]) for one in told)
        run(_REMEMBER, [list(column) for column in zip(*rows, strict=True)])
    if run(_IS_WAITED_FOR, [kinds]).fetchone()[0]:
        hashes = {object_hash(o.kind, key) for o in arrivals for key in o.keys}
        _cancel(run, run(_WAKE, [kinds, sorted(hashes)]).fetchall())


def tell(arrivals: Sequence[Arrived]) -> None:
    """Do so on Django's session, for those who store outside the engine."""
    with django_connection().cursor() as cursor:
        arrived(_running(cursor), arrivals)


def look_again(failures: Sequence[UUID]) -> None:
    """Make those due whose object came before they began to wait; in a transaction of its own."""
    with django_connection().cursor() as cursor:
        run, ids = _running(cursor), list(failures)
        run(PATIENCE, None)
        run(_LOCK, [ids])
        _cancel(run, run(_LOOK_AGAIN, [ids]).fetchall())


def wake_missed(queue: int) -> None:
    """Make those of a queue due whose object came since their last try, and nobody said so."""
    with django_connection().cursor() as cursor:
        run = _running(cursor)
        _cancel(run, run(_WAKE_MISSED, [queue]).fetchall())


def _running(cursor: Any) -> Run:
    def run(sql: str, parameters: Any) -> Any:
        cursor.execute(sql, parameters)
        return cursor

    return run


def _cancel(run: Run, woken: Sequence[tuple[UUID]]) -> None:
    if woken:
        run(_CANCEL_RETRY_MARKERS, [[id_ for (id_,) in woken]])
