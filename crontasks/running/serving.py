"""The run of a queue, or the relay, inside a Celery task, from entrance to history."""

import logging
import threading
from collections import Counter
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from datetime import datetime
from typing import Any, Final

from celery import current_task
from django.conf import settings
from django.utils import timezone
from django.utils.module_loading import import_string

from crontasks.models import CronInstance
from crontasks.outcome import RunState
from crontasks.running import history, idle, outage, shutdown, starts
from crontasks.running.turns import Stop
from integration import log_fields
from integration.delivery.report import RunEnding
from integration.store.sessions import django_connection, execute

ARRIVALS: Final = "integration.runs.arrivals.arrivals_of"
# After these the queue may have something to do that no state and no watch announces.
_GOES_ON: Final = frozenset({RunEnding.STOPPED, RunEnding.LOST})
# Waits for nobody who works at the relay's instance, such as a configuration file that is being
# applied: what is asked once too often changes nothing.
_ANSWERED: Final = """
UPDATE crontasks_croninstance SET asked_at = NULL WHERE id IN (
  SELECT id FROM crontasks_croninstance WHERE task = 'relay' FOR UPDATE SKIP LOCKED)"""
logger = logging.getLogger(__name__)


@dataclass(frozen=True, slots=True)
class Broken:
    """The report of a run that the engine itself could not complete."""

    text: str
    ending: str = RunState.FAILED
    counts: Mapping[str, int] = field(default_factory=Counter)
    drained: bool = False


def _entrance(path: str) -> Callable[..., Any]:
    """Imported here and not above: Kafka clients come into being after the fork."""
    entrance: Callable[..., Any] = import_string(path)
    return entrance


def serve_queue(queue_id: int, requested_at: datetime | None = None) -> None:
    """Run the queue until it ends, write down what it did, and ask again if it goes on.

    A start whose request was served or repeated meanwhile does nothing; one without a request
    runs in any case. Raises what the database raised when it goes away.
    """
    if requested_at is not None and not starts.stands(queue_id, requested_at):
        return
    started_at = timezone.now()
    report: history.Report
    try:
        with log_fields.of_run(_run()):
            report = _entrance(settings.SLUICE_ENGINE)(queue_id, stop=Stop(queue_id))
    except Exception as e:
        if outage.is_of_database(e):
            raise  # Nothing can be written down now, and nothing is broken in the run itself.
        # The process's outermost loop: the run is over either way; its owner row, if it left
        # one, is found by the dispatcher, and the next tick tries again.
        logger.exception("a run could not be completed", extra={"queue": queue_id})
        report = Broken(f"{type(e).__name__}: {e}")
    history.note_consumer(queue_id, report, started_at)
    if _goes_on(report, queue_id, started_at):
        starts.ask(queue_id, was_mine=True)


def _run() -> log_fields.Fields:
    """The run as Celery's own log lines name it; nothing where no Celery task runs it."""
    request = getattr(current_task, "request", None)
    return {} if request is None else {"run": str(request.id)}


def _goes_on(report: history.Report, queue_id: int, since: datetime) -> bool:
    """Return whether a next run is to follow this one.

    Where idle queues are watched, none follows one that had read everything, even if it had to
    give way: the next message starts a run. Else idle queues would hand on the slots in a ring.
    Where they are not, a schedule that came around meanwhile keeps the queue attached.
    """
    if report.ending in _GOES_ON:
        return True
    if report.ending not in {RunEnding.YIELDED, RunEnding.DRAINED}:
        return False
    with django_connection().cursor() as cursor:
        if report.drained and idle.is_watched(cursor, queue_id):
            return False
    if report.ending == RunEnding.YIELDED:
        return True
    return CronInstance.objects.filter(
        queue=queue_id, active=True, last_scheduled_at__gte=since
    ).exists()


def serve_relay() -> None:
    """Relay every provider's outbox until the worker shuts down or another relay holds it.

    Beside that it watches the idle queues, which needs no process of its own.
    """
    execute(_ANSWERED)
    over = threading.Event()
    watch = idle.IdleWatch(_entrance(ARRIVALS))
    arguments = (lambda: over.is_set() or shutdown.is_announced(),)
    thread = threading.Thread(target=watch.run, args=arguments, name="idle watch")
    thread.start()
    try:
        _entrance(settings.SLUICE_RELAY)(shutdown.is_announced)
    finally:
        over.set()
        thread.join()
