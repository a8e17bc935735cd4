"""The turn of an operation inside a Celery task, and the request for the next one.

A request is `asked_at` of the operation's row, and the Celery task carries that very time, as
with queues: what is left over ends at once, and what was lost is asked for again.
"""

import logging
import time
from collections.abc import Callable
from datetime import datetime
from typing import Final
from uuid import UUID

from kombu.exceptions import OperationalError

from crontasks.celery_app import app
from crontasks.cursor import Cursor
from crontasks.running import outage, starts
from crontasks.running.turns import Stop
from crontasks.task_names import RUN_OPERATION
from integration.actions.errors import RowBusyError
from integration.actions.operation_items import (
    WHY_CHARACTERS,
    Job,
    Observe,
    OperationStep,
    work,
)
from integration.documents.refusals import plain_text
from integration.models import Operation
from integration.policy.moves import READS_CONTENT
from integration.policy.operations import (
    BURST_SECONDS,
    CHUNK_ROWS,
    EDIT_ROWS,
    FIRST_ROWS,
    Pace,
)
from integration.policy.states import OperationState
from integration.recipe_rules import rules_now
from integration.recipe_use import Rules
from integration.selectors.masking.rules import masked_queues
from integration.store import operations as store
from integration.store.operation_stops import stop_if_failing
from integration.store.operations import Tenure
from integration.store.sessions import django_connection, fetch_all
from integration.worker import worker_name

# As with queues (crontasks.running.starts): a lost Celery task costs ten seconds and nothing else.
REISSUE_SECONDS: Final = 10
TURN_SECONDS: Final = 8.0
NO_QUEUE: Final = 0
_PIECE_SECONDS: Final = 0.2
# Rows that somebody holds for longer than this are skipped: "in work"; and an edit whose schema
# registry does not answer for so long is paused.
_PATIENCE_SECONDS: Final = 3.0
_ASK_QUEUE_EVERY_SECONDS: Final = 1.0
_LOOK_EVERY_SECONDS: Final = 1.0

_ASK: Final = """
    UPDATE integration_operation SET asked_at = clock_timestamp()
    WHERE id IN (
        SELECT id FROM integration_operation
        WHERE state = 'RUNNING' AND (lease_until IS NULL OR lease_until < clock_timestamp())
          AND (asked_at IS NULL
               OR asked_at < clock_timestamp() - make_interval(secs => {seconds})){more}
        ORDER BY asked_at NULLS FIRST, id FOR UPDATE SKIP LOCKED
    )
    RETURNING id, asked_at"""
# Asked twice a second: without parameters, for a statement with some is planned anew each time.
_ASK_ALL: Final = _ASK.format(seconds=REISSUE_SECONDS, more="")
_ASK_ONE: Final = _ASK.format(seconds=REISSUE_SECONDS, more=" AND id = %s")
_STANDS: Final = "SELECT 1 FROM integration_operation WHERE id = %s AND asked_at = %s"
_TAKE_BACK: Final = "UPDATE integration_operation SET asked_at = NULL WHERE id = ANY(%s)"
logger = logging.getLogger(__name__)


def ask(cursor: Cursor, operation_id: UUID | None = None) -> list[UUID]:
    """Send every running operation that nobody works on to the workers; returns their ids."""
    if operation_id is None:
        cursor.execute(_ASK_ALL)
    else:
        cursor.execute(_ASK_ONE, (operation_id,))
    unsent: dict[UUID, datetime] = dict(cursor.fetchall())
    due = list(unsent)
    try:
        for id_ in due:
            arguments = (str(id_), unsent[id_].isoformat())
            app.send_task(RUN_OPERATION, arguments)
            del unsent[id_]
    except OperationalError as e:
        cursor.execute(_TAKE_BACK, (list(unsent),))
        logger.warning("operations not sent, no answer from the broker", extra={"error": str(e)})
    return [id_ for id_ in due if id_ not in unsent]


def serve_operation(operation_id: UUID, asked_at: datetime | None = None) -> None:
    """One turn of an operation, unless the request for it was served or repeated meanwhile."""
    if asked_at is not None and not fetch_all(_STANDS, (operation_id, asked_at)):
        return
    if run_operation(operation_id) is OperationState.RUNNING:
        with django_connection().cursor() as cursor:
            ask(cursor, operation_id)


def _silent(_: OperationStep) -> None:
    """Nobody watches."""


def run_operation(
    operation_id: UUID,
    *,
    stop: Callable[[], str | None] | None = None,
    observe: Observe = _silent,
    turn_seconds: float = TURN_SECONDS,
) -> OperationState | None:
    """Work on an operation until it ends, a person stops it, or its turn is over.

    Returns the state it was left in, None when somebody else works on it or none may. `stop` is
    asked between chunks and returns a reason to give way, or None.
    """
    tenure = store.take(operation_id, worker_name())
    if tenure is None:
        return None
    observe(OperationStep.TAKEN)
    operation = Operation.objects.get(pk=operation_id)
    job = Job(
        operation, rules_now(masked_queues()) if operation.verb == "edit" else Rules(), observe
    )
    try:
        Turn(job, tenure, stop or Stop(NO_QUEUE), turn_seconds).run()
    except Exception as e:
        if outage.is_of_database(e):
            raise  # The lease runs out, and the next runner goes on.
        # The runner's outermost loop: what fails once would fail again and again.
        logger.exception("an operation could not go on", extra={"operation": str(operation_id)})
        store.step_back(tenure, plain_text(f"{type(e).__name__}: {e}")[:WHY_CHARACTERS])
    state = store.leave(tenure)
    observe(OperationStep.LEFT)
    return state


class Turn:
    """One hold on an operation: chunk after chunk, at its rate."""

    def __init__(
        self, job: Job, tenure: Tenure, stop: Callable[[], str | None], turn_seconds: float
    ) -> None:
        self.job = job
        self.tenure = tenure
        self.stop = stop
        self.ends_at = time.monotonic() + turn_seconds
        idle = BURST_SECONDS if tenure.idle_seconds is None else tenure.idle_seconds
        self.rate = job.operation.rate
        self.pace = Pace(self.rate, time.monotonic(), idle)
        self.most = EDIT_ROWS if job.operation.verb in READS_CONTENT else CHUNK_ROWS
        self.has_worked = False
        self.from_place = 0
        self.moved_at = time.monotonic()
        self.asked: dict[int, float] = {}
        self.looked_at = float("-inf")

    def run(self) -> None:
        while not self._is_over():
            if self._stops_itself():
                return
            self.pace.at(time.monotonic(), self.rate)
            most = self.pace.next(self.most if self.has_worked else min(self.most, FIRST_ROWS))
            if not (self._chunk(most) if most else self._wait()):
                return

    def _stops_itself(self) -> bool:
        """Looked at once a second, and first of all: what failed since the last turn counts."""
        now = time.monotonic()
        has_rule = self.job.operation.has_stop_rule
        if not has_rule or now - self.looked_at < _LOOK_EVERY_SECONDS:
            return False
        self.looked_at = now
        return stop_if_failing(self.tenure)

    def _wait(self) -> bool:
        """Let the rate have its time; the operation is kept meanwhile, and people are heard."""
        orders = store.fence(self.tenure, works=False)
        if orders is None:
            return False
        self.rate = orders.rate
        time.sleep(min(self.pace.wait_seconds(), _PIECE_SECONDS))
        return True

    def _is_over(self) -> bool:
        """A turn that ended before it did anything would let a ring of them pass on and on."""
        return self.has_worked and (time.monotonic() > self.ends_at or self.stop() is not None)

    def _chunk(self, most: int) -> bool:
        is_patient = time.monotonic() - self.moved_at < _PATIENCE_SECONDS
        try:
            chunk = work(
                self.job, self.tenure, most, from_place=self.from_place, patient=is_patient
            )
        except RowBusyError:
            return True
        self.pace.took(chunk.done)
        self.rate = chunk.rate
        self.has_worked = True
        if chunk.handled:
            self.moved_at = time.monotonic()
        elif chunk.is_ours:
            time.sleep(_PIECE_SECONDS)
        self.from_place = max(self.from_place, chunk.from_place)
        self._ask_queues(chunk.queues)
        return chunk.is_ours

    def _ask_queues(self, queues: frozenset[int]) -> None:
        """Ask now, and not leave it to the dispatcher: the first message is to be tried at once."""
        now = time.monotonic()
        for queue_id in queues:
            if now - self.asked.get(queue_id, float("-inf")) >= _ASK_QUEUE_EVERY_SECONDS:
                self.asked[queue_id] = now
                starts.ask(queue_id)
