"""What people decide about runs of bulk jobs in the console: ask, stop, run again; each audited."""

from collections.abc import Mapping
from typing import Any
from uuid import UUID

from django.db import IntegrityError, transaction

from crontasks.bulk import sharing
from crontasks.bulk.asking import Origin, ask, cancel, preview
from crontasks.bulk.catalogue import CATALOGUE, Entry
from crontasks.bulk.driving import again
from crontasks.bulk.errors import unknown
from crontasks.bulk.reach import Asker, within
from integration.actions import configuration
from integration.actions.configuration import Author
from integration.clock import database_now
from integration.errors import IntegrationError
from integration.models import BulkRun
from integration.policy.states import BulkState
from integration.selectors.scope import EVERYTHING
from spark_jobs.contract import Preview


class BulkRunMovedError(IntegrationError):
    """A run is not any more what the person saw."""

    code = "BULK_RUN_MOVED"

    def __init__(self, state: str) -> None:
        super().__init__(
            f"Nothing was done, because the run stands otherwise by now: {BulkState(state).label}.",
            next_step="Look at it as it is shown here.",
        )


def look(job: str, job_request: Mapping[str, Any], asker: Asker) -> Preview:
    """What a run of this job request would meet; nothing is stored. Raises BulkError."""
    return preview(job, within(_entry(job), job_request, asker))


def ask_for(
    job: str, job_request: Mapping[str, Any], asker: Asker, *, number: UUID, reason: str = ""
) -> BulkRun:
    """Store a run under this number, with its sentinel where it reads files. Raises BulkError.

    Whoever asks twice under one number, by a second click, gets the run that is there.
    """
    entry = _entry(job)
    said = within(entry, job_request, asker)
    try:
        with transaction.atomic():
            run = ask(job, said, actor=asker.name, reason=reason, origin=Origin(number))
            if any(said.get(field) for field in entry.files):
                # Before the commit: the driver sees no run without its sentinel.
                sharing.leave(run)
                run.save(update_fields=["sentinel"])
    except IntegrityError:
        known = BulkRun.objects.filter(pk=number).first()
        if known is None:
            raise
        return known
    return run


def ask_by_schedule(
    job: str, job_request: Mapping[str, Any], *, actor: str, instance: int | None
) -> BulkRun:
    """Store a run that a schedule asks for. Raises BulkError.

    Who may store such a schedule was judged when it was stored. Which files it names is judged
    each time: what a link or a pattern leads to may be another file by now.
    """
    said = within(_entry(job), job_request, Asker(name=actor, scope=EVERYTHING, uploads=""))
    return ask(job, said, actor=actor, reason="by schedule", origin=Origin(instance=instance))


def stop(run: BulkRun, author: Author) -> None:
    """End a run that waits, or let the driver end one that runs. Raises BulkRunMovedError."""
    with transaction.atomic():
        # What an earlier try staged is taken away by the driver: that one is left to it.
        waiting = BulkRun.objects.filter(pk=run.pk, state=BulkState.ASKED, epoch=0)
        ended = {"state": BulkState.CANCELLED, "ended_at": database_now()}
        is_ended = bool(waiting.update(**ended, cancel_asked_at=database_now()))
        if not is_ended and not cancel(run.pk):
            raise _moved(run)
        before = {"state": run.state, "cancel_asked": run.cancel_asked_at is not None}
        state = BulkState.CANCELLED if is_ended else BulkState(run.state)
        after = {"state": state.value, "cancel_asked": True}
        configuration.record(run, before, after, author)


def run_again(run: BulkRun, author: Author) -> None:
    """Let a failed or cancelled run go on where it stopped. Raises BulkRunMovedError."""
    with transaction.atomic():
        if not again(run.pk):
            raise _moved(run)
        after = {"state": BulkState.ASKED.value}
        configuration.record(run, {"state": run.state}, after, author)


def _entry(job: str) -> Entry:
    if job not in CATALOGUE:
        raise unknown("bulk job", job)
    return CATALOGUE[job]


def _moved(run: BulkRun) -> BulkRunMovedError:
    run.refresh_from_db(fields=["state"])
    return BulkRunMovedError(run.state)
