"""Asking for a run of a bulk job; everything it needs is fixed and stored before it starts."""

from collections.abc import Mapping
from typing import Any
from uuid import UUID

from crontasks.bulk.catalogue import CATALOGUE
from crontasks.bulk.errors import BulkError, bad_wish, unknown
from crontasks.bulk.telling import arguments_of
from crontasks.errors import BadParametersError
from crontasks.parameters import read
from integration.clock import database_now
from integration.models import BulkRun
from integration.store.sessions import next_arrival
from spark_jobs import running
from spark_jobs.contract import Preview
from spark_jobs.problems import JobError


def ask(job: str, wish: Mapping[str, Any], *, actor: str, reason: str = "") -> BulkRun:
    """Store a run of the job, its arrival number drawn if it needs one. Raises BulkError.

    `wish` is JSON: the fields of the job's wish in the catalogue.
    """
    run = _prepared(job, wish)
    if "arrival" in run.parameters:
        run.parameters["arrival"] = next_arrival()
    run.actor, run.reason, run.asked_at = actor, reason, database_now()
    run.save(force_insert=True)
    return run


def preview(job: str, wish: Mapping[str, Any]) -> Preview:
    """What a run would meet; nothing is stored or written. Raises BulkError."""
    try:
        return running.preview(arguments_of(_prepared(job, wish)))
    except JobError as e:
        raise BulkError(e) from e


def cancel(run: UUID) -> bool:
    """Ask a run to stop; False when it has ended."""
    still = BulkRun.objects.filter(pk=run, state__in=["ASKED", "RUNNING"], applied=False)
    return bool(still.update(cancel_asked_at=database_now()))


def _prepared(job: str, wish: Mapping[str, Any]) -> BulkRun:
    if job not in CATALOGUE:
        raise unknown("bulk job", job)
    entry = CATALOGUE[job]
    try:
        parameters = entry.prepare(read(entry.wish, wish))
    except JobError as e:
        raise BulkError(e) from e
    except BadParametersError as e:
        raise bad_wish(" ".join(e.mistakes).rstrip(".")) from e
    return BulkRun(job=job, wish=dict(wish), parameters=parameters)
