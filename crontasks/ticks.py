"""A tick: one moment of one instance, acted upon once however often it arrives."""

import logging
from collections.abc import Iterator, Mapping
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from datetime import datetime, timedelta
from typing import Final

import psycopg
from billiard.exceptions import SoftTimeLimitExceeded
from django.db import transaction
from django.db.models import Case, F, Q, When
from django.db.models.functions import Greatest
from kombu.exceptions import OperationalError

from crontasks import parameters
from crontasks.celery_app import app
from crontasks.cursor import Cursor
from crontasks.definitions import Definition, registry
from crontasks.errors import WorkersUnreachableError
from crontasks.expiry import expires_in
from crontasks.models import CronInstance
from crontasks.outcome import NOTHING, Context, Outcome, RunState
from crontasks.running import history, rights, shutdown, starts
from crontasks.task_names import TICK
from integration.errors import IntegrationError
from integration.sealed import masked
from integration.selectors.deployment import may_act
from integration.store import locks
from integration.store.sessions import database_now, execute, raw_connection

# The hard limit of the Celery task lies this far behind the instance's own.
HARD_LIMIT_SECONDS: Final = 15
# The time a tick waits for a worker before it is worthless.
_EXPIRES_SECONDS: Final = 3_600
# A clock that is right names none beyond what runs meanwhile: see `_own_moment`.
AHEAD_SECONDS: Final = 5
_BRING_BACK: Final = f"""
    UPDATE crontasks_croninstance SET last_scheduled_at = clock_timestamp()
    WHERE last_scheduled_at > clock_timestamp() + make_interval(secs => {AHEAD_SECONDS})"""
_MOVE_ON: Final = """
    UPDATE crontasks_croninstance SET last_scheduled_at = %(moment)s
    WHERE id = %(id)s AND asked_at IS NULL
      AND (last_scheduled_at IS NULL OR last_scheduled_at < %(moment)s)"""
logger = logging.getLogger(__name__)


@dataclass(frozen=True, slots=True)
class RunRequest:
    """A person's request for one run: who asked, and parameters for this run instead of the stored.

    Secrets in them are sealed: they travel through the broker of Celery.
    """

    by: str
    parameters: Mapping[str, object] | None = None

    def lines(self) -> Iterator[str]:
        """Yield the first lines of the run's log."""
        yield f"Requested by {self.by}."
        if self.parameters is not None:
            values = [f"{name} = {value}" for name, value in masked(self.parameters).items()]
            yield f"Other parameters for this run: {', '.join(values) or 'all at their defaults'}."


def tick(instance_id: int, scheduled_at: datetime, request: RunRequest | None = None) -> Outcome:
    """Act upon one moment. A moment that is not newer than the last one is nothing.

    A person's request has its run nevertheless: another moment was only acted upon before it.
    It counts as acted upon from the row of its run on: both are committed together. Raises what
    the database raises when it goes away, or takes no more sessions; the same tick may come again.
    """
    mine = CronInstance.objects.filter(pk=instance_id)
    due = (mine.filter(_is_newer(scheduled_at)) if request is None else mine).first()
    if due is None:
        return NOTHING
    if not registry.named(due.task).task.asks_only:
        return _run_alone(due, scheduled_at, request)
    taken = _take(due, scheduled_at, request)
    if taken is None:
        return NOTHING
    instance, context = taken
    task = registry.named(instance.task).task
    return task().run(parameters.read(task.parameters, instance.parameters), context)


def _take(
    due: CronInstance, scheduled_at: datetime, request: RunRequest | None
) -> tuple[CronInstance, Context] | None:
    """Claim the moment; the instance as it is now and its run's context, None if nothing is due."""
    instance = claim(due.pk, scheduled_at)
    if instance is None and request is not None:
        instance = _overtaken(due.pk, scheduled_at)
    if instance is None or not may_act():
        return None
    context = Context(
        instance_id=instance.pk,
        scheduled_at=scheduled_at,
        actor=instance.actor,
        queue_id=instance.queue_id,
        user=instance.user_with_rights,
        should_stop=shutdown.is_announced,
    )
    if request is not None:
        _take_request(instance, request, context)
    return instance, context


def _take_request(instance: CronInstance, request: RunRequest, context: Context) -> None:
    for line in request.lines():
        context.say(line)
    if request.parameters is not None:
        # For this run only; the instance is not saved by it.
        instance.parameters = dict(request.parameters)


def claim(instance_id: int, scheduled_at: datetime) -> CronInstance | None:
    """Move `last_scheduled_at` to this moment; None when another tick was there before."""
    mine = CronInstance.objects.filter(_is_newer(scheduled_at), pk=instance_id)
    # Of a queue's instance `asked_at` is about the queue's request, whose run this is not.
    asked_at = Case(When(queue__isnull=False, then=F("asked_at")), default=None)
    if mine.update(last_scheduled_at=scheduled_at, asked_at=asked_at) == 0:
        return None
    return CronInstance.objects.select_related("run_as").get(pk=instance_id)


def _overtaken(instance_id: int, scheduled_at: datetime) -> CronInstance | None:
    """Return the instance of a request that a later moment overtook; None if that has its run."""
    with transaction.atomic():
        locked = CronInstance.objects.select_related("run_as").select_for_update(of=("self",))
        instance = locked.filter(pk=instance_id).first()
        if instance is None or instance.runs.filter(scheduled_at=scheduled_at).exists():
            return None
        return instance


def pass_over(instance_id: int, scheduled_at: datetime) -> bool:
    """Move `last_scheduled_at` to this moment without a run; False while a tick is on its way.

    That one is older: after this it would be nothing, also where a person asked for it.
    """
    return execute(_MOVE_ON, {"id": instance_id, "moment": scheduled_at}) > 0


def bring_back(cursor: Cursor) -> int:
    """Let no moment that was acted upon lie ahead of the database's clock; returns how many did.

    A wrong clock has named them: a schedule would stand still until they have come. It counts
    from now on.
    """
    cursor.execute(_BRING_BACK)
    return int(cursor.rowcount)


def _is_newer(scheduled_at: datetime) -> Q:
    return Q(last_scheduled_at__isnull=True) | Q(last_scheduled_at__lt=scheduled_at)


def send(instance: CronInstance, scheduled_at: datetime, request: RunRequest | None = None) -> None:
    """Send a tick to the workers, with the instance's time limits. Raises OperationalError."""
    # A worker of the release before knows two arguments.
    more = () if request is None else (request.by, request.parameters)
    app.send_task(
        TICK,
        (instance.pk, scheduled_at.isoformat(), *more),
        headers=expires_in(_EXPIRES_SECONDS),
        soft_time_limit=instance.timeout_seconds,
        time_limit=instance.timeout_seconds + HARD_LIMIT_SECONDS,
    )
    # A worker may have begun it by now, and would not take back what is written after that.
    waiting = CronInstance.objects.filter(_is_newer(scheduled_at), pk=instance.pk)
    waiting.update(asked_at=database_now())


def run_now(instance: CronInstance, request: RunRequest) -> None:
    """A person's "run now": a moment of its own, also for an instance that is not active.

    A queue's is a request, which is sent once it is committed. All else is sent at once: should the
    caller's transaction be rolled back then, one run too many begins, and none is lost. Raises
    WorkersUnreachableError, CronInstance.DoesNotExist.
    """
    if instance.queue_id is not None:
        starts.ask_on_commit(instance.queue_id)
        return
    try:
        if registry.named(instance.task).task.asks_only:
            tick(instance.pk, _own_moment(instance), request)
        else:
            send(instance, _own_moment(instance), request)
    except OperationalError as failure:
        raise WorkersUnreachableError from failure


def _own_moment(instance: CronInstance) -> datetime:
    """Now, and newer than the last moment: that one was named by another host's clock."""
    newer = F("last_scheduled_at") + timedelta(milliseconds=1)
    mine = CronInstance.objects.filter(pk=instance.pk)
    moment: datetime = mine.values_list(Greatest(database_now(), newer), flat=True).get()
    return moment


def _run_alone(due: CronInstance, scheduled_at: datetime, request: RunRequest | None) -> Outcome:
    # The lock's session first: where the server takes no more of them, the moment is not lost.
    with _busy(due) as is_free:
        with transaction.atomic():
            taken = _take(due, scheduled_at, request)
            if taken is None:
                return NOTHING
            instance, context = taken
            if not is_free:
                logger.info(
                    "skipped, the previous run is still in progress",
                    extra={"instance": instance.name},
                )
                if request is not None:
                    history.note_not_begun(instance, context)
                return NOTHING
            run = history.begin(instance, context)
        outcome = _outcome(instance, registry.named(instance.task), context)
        history.end(run, outcome, context)
        return outcome


def _outcome(instance: CronInstance, definition: Definition, context: Context) -> Outcome:
    try:
        rights.check(instance, definition)
        settings = parameters.read(definition.task.parameters, instance.parameters)
        return definition.task().run(settings, context)
    except SoftTimeLimitExceeded:
        text = f"Stopped at its time limit of {instance.timeout_seconds:,} seconds."
        return Outcome(text=text, state=RunState.TIMED_OUT)
    except IntegrationError as e:
        logger.warning("cron task failed", extra={"instance": instance.name, "code": e.code})
        return Outcome(text=f"{e.code}: {e}", state=RunState.FAILED)
    except Exception as e:
        # The task is anybody's code; whatever it raises is shown on the run's page.
        logger.exception("cron task failed", extra={"instance": instance.name})
        return Outcome(text=f"{type(e).__name__}: {e}", state=RunState.FAILED)


@contextmanager
def _busy(instance: CronInstance) -> Iterator[bool]:
    """Hold the run's lock, which ends with the process; yields whether this run may work."""
    shared = instance.overlap == CronInstance.Overlap.ALLOW
    statement = locks.TRY_SHARED if shared else locks.TRY
    session = raw_connection(f"sluice cron instance {instance.pk}")
    try:
        row = session.execute(statement, (locks.LockClass.INSTANCE, instance.pk)).fetchone()
        yield row is not None and bool(row[0])
    finally:
        # A session that is closed gives its locks back when the server comes to it; the next run
        # may ask before that.
        with suppress(psycopg.Error):
            session.execute(locks.RELEASE_ALL)
        session.close()
