"""Messages that wait for an object, and what makes them due: its arrival.

An arrival is remembered in the transaction that stores the object. After its commit those are woken
that wait for it; and one that has failed for want of it looks again after its own commit. Whichever
commit comes second, its look sees the other. A look that is lost, because its process died between
the two, is made up for when a run of the queue begins; where a run died, by the one that takes over
for all queues, for nobody knows what it had stored. Each arrival wakes a message once.
"""

import logging
from collections.abc import Callable, Sequence
from contextlib import contextmanager
from typing import Any, Final, NamedTuple
from uuid import UUID

from django.db import DatabaseError, transaction

from integration.handlers.arrivals import Arrived
from integration.policy.dependency import is_cut, object_hash
from integration.store.sessions import alias, django_connection, execute, fetch_all

Run = Callable[[str, Any], Any]
logger = logging.getLogger(__name__)

# Rows are added and none is changed, so that transactions which store the same objects in another
# order do not wait for each other.
_REMEMBER: Final = (
    "INSERT INTO integration_arrivedobject (object, arrived_at) "
    "SELECT v.object, clock_timestamp() FROM unnest(%s::bytea[]) v (object)"
)
_IS_WAITED_FOR: Final = """
SELECT 1 FROM integration_messageerror
WHERE waits_kind = ANY(%s) AND state = 'RETRY' AND waits_for IS NOT NULL LIMIT 1"""
# Over a waiting failure `e`: when its object came last, NULL when it has not.
_CAME: Final = """greatest(
    (SELECT max(a.arrived_at) FROM integration_arrivedobject a WHERE a.object = e.waits_for),
    (SELECT o.updated_at FROM integration_storedobject o
     JOIN integration_objectstructure s ON s.id = o.structure_id
     WHERE s.name = e.waits_kind AND o.key = e.waits_key
       AND (o.document IS NOT NULL OR o.xml <> '')))"""
# One that is being tried is left out: it looks again itself. Only those are locked whose object has
# come: who stores the object of another meanwhile, and finds it locked, would leave it asleep. The
# head of a sequential queue takes its partition along.
_WAKE: Final = f"""
WITH ready AS MATERIALIZED (
  SELECT w.id, w.came FROM (
    SELECT e.id, e.woken_by, {_CAME} AS came FROM integration_messageerror e
    WHERE {{which}} AND e.state = 'RETRY' AND e.waits_for IS NOT NULL
      AND e.not_before > clock_timestamp() OFFSET 0) w
  WHERE w.came IS NOT NULL AND w.came IS DISTINCT FROM w.woken_by
), waiting AS (
  SELECT e.id, r.came FROM ready r JOIN integration_messageerror e ON e.id = r.id
  WHERE e.state = 'RETRY' AND e.waits_for IS NOT NULL AND e.not_before > clock_timestamp()
  ORDER BY e.id FOR UPDATE OF e SKIP LOCKED
), woken AS (
  UPDATE integration_messageerror e SET not_before = clock_timestamp(), carrier = 'row',
    version = e.version + 1, woken_by = w.came
  FROM waiting w WHERE e.id = w.id AND w.came IS NOT NULL AND w.came IS DISTINCT FROM e.woken_by
  RETURNING e.id
), resumed AS (
  UPDATE integration_queuepartition p SET resume_at = clock_timestamp() WHERE p.id IN (
    SELECT h.id FROM integration_queuepartition h JOIN woken ON h.state_error = woken.id
    WHERE h.state = 'BACKOFF' FOR UPDATE OF h SKIP LOCKED)
)
UPDATE integration_outboxrow SET state = 'CANCELLED'
WHERE error IN (SELECT id FROM woken) AND kind = 'TICKET' AND state = 'PENDING'"""
_WAKE_FOR: Final = _WAKE.format(which="e.waits_kind = ANY(%s) AND e.waits_for = ANY(%s)")
_LOOK_AGAIN: Final = _WAKE.format(
    which="""(e.id = ANY(%s) OR (e.queue_id = %s AND e.topic_uuid = %s AND e.partition = %s
    AND e."offset" = ANY(%s)))"""
)
_WAKE_MISSED: Final = _WAKE.format(which="e.queue_id = %s")
_WAKE_ALL: Final = _WAKE.format(which="true")


class Waiting(NamedTuple):
    """Failures that wait for an object since a commit: known rows, and new ones by their offset."""

    rows: Sequence[UUID]
    queue: int
    topic_uuid: str
    partition: int
    offsets: Sequence[int]


def remember(run: Run, arrivals: Sequence[Arrived]) -> None:
    """Write down what no table of ours would tell later, in the transaction that stores it."""
    told = {object_hash(o.kind, key) for o in arrivals for key in o.keys if _is_untold(o, key)}
    if told:
        run(_REMEMBER, [sorted(told)])


def _is_untold(objects: Arrived, key: str) -> bool:
    """Whether the object store could not find it by what a waiting message has of its key."""
    return not objects.is_stored or is_cut(key)


def wake(arrivals: Sequence[Arrived]) -> None:
    """Make due what waits for these objects, after the commit that stored them. Never raises."""
    kinds = sorted({objects.kind for objects in arrivals})
    with _for_speed():
        if fetch_all(_IS_WAITED_FOR, [kinds]):
            hashes = {object_hash(o.kind, key) for o in arrivals for key in o.keys}
            execute(_WAKE_FOR, [kinds, sorted(hashes)])


def look_again(waiting: Waiting) -> None:
    """Make those due whose object has come, after the commit that let them wait. Never raises."""
    with _for_speed():
        execute(_LOOK_AGAIN, [*map(_listed, waiting)])


def wake_missed(queue: int) -> None:
    """Make those of a queue due whose object has come, and nobody said so. Never raises."""
    with _for_speed():
        execute(_WAKE_MISSED, [queue])


def wake_all() -> None:
    """The same of every queue: after a run that died, and after a bulk job, which tells nobody."""
    with _for_speed():
        execute(_WAKE_ALL)


def tell(arrivals: Sequence[Arrived]) -> None:
    """Remember and wake for those who store outside the engine, with their transaction."""
    remember(execute, arrivals)
    transaction.on_commit(lambda: wake(arrivals), using=alias())


def _listed(value: Any) -> Any:
    return list(value) if isinstance(value, list | tuple) else value


@contextmanager
def _for_speed() -> Any:
    """What is not woken now is tried after its own pause: nothing ends for want of it."""
    try:
        yield
    except DatabaseError as e:
        logger.info("waiting messages were not woken", extra={"error": str(e).strip()})
        if django_connection().connection is not None and django_connection().connection.closed:
            django_connection().close()
