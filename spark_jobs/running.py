"""Runs one job in a session: the same for the driver, the command line and spark-submit."""

import re
from collections.abc import Callable, Mapping
from typing import TYPE_CHECKING, Final, NamedTuple

import psycopg

from integration.documents.refusals import plain_text
from spark_jobs.archive import job as archive
from spark_jobs.archive import preview as archive_preview
from spark_jobs.contract import Arguments, JobState, Preview, Report, Tell
from spark_jobs.errors import JobError, Stopped, balance, spark_died
from spark_jobs.exports import job as exports
from spark_jobs.exports import preview as export_preview
from spark_jobs.fencing import Outcome, own
from spark_jobs.imports import job as imports
from spark_jobs.imports import preview as import_preview
from spark_jobs.reconcile import job as reconcile
from spark_jobs.reconcile import preview as reconcile_preview
from spark_jobs.repairs import job as repairs
from spark_jobs.repairs import preview as repair_preview
from spark_jobs.replay import job as replay
from spark_jobs.replay import preview as replay_preview
from spark_jobs.session import is_alive
from spark_jobs.work import Work

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

# Python's exceptions in a trace, not those of the JVM around it.
_RAISED: Final = re.compile(r"^(?!org\.|java\.)[A-Za-z_][\w.]*: .*$", re.MULTILINE)


class Job(NamedTuple):
    """A job: how it runs in a session, and what it would meet, which needs no session."""

    run: Callable[[Work], Outcome]
    preview: Callable[[Arguments], Preview]


JOBS: Final[Mapping[str, Job]] = {
    "import": Job(imports.run, import_preview.preview),
    "repair": Job(repairs.run, repair_preview.preview),
    "reconcile": Job(reconcile.run, reconcile_preview.preview),
    "export": Job(exports.run, export_preview.preview),
    "archive": Job(archive.run, archive_preview.preview),
    "replay": Job(replay.run, replay_preview.preview),
}


def loaded(_place: int) -> None:
    """A task that does nothing: what jobs import, a worker of Python has from then on."""


def run(session: "SparkSession", arguments: Arguments, tell: Tell) -> Report:
    """Run the job to its end. Whatever stops it is told in the report, and never raised."""
    try:
        return _done(session, arguments, tell)
    except Stopped:
        return _ended(arguments, JobState.CANCELLED)
    except JobError as e:
        return _ended(arguments, JobState.FAILED, e)
    except Exception as e:  # noqa: BLE001 - of Spark, of the database, of a task: all are told
        return _ended(arguments, JobState.FAILED, unforeseen(e) if is_alive() else spark_died())


def preview(arguments: Arguments) -> Preview:
    """Preview what the job would meet; nothing is written, and no Spark is needed.

    Raises JobError, also for what nobody foresaw.
    """
    try:
        return _job(arguments.job).preview(arguments)
    except JobError:
        raise
    except Exception as e:
        raise unforeseen(e) from e


def _job(name: str) -> Job:
    if name in JOBS:
        return JOBS[name]
    names = ", ".join(sorted(JOBS))
    raise JobError("UNKNOWN_JOB", f"There is no job {name!r}.", f"Name one of {names}.")


def _done(session: "SparkSession", arguments: Arguments, tell: Tell) -> Report:
    """The report of a run that came to its end, now or under a driver before this one."""
    job = _job(arguments.job)
    with psycopg.connect(arguments.database, autocommit=True) as database:
        owned = own(database, arguments)
        if owned.applied:
            counts, facts = owned.counts, owned.facts
        else:
            counts, facts = job.run(Work(session, arguments, tell, database, owned))
    balance(counts)
    return Report(
        job=arguments.job,
        run=arguments.run,
        state=JobState.DONE,
        read=counts["read"],
        sent=counts["sent"],
        rejected=counts["rejected"],
        skipped=counts["skipped"],
        facts=facts,
    )


def _ended(arguments: Arguments, state: JobState, problem: JobError | None = None) -> Report:
    why = None
    if problem is not None:
        why = problem.code, plain_text(problem.text), problem.next_step
    return Report(job=arguments.job, run=arguments.run, state=state, problem=why)


def unforeseen(failure: Exception) -> JobError:
    """A failure nobody foresaw; in Spark's long traces the line of Python's that raised it."""
    if isinstance(failure, psycopg.Error):
        text = failure.diag.message_primary or str(failure)
    else:
        raised = _RAISED.findall(str(failure))
        text = raised[-1] if raised else str(failure) or type(failure).__name__
    next_step = "Look into the driver's log; a rerun reads the same rows again."
    return JobError("JOB_FAILED", text[:500], next_step)
