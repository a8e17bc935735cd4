"""The watch of idle queues: a run is started when a message comes, and none has to stay for it.

A thread beside the relay stands for election; one leads. It asks the database whenever a run has
ended, and once a second, which queues nobody works on and nothing keeps from being read, and lets
the brokers tell it of the first record behind their positions. Queues of providers that it
watches get no ticks of short intervals meanwhile: a tick that finds nothing costs a run. When it is
gone, ticks come again.
"""

import logging
import time
from collections import defaultdict
from collections.abc import Callable, Collection, Iterable, Mapping
from contextlib import suppress
from itertools import islice
from typing import Any, Final, Protocol

import psycopg
from django.db import Error, connections

from crontasks.cursor import Cursor
from crontasks.leadership import Leadership
from crontasks.running import starts
from integration.errors import IntegrationError
from integration.models import Provider
from integration.store import deployments, locks
from integration.store.locks import LockClass
from integration.store.partition_state import not_held
from integration.store.queue_stops import IS_AT_STOP
from integration.store.starts import IS_WANTED

# A message that comes between a run's end and the next look waits for that look, so it follows at
# once, within a tenth of the time; what else makes a queue idle may wait for two seconds.
LOOK_SECONDS: Final = 2.0
LOOK_SHARE: Final = 0.1
STANDBY_SECONDS: Final = 0.5
# Shared among the providers: how long one round waits for records.
WAIT_SECONDS: Final = 0.2
# Where nobody is at work and nothing has come for so long, no run ends either, and the brokers tell
# at once of what comes: the database is asked less often then.
QUIET_AFTER_SECONDS: Final = 10.0
QUIET_SEARCH_SECONDS: Final = 4.0
QUIET_WAIT_SECONDS: Final = 0.5
WATCHED_SECONDS: Final = 6
# Schedules that mean "as soon as something is there"; longer ones mean what they say.
MOST_SECONDS: Final = 60
NOTE_SECONDS: Final = 20.0
REST_SECONDS: Final = 10.0
# A run that leaves its position where it is has found something that this watch cannot see.
AGAIN_SECONDS: Final = 1.0
LONGEST_SECONDS: Final = 60.0
TRIED_IN_TROUBLE: Final = 3
logger = logging.getLogger(__name__)

# Conditions over a provider `v`, and over an instance `i` of one of its queues.
IS_WATCHED: Final = f"""(
    v.idle_watched_at > clock_timestamp() - make_interval(secs => {WATCHED_SECONDS}))"""
IS_PROMPT: Final = f"(i.interval_seconds <= {MOST_SECONDS})"
# The lock of runs tells of those that wait for their share, too. Several queues may read from one
# address of a JMS broker, each its own messages: there the queue is the place.
_FOUND: Final = f"""
WITH busy AS MATERIALIZED ({locks.held(LockClass.RUN)}),
idle AS MATERIALIZED (
  SELECT q.provider_id, q.id AS queue, CASE v.kind WHEN 'jms' THEN q.id::text ELSE q.topic END
    AS place, p.partition, p.next_offset, p.id
  FROM integration_queue q JOIN integration_queuepartition p ON p.queue_id = q.id
  JOIN integration_provider v ON v.id = q.provider_id
  WHERE {IS_WANTED} AND q.start_requested_at IS NULL AND p.state = 'RUNNING'
    AND NOT EXISTS (SELECT 1 FROM busy WHERE busy.id = q.id)
    AND NOT {IS_AT_STOP}
    AND EXISTS (SELECT 1 FROM crontasks_croninstance i
                WHERE i.queue_id = q.id AND i.active AND {IS_PROMPT})
    AND NOT EXISTS (SELECT 1 FROM integration_partitionlease l
                    WHERE l.partition_id = p.id AND l.released_at IS NULL)),
now AS (
  SELECT coalesce(md5(string_agg(
    concat_ws('/', provider_id, queue, place, partition, next_offset, id), ' ' ORDER BY id
  )), '') AS digest FROM idle)"""
# Mostly all is as it was at the look before: a digest says so, and a thousand rows stay where they
# are. Without parameters, for a statement with some is planned anew each time.
_DIGEST: Final = f"{_FOUND} SELECT digest FROM now"
_IDLE: Final = f"{_FOUND} SELECT now.digest, idle.* FROM now LEFT JOIN idle ON true"
_AT_WORK: Final = locks.held(LockClass.RUN)
_ALIVE: Final = (
    "UPDATE integration_provider SET idle_watched_at = clock_timestamp() WHERE id = ANY(%s)"
)
# As if each moment of their schedules had been acted upon: so it has.
_NOTE: Final = f"""
UPDATE crontasks_croninstance i SET last_scheduled_at = clock_timestamp()
FROM integration_queue q WHERE q.id = i.queue_id AND q.provider_id = ANY(%s)
  AND i.active AND {IS_PROMPT}"""
# Where the log ends at the position: the lag monitor need not ask for that.
_REST: Final = f"""
UPDATE integration_queuepartition SET idle_since = CASE WHEN id = ANY(%(ids)s)
    THEN clock_timestamp() END
WHERE id IN ({not_held("(idle_since IS NOT NULL) <> (id = ANY(%(ids)s))")})"""
_WATCHED: Final = f"SELECT v.id FROM integration_provider v WHERE {IS_WATCHED}"
_IS_WATCHED: Final = f"""
SELECT 1 FROM crontasks_croninstance i JOIN integration_queue q ON q.id = i.queue_id
JOIN integration_provider v ON v.id = q.provider_id
WHERE q.id = %s AND i.active AND {IS_PROMPT} AND {IS_WATCHED}"""

_SETTINGS: Final = tuple(
    column.attname for column in Provider._meta.fields if column.name != "idle_watched_at"
)
Place = tuple[str, int]


class Arrivals(Protocol):
    """See integration.kafka.arrivals, integration.amqp.arrivals."""

    def watch(self, places: Mapping[Place, int]) -> None: ...
    def wait(self, seconds: float) -> set[Place]: ...
    def at_end(self) -> set[Place]: ...
    def is_sure(self) -> bool: ...
    def close(self) -> None: ...


def watched_providers(cursor: Cursor) -> frozenset[int]:
    """Return the providers whose idle queues are watched now."""
    cursor.execute(_WATCHED)
    return frozenset(id_ for (id_,) in cursor.fetchall())


def is_watched(cursor: Cursor, queue_id: int) -> bool:
    """Return whether a message to this queue would start a run, though none is attached."""
    cursor.execute(_IS_WATCHED, (queue_id,))
    return cursor.fetchone() is not None


class Pauses:
    """How soon a queue may be started again because of the same offset: ever later."""

    def __init__(self) -> None:
        self._asked: dict[int, tuple[int, float, float]] = {}

    def may_ask(self, queue_id: int, offset: int, now: float) -> bool:
        """Return whether to start it now, and note that it is. `now` is any clock that grows."""
        asked = self._asked.get(queue_id)
        pause = 0.0
        if asked is not None and asked[0] == offset:
            if now < asked[1]:
                return False
            pause = asked[2]
        pause = min(max(2 * pause, AGAIN_SECONDS), LONGEST_SECONDS)
        self._asked[queue_id] = (offset, now + pause, pause)
        return True


class IdleWatch:
    """One watch in the making or at work. `open_arrivals` makes a client for a provider."""

    def __init__(self, open_arrivals: Callable[[Provider], Arrivals]) -> None:
        self.open_arrivals = open_arrivals
        self.leadership = Leadership(LockClass.IDLE, "sluice idle watch")
        self.pauses = Pauses()
        self._arrivals: dict[int, Arrivals] = {}
        self._known: dict[int, Mapping[str, Any]] = {}
        self._rows: list[tuple[Any, ...]] = []
        self._digest = ""
        self._places: Mapping[int, dict[Place, int]] = {}
        self._queues: dict[tuple[int, Place], list[tuple[int, int]]] = {}
        self._at_work: frozenset[int] = frozenset()
        self._looked_at = self._may_look_at = float("-inf")
        self._noted_at = self._rested_at = float("-inf")
        self._searched_at = self._stirred_at = float("-inf")

    def run(self, stop: Callable[[], bool]) -> None:
        """Watch until `stop()`; survives the absence of database and brokers."""
        try:
            while not stop():
                try:
                    leads = self.round()
                except (psycopg.Error, Error, IntegrationError) as e:
                    logger.warning("the watch of idle queues waits", extra={"error": str(e)})
                    leads = False
                except Exception:
                    # The thread's outermost loop: one round that went wrong must not end them all.
                    logger.exception("a round of the watch of idle queues failed")
                    leads = False
                if not leads:
                    self._let_go()
                    connections.close_all()  # one that broke would be broken for ever
                    time.sleep(STANDBY_SECONDS)
        finally:
            self._let_go()
            self.leadership.resign()
            connections.close_all()

    def round(self) -> bool:
        """Look whose turn it is, then wait a moment for records; False when another leads."""
        now = time.monotonic()
        if now >= self._may_look_at:
            if not self._looks(now):
                return False
            took = time.monotonic() - now
            rest = LOOK_SECONDS if self._is_quiet(now) else took / LOOK_SHARE
            self._may_look_at = now + min(rest, LOOK_SECONDS)
        # Several are waited for in turn, and what comes to one waits meanwhile.
        is_long = len(self._arrivals) <= 1 and self._is_quiet(now)
        wait_seconds = QUIET_WAIT_SECONDS if is_long else WAIT_SECONDS
        if not self._arrivals:
            time.sleep(wait_seconds)
        for provider_id, arrivals in self._arrivals.items():
            came = arrivals.wait(wait_seconds / len(self._arrivals))
            if came:
                self._stirred_at = time.monotonic()
                # The run that is asked for ends soon, and a message may come right behind.
                self._may_look_at = min(self._may_look_at, self._stirred_at + WAIT_SECONDS)
                self._start(provider_id, came)
        return True

    def _looks(self, now: float) -> bool:
        """Look if there is a reason to; False when another leads, or nothing may be done here."""
        is_due = now - self._looked_at >= LOOK_SECONDS
        if is_due and not self.leadership.stand(asks_next=True):
            return False
        # It is this question that proves the session to live.
        with self.leadership.session().cursor() as cursor:
            if self._has_one_ended(cursor) or is_due:
                if not deployments.may_act(cursor):
                    return False
                self._look(cursor, now)
        return True

    def _has_one_ended(self, cursor: Any) -> bool:
        """Return whether the last run of a queue has ended since this was asked last."""
        cursor.execute(_AT_WORK)
        before, self._at_work = self._at_work, frozenset(id_ for (id_,) in cursor.fetchall())
        if before <= self._at_work:
            return False
        self._stirred_at = time.monotonic()
        return True

    def _is_quiet(self, now: float) -> bool:
        """Return whether no run is known to be at work, nor was a moment ago."""
        return not self._at_work and now - self._stirred_at > QUIET_AFTER_SECONDS

    def _look(self, cursor: Any, now: float) -> None:
        self._looked_at = now
        if not self._is_quiet(now) or now - self._searched_at >= QUIET_SEARCH_SECONDS:
            self._searched_at = now
            self._search(cursor)
        sure = [id_ for id_, arrivals in self._arrivals.items() if arrivals.is_sure()]
        for provider_id in self._arrivals.keys() - set(sure):
            # A few runs say at once what is wrong with it; the others follow with their ticks.
            self._start(provider_id, islice(self._places[provider_id], TRIED_IN_TROUBLE))
        cursor.execute(_ALIVE, (sure,))
        if now - self._noted_at >= NOTE_SECONDS:
            self._noted_at = now
            cursor.execute(_NOTE, (sure,))
        if now - self._rested_at >= REST_SECONDS:
            self._rested_at = now
            cursor.execute(_REST, {"ids": self._at_rest(sure)})

    def _search(self, cursor: Any) -> None:
        """Find out what is idle, and watch that."""
        cursor.execute(_DIGEST)
        if cursor.fetchone()[0] != self._digest:
            # What is missing may be at work for a moment, and be idle again unseen.
            self._stirred_at = time.monotonic()
            cursor.execute(_IDLE)
            self._take(cursor.fetchall())
        self._open(self._places.keys())
        for provider_id, arrivals in self._arrivals.items():
            arrivals.watch(self._places[provider_id])

    def _take(self, rows: list[tuple[Any, ...]]) -> None:
        """Sort what is idle by provider and place."""
        digest = rows[0][0]
        rows = [row[1:] for row in rows if row[1] is not None]
        places: defaultdict[int, dict[Place, int]] = defaultdict(dict)
        queues: defaultdict[tuple[int, Place], list[tuple[int, int]]] = defaultdict(list)
        for provider_id, queue_id, topic, partition, offset, _ in rows:
            place = (topic, partition)
            # A topic may be read by a queue and sent by another: the earlier position counts.
            places[provider_id][place] = min(offset, places[provider_id].get(place, offset))
            queues[provider_id, place].append((queue_id, offset))
        self._digest = digest
        self._rows, self._places, self._queues = rows, places, queues

    def _at_rest(self, sure: Iterable[int]) -> list[int]:
        """List the partitions behind whose position nothing lies, open transactions neither."""
        ends = {provider_id: self._arrivals[provider_id].at_end() for provider_id in sure}
        return [
            row
            for provider_id, _, topic, partition, offset, row in self._rows
            if (topic, partition) in ends.get(provider_id, ())
            and offset == self._places[provider_id][topic, partition]
        ]

    def _open(self, wanted: Collection[int]) -> None:
        """A client for each provider that has idle queues, made anew when its settings change."""
        known = {provider.pk: provider for provider in Provider.objects.filter(pk__in=wanted)}
        for provider_id in self._arrivals.keys() - known.keys():
            self._arrivals.pop(provider_id).close()
        for provider_id, provider in known.items():
            settings = {name: getattr(provider, name) for name in _SETTINGS}
            if provider_id in self._arrivals and self._known[provider_id] == settings:
                continue
            if provider_id in self._arrivals:
                self._arrivals.pop(provider_id).close()
            with suppress(IntegrationError):
                self._arrivals[provider_id] = self.open_arrivals(provider)
                self._known[provider_id] = settings

    def _start(self, provider_id: int, came: Iterable[Place]) -> None:
        now = time.monotonic()
        for place in came:
            for queue_id, offset in self._queues.get((provider_id, place), ()):
                if self.pauses.may_ask(queue_id, offset, now):
                    starts.ask(queue_id)

    def _let_go(self) -> None:
        while self._arrivals:
            _, arrivals = self._arrivals.popitem()
            arrivals.close()
        self._looked_at = self._may_look_at = self._rested_at = float("-inf")
        self._searched_at = float("-inf")
