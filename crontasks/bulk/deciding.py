"""Decisions about a stored run of a bulk job: it is cancelled, goes on, or is given up."""

from functools import partial
from uuid import UUID

from django.db import transaction

from crontasks.bulk import sending
from crontasks.bulk.masking import refuse_going_on
from integration.actions import configuration
from integration.actions.configuration import Author
from integration.errors import IntegrationError
from integration.models import BulkRun
from integration.policy.states import BulkState
from integration.selectors.bulk.runs import LEASE, OPEN
from integration.store.sessions import database_now
from spark_jobs.archive import unfinished
from spark_jobs.archive.parameters import ArchiveParameters


class BulkRunMovedError(IntegrationError):
    """A run is not any more what the person saw."""

    code = "BULK_RUN_MOVED"

    def __init__(self, state: str) -> None:
        super().__init__(
            f"Nothing was done, because the run stands otherwise by now: {BulkState(state).label}.",
            next_step="Look at it as it is shown here.",
        )


def cancel(run: UUID) -> bool:
    """Ask a run to stop; False when it has ended. One that never began ends with that."""
    now = database_now()
    # What an earlier try staged is taken away by the driver: that one is left to it.
    unbegun = BulkRun.objects.filter(pk=run, state=BulkState.ASKED, epoch=0)
    ended = {"state": BulkState.CANCELLED, "ended_at": now, "lease_until": None}
    if unbegun.update(cancel_asked_at=now, **ended):
        return True
    still = BulkRun.objects.filter(pk=run, state__in=OPEN, applied=False)
    return bool(still.update(cancel_asked_at=now))


def again(run: UUID, *, send: bool = True) -> bool:
    """Let a run that failed or was cancelled be driven again; it goes on where it stopped.

    With `send` by the Spark driver, else by the caller, who drives it at once.
    """
    now = database_now()
    ended = BulkRun.objects.filter(pk=run, state__in=[BulkState.FAILED, BulkState.CANCELLED])
    is_open = ended.update(
        state=BulkState.ASKED,
        cancel_asked_at=None,
        problem=None,
        ended_at=None,
        deaths=0,
        sent_at=now if send else None,
        lease_until=None if send else now + LEASE,
    )
    if is_open and send:
        transaction.on_commit(partial(sending.send, run))
    return bool(is_open)


def give_up(run: UUID, author: Author) -> bool:
    """Give up an archive that cannot be brought to its end, audited; False where it is none.

    Only one that failed or was cancelled. Others of its kind no longer wait for what it left at a
    place that is gone, and the cleanup may remove it. `again` takes that back.
    """
    ended = BulkRun.objects.filter(
        pk=run, job=ArchiveParameters.JOB, state__in=[BulkState.FAILED, BulkState.CANCELLED]
    )
    with transaction.atomic():
        row = ended.select_for_update().first()
        if row is None:
            return False
        before = {"problem": row.problem}
        row.problem = list(sending.as_problem(unfinished.GIVEN_UP))
        row.save(update_fields=["problem"])
        configuration.record(row, before, {"problem": row.problem}, author)
    return True


def cancel_in_console(run: BulkRun, author: Author) -> None:
    """Cancel it, audited. Raises BulkRunMovedError."""
    with transaction.atomic():
        _lock(run)
        before = {"state": run.state, "cancel_asked": run.cancel_asked_at is not None}
        if not cancel(run.pk):
            raise BulkRunMovedError(run.state)
        run.refresh_from_db(fields=["state"])
        configuration.record(run, before, {"state": run.state, "cancel_asked": True}, author)


def again_in_console(run: BulkRun, author: Author, *, may_reveal: bool = False) -> None:
    """Let it go on, audited. Raises BulkRunMovedError, BulkError.

    Whoever may not reveal masked values lets go on only what they might ask for now.
    """
    if not may_reveal:
        refuse_going_on(run)
    with transaction.atomic():
        _lock(run)
        if not again(run.pk):
            raise BulkRunMovedError(run.state)
        configuration.record(run, {"state": run.state}, {"state": BulkState.ASKED.value}, author)


def _lock(run: BulkRun) -> None:
    """Read its state anew, which nobody changes until the end of the transaction."""
    locked = BulkRun.objects.select_for_update()
    run.refresh_from_db(fields=["state", "cancel_asked_at"], from_queryset=locked)
