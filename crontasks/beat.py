"""Beat: one of any number of beats leads; it names the moment of every tick it finds due.

Moments are those of the database's clock, whatever the host's says: another beat goes on where
this one ends, and a moment that lay ahead would be the last one until its time has come.
"""

import logging
import os
import threading
import time
from collections.abc import Iterator
from datetime import datetime, timedelta
from typing import Any, ClassVar, Final

import psycopg
from celery.schedules import schedstate
from django.conf import settings
from django.db import Error, close_old_connections, connections
from django_celery_beat.schedulers import DatabaseScheduler, ModelEntry

from crontasks import ticks
from crontasks.definitions import registry
from crontasks.errors import BadScheduleError
from crontasks.hearts import BEAT_EVERY_SECONDS, DatabaseClock, Heart, are_alive, beat_node
from crontasks.leadership import Leadership
from crontasks.models import CronInstance
from crontasks.notices import book, conditions
from crontasks.notices.courier import Courier
from crontasks.running import idle
from integration.store.locks import LockClass

STANDBY_SECONDS: Final = 0.5
# A beat that leads looks at its schedule when something is due, and as often at least.
LEAD_SECONDS: Final = 1.0
LOOK_EVERY_SECONDS: Final = 5.0
GRACE_SECONDS: Final = 30.0
RETRY_SECONDS: Final = 10.0
# A database that stands still answers nobody, and a session waits for it without an end.
CLOSE_SECONDS: Final = 8.0
# A moment this long ago passed while nothing could run: the instance's misfire rule decides.
LATE: Final = timedelta(seconds=60)
_FAR_SECONDS: Final = 3_600.0
logger = logging.getLogger(__name__)


class InstanceEntry(ModelEntry):  # type: ignore[misc] # the library has no types
    """A PeriodicTask; if it belongs to an instance, its moments are those of our own arithmetic.

    What was acted upon is kept on the shared model object, as beat copies entries freely.
    """

    # Providers whose idle queues are watched: a message starts a run there, and no tick is needed.
    watched: ClassVar[frozenset[int]] = frozenset()
    clock: ClassVar[DatabaseClock] = DatabaseClock()

    @property
    def instance(self) -> CronInstance | None:
        return getattr(self.model, "instance", None)

    @property
    def is_watched(self) -> bool:
        instance = self.instance
        if not self.watched or instance is None or instance.queue is None:
            return False
        seconds = instance.interval_seconds
        is_prompt = seconds is not None and seconds <= idle.MOST_SECONDS
        return is_prompt and instance.queue.provider_id in self.watched

    def is_due(self) -> Any:
        instance = self.instance
        if instance is None:
            return super().is_due()
        if not instance.active or self.is_watched:
            return schedstate(is_due=False, next=_FAR_SECONDS)
        now = self.clock.now()
        pause = getattr(self.model, "retry_at", 0.0) - time.monotonic()
        if pause > 0:
            return schedstate(is_due=False, next=pause)
        is_due = self.due_moment(now) is not None
        return schedstate(is_due=is_due, next=self._seconds_to_next(instance, now))

    def due_moment(self, now: datetime) -> datetime | None:
        """The moment that has come and was not acted upon; None if there is none."""
        instance = self.instance
        if instance is None:
            return None
        latest = self._latest(instance, now)
        acted = getattr(self.model, "acted_at", None) or instance.last_scheduled_at
        if latest is None or (acted is not None and latest <= acted):
            return None
        if now - latest > LATE and instance.misfire == CronInstance.Misfire.SKIP:
            self.model.acted_at = latest
            return None
        return latest

    def _latest(self, instance: CronInstance, now: datetime) -> datetime | None:
        moments = getattr(self.model, "moments", None)
        if moments is None or not moments[0] <= now < moments[1]:
            schedule = instance.schedule()
            upcoming = next(schedule.following(now), now + timedelta(days=1))
            moments = self.model.moments = (now, upcoming, schedule.latest(now))
        latest: datetime | None = moments[2]
        return latest

    def _seconds_to_next(self, instance: CronInstance, now: datetime) -> float:
        self._latest(instance, now)
        upcoming: datetime = self.model.moments[1]
        return min(max((upcoming - now).total_seconds(), 0.0), _FAR_SECONDS)


class LeaderScheduler(DatabaseScheduler):  # type: ignore[misc] # the library has no types
    """Ticks only while it holds the beat's lock; survives the database's absence.

    A cron task that only asks for a start is asked right here, so that no tick waits for a
    worker slot; the others are sent with the instance's time limits, if there is work for them.
    """

    Entry = InstanceEntry
    # Celery's beat would connect before its first step and wait there for as long as its broker
    # is away, without a heartbeat. Each send takes a connection of the pool instead.
    producer = None
    # The library's own mark of what was read anew.
    _heap_invalidated: bool = False

    def __init__(self, *args: Any, **kwargs: Any) -> None:
        self.leadership = Leadership(LockClass.BEAT, "sluice beat", heart="beat")
        self.heart = Heart(kind="beat", node=beat_node())
        self.courier = Courier()
        self.stood_at = self.beat_at = self.looked_at = float("-inf")
        self.leads_since = time.monotonic()
        self.changed_at: datetime | None = None
        self.workers_alive = True
        self.must_repopulate = False
        self.is_logged = False
        super().__init__(*args, **kwargs)

    def setup_schedule(self) -> None:
        """Nothing is read before this beat leads, and nothing is installed at all."""

    def enabled_models_qs(self) -> Any:
        # All of them: a moment missed hours ago may have to run now. Where other apps of a project
        # have periodic tasks, the project's own beat starts those; see CronInstance.
        rows = self.Model.objects
        ours = rows.filter(instance__active=True) if settings.SLUICE_IS_GUEST else rows.enabled()
        return ours.select_related("instance__queue", "interval", "crontab")

    def schedule_changed(self) -> bool:
        """Return whether an instance was saved since the last look.

        The library asks whether the time stored with the last change is later than at the look
        before, and takes the first look for no change: what is saved while beat reads for the
        first time would wait five minutes, and so would the earlier of two that are saved at once.
        """
        before, self.changed_at = self.changed_at, self.Changes.last_change()
        return self.changed_at != before

    def schedules_equal(self, *_: Any, **__: Any) -> bool:
        """Return whether nothing was read since the heap was made.

        The library compares each entry with itself instead, twice a second.
        """
        is_anew, self._heap_invalidated = self._heap_invalidated, False
        return not is_anew

    def tick(self, *args: Any, **kwargs: Any) -> float:
        """One step; returns seconds until the next. Never raises for an absent database."""
        try:
            if not self._leads():
                return STANDBY_SECONDS
            self._look()
            if self.must_repopulate:
                self.must_repopulate, self._heap = False, None
            pause: float = super().tick(*args, **kwargs)
        except (psycopg.Error, Error) as e:
            self._database_away(e)
            return STANDBY_SECONDS
        self.is_logged = False
        return min(pause, LEAD_SECONDS)

    def apply_async(
        self,
        entry: InstanceEntry,
        producer: Any = None,
        advance: bool = True,
        **kwargs: Any,
    ) -> Any:
        """Act upon the due moment of an instance; other periodic tasks go their usual way."""
        instance = entry.instance
        if instance is None:
            return super().apply_async(entry, producer=producer, advance=advance, **kwargs)
        moment = entry.due_moment(entry.clock.now())
        if moment is None:
            return None
        try:
            self._act(instance, moment)
        except Exception:
            # Celery logs what is raised here and goes on; the moment is tried again.
            entry.model.retry_at = time.monotonic() + RETRY_SECONDS
            self.must_repopulate = True
            raise
        entry.model.acted_at = moment
        return None

    def close(self) -> None:
        """Take leave of the database, or end without: that costs a heartbeat of some seconds."""
        last = threading.Timer(CLOSE_SECONDS, os._exit, (os.EX_TEMPFAIL,))
        last.daemon = True
        last.start()
        try:
            super().close()
            if self.leadership.is_held:
                with self.leadership.session().cursor() as cursor:
                    self.heart.stop(cursor)
            self.leadership.resign()
        finally:
            last.cancel()

    def _act(self, instance: CronInstance, moment: datetime) -> None:
        task = registry.named(instance.task).task
        if not task.has_work() and ticks.pass_over(instance.pk, moment):
            return
        if not task.asks_only:
            ticks.send(instance, moment)
        elif self.workers_alive:
            # Nobody would take the start; asking all night would only fill the broker.
            ticks.tick(instance.pk, moment)

    def _leads(self) -> bool:
        now = time.monotonic()
        if self.leadership.is_held and now - self.stood_at < LEAD_SECONDS:
            return True
        self.stood_at = now
        led = self.leadership.is_held
        leads = self.leadership.stand()
        if leads and not led:
            logger.info("beat leads", extra={"node": self.heart.node})
            self.leads_since = now
            self.looked_at = float("-inf")
            self._read_anew()
        if now - self.beat_at >= BEAT_EVERY_SECONDS or leads != led:
            self.beat_at = now
            with self.leadership.session().cursor() as cursor:
                InstanceEntry.clock.tell(self.heart.beat(cursor, leads=leads))
        return leads

    def _read_anew(self) -> None:
        self._initial_read, self._heap = True, None

    def _look(self) -> None:
        """Look whether any worker lives; beat alone can tell people when none does.

        And whether a moment lies ahead: nothing would run before it has come.
        """
        now = time.monotonic()
        if now - self.looked_at < LOOK_EVERY_SECONDS:
            return
        self.looked_at, term = now, self.leadership.term
        close_old_connections()
        with self.leadership.session().cursor() as cursor:
            self.workers_alive = are_alive(cursor, "worker")
            watched = idle.watched_providers(cursor)
            count = ticks.bring_back(cursor)
        if count:
            logger.warning("moments lay ahead of the database's clock", extra={"count": count})
            self._read_anew()
        if watched != InstanceEntry.watched:
            InstanceEntry.watched, self.must_repopulate = watched, True
        if now - self.leads_since > GRACE_SECONDS:
            book.settle(
                conditions.seen_by_beat(workers_alive=self.workers_alive),
                conditions.kinds_of_beat(workers_alive=self.workers_alive),
                self.courier.wake,
                term=term,
            )

    def _database_away(self, error: Exception) -> None:
        self.leadership.resign()
        connections.close_all()
        if not self.is_logged:
            logger.warning("beat waits for the database", extra={"error": str(error)})
        self.is_logged = True

    def all_as_schedule(self) -> dict[str, InstanceEntry]:
        return {entry.name: entry for entry in self._entries()}

    def _entries(self) -> Iterator[InstanceEntry]:
        for model in self.enabled_models():
            try:
                entry = self.Entry(model, app=self.app)
                entry.is_due()
            except (BadScheduleError, ValueError) as e:
                logger.error(  # noqa: TRY400 - the sentence says it all
                    "a schedule is left out", extra={"task": model.name, "error": str(e)}
                )
            else:
                yield entry
