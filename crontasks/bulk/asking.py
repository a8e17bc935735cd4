"""Asking for a run of a bulk job; everything it needs is fixed and stored before it starts."""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Final
from uuid import UUID

from django.db import transaction

from crontasks.bulk import sending
from crontasks.bulk.catalogue import CATALOGUE
from crontasks.bulk.errors import BulkError, bad_job_request, unknown
from crontasks.bulk.reach import queues_of
from crontasks.bulk.sending import LEASE
from crontasks.bulk.telling import arguments_of
from crontasks.errors import BadParametersError
from crontasks.parameters import read
from integration.actions import configuration
from integration.actions.configuration import Author
from integration.clock import database_now
from integration.models import BulkRun
from integration.store.sessions import next_arrival
from spark_jobs import running
from spark_jobs.contract import Preview
from spark_jobs.problems import JobError


@dataclass(frozen=True, slots=True)
class Origin:
    """Where a run is asked for.

    `number` is its id, drawn with a form, so that one that is sent twice asks once; `instance` is
    the cron instance that asks.
    """

    number: UUID | None = None
    instance: int | None = None


NOWHERE: Final = Origin()


def ask(
    job: str,
    job_request: Mapping[str, Any],
    *,
    actor: str,
    reason: str = "",
    origin: Origin = NOWHERE,
    send: bool = True,
) -> BulkRun:
    """Store a run of the job, its arrival number drawn if it needs one. Raises BulkError.

    `job_request` is JSON, with the fields that the catalogue has for the job. The run is sent to
    the Spark driver once it is committed; without `send` it is kept for the caller, who drives it.
    Raises IntegrityError where there is a run of the origin's number.
    """
    run = _prepared(job, job_request)
    run.pk, run.instance = origin.number or run.pk, origin.instance
    if "arrival" in run.parameters:
        run.parameters["arrival"] = next_arrival()
    run.actor, run.reason, run.asked_at = actor, reason, database_now()
    run.lease_until = None if send else database_now() + LEASE
    with transaction.atomic():
        run.save(force_insert=True)
        # What was asked stands in the run itself: it may hold what not everybody may see.
        configuration.record(run, None, {"job": job}, Author(actor, reason))
        if send:
            sending.after_commit(run.pk)
    return run


def preview(job: str, job_request: Mapping[str, Any]) -> Preview:
    """What a run would meet; nothing is stored or written. Raises BulkError."""
    try:
        return running.preview(arguments_of(_prepared(job, job_request)))
    except JobError as e:
        raise BulkError(e) from e


def cancel(run: UUID) -> bool:
    """Ask a run to stop; False when it has ended. One that never began ends with that."""
    now = database_now()
    unbegun = BulkRun.objects.filter(pk=run, state="ASKED", epoch=0)
    if unbegun.update(state="CANCELLED", cancel_asked_at=now, ended_at=now, lease_until=None):
        return True
    still = BulkRun.objects.filter(pk=run, state__in=["ASKED", "RUNNING"], applied=False)
    return bool(still.update(cancel_asked_at=now))


def _prepared(job: str, job_request: Mapping[str, Any]) -> BulkRun:
    if job not in CATALOGUE:
        raise unknown("bulk job", job)
    entry = CATALOGUE[job]
    try:
        parameters = entry.prepare(read(entry.job_request, job_request))
    except JobError as e:
        raise BulkError(e) from e
    except BadParametersError as e:
        raise bad_job_request(" ".join(e.mistakes).rstrip(".")) from e
    return BulkRun(
        job=job,
        job_request=dict(job_request),
        parameters=parameters,
        queues=queues_of(entry, job_request),
    )
