"""Asking for a run of a bulk job: judged for who asks, and stored with all that it needs.

The command line may name any file of its machine; the console names files of the shared folder
alone.
"""

from collections.abc import Mapping
from dataclasses import dataclass
from functools import partial
from typing import Any
from uuid import UUID

from django.conf import settings
from django.db import IntegrityError, transaction
from psycopg.conninfo import make_conninfo

from crontasks.bulk import sending, storage
from crontasks.bulk.catalogue import CATALOGUE, Entry
from crontasks.bulk.errors import BulkError, bad_job_request, unknown
from crontasks.bulk.masking import (
    masked_by_schedule,
    refuse_masked,
    refuse_source,
    refuse_telling,
)
from crontasks.errors import BadParametersError
from crontasks.parameters import read
from integration.actions import configuration
from integration.actions.configuration import Author
from integration.kafka.client import connection
from integration.models import BulkRun, Provider, Queue
from integration.plain import is_storable
from integration.selectors.bulk.runs import LEASE
from integration.selectors.scope import EVERYTHING, Scope
from integration.store.sessions import (
    database_now,
    django_connection,
    next_arrival,
)
from sluice.database import SERVER_OPTIONS, place_of
from spark_jobs import running
from spark_jobs.contract import Arguments, Preview
from spark_jobs.errors import JobError
from spark_jobs.storage import is_object


@dataclass(frozen=True, slots=True, kw_only=True)
class Asker:
    """A person who asks: the name for the history, their scope, and where their uploads lie.

    `may_see`: whether they may see payloads; `may_reveal`: masked values, too, with a reason.
    """

    name: str
    scope: Scope = EVERYTHING
    uploads: str = ""
    may_see: bool = True
    may_reveal: bool = False

    @property
    def folder(self) -> str:
        """The part of the folder that they may read: people with limits only what is their own."""
        return "" if self.scope == EVERYTHING else self.uploads


def preview(job: str, job_request: Mapping[str, Any]) -> Preview:
    """Look at the rows that a run would meet; nothing is stored or written. Raises BulkError."""
    return _looked_at(_made(_entry(job), job_request))


def preview_in_console(entry: Entry, job_request: Mapping[str, Any], asker: Asker) -> Preview:
    """The same for a person, as far as they may learn of those rows. Raises BulkError."""
    run = _made(entry, within(entry, job_request, asker))
    if not asker.may_reveal:
        refuse_telling(run)
    return _looked_at(run)


def _looked_at(run: BulkRun) -> Preview:
    try:
        return running.preview(arguments_of(run))
    except JobError as e:
        raise BulkError.of(e) from e


def ask(
    job: str, job_request: Mapping[str, Any], *, actor: str, reason: str = "", send: bool = True
) -> BulkRun:
    """Store a run of the job, its arrival number drawn if it needs one. Raises BulkError.

    `job_request` is JSON, with the fields that the catalogue has for the job. The run is sent to
    the Spark driver once it is committed; without `send` it is kept for the caller, who drives it.
    """
    run = _made(_entry(job), job_request)
    # Whoever has this machine's terminal has its database; for the history they say why.
    refuse_masked(run, may_reveal=True, reason=reason)
    return _stored(run, Author(actor, reason), send=send)


def ask_in_console(
    entry: Entry, job_request: Mapping[str, Any], asker: Asker, *, number: UUID, reason: str = ""
) -> BulkRun:
    """Store a run under this number, with its sentinel where it reads files. Raises BulkError.

    Whoever asks twice under one number, by a second click, gets the run that is there.
    """
    run = _made(entry, within(entry, job_request, asker))
    refuse_masked(run, may_reveal=asker.may_reveal, reason=reason)
    run.pk = number
    try:
        with transaction.atomic():
            _stored(run, Author(asker.name, reason))
            if any(_is_shared_file(run.job_request.get(field)) for field in entry.files):
                # Before the commit: the driver sees no run without its sentinel.
                storage.leave_sentinel(run)
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

    Who may store such a schedule, and read what jobs wrote, was judged when it was stored. Which
    files it names is judged each time: what a link or a pattern leads to may be another file by
    now. So is whether an archive is masked: there may be a rule by now.
    """
    entry = _entry(job)
    meant = masked_by_schedule(job, job_request)
    run = _made(entry, within(entry, meant, Asker(name=actor, may_reveal=True)))
    # Nobody gives a reason by schedule.
    refuse_masked(run, may_reveal=False, reason="", is_scheduled=True)
    run.instance = instance
    return _stored(run, Author(actor, "by schedule"))


def within(entry: Entry, job_request: Mapping[str, Any], asker: Asker) -> dict[str, Any]:
    """The job request with its files by their whole path.

    Raises BulkError OUT_OF_REACH, UNKNOWN_QUEUE for a queue that this person may not know of,
    OUTSIDE_FOLDER, OUTSIDE_PLACES, BAD_STORAGE_NAME, TOO_MANY_FILES, NO_BULK_ROOT, MASKED_SOURCE,
    BAD_PARAMETERS.
    """
    _refuse_unstorable(job_request)
    if asker.scope != EVERYTHING:
        _refuse_out_of_reach(entry, job_request, asker.scope)
    if not asker.may_see:
        _refuse_handing_out(entry, job_request)
    files = {
        field: storage.source_inside(str(job_request[field]), asker.folder)
        for field in entry.files
        if job_request.get(field)
    }
    if not asker.may_reveal:
        for source in files.values():
            refuse_source(source)
    targets = {
        field: storage.target_inside(str(job_request[field]))
        for field in entry.targets
        if job_request.get(field)
    }
    return {**job_request, **files, **targets}


def _refuse_unstorable(job_request: Mapping[str, Any]) -> None:
    """Before anybody asks the database or the file system for what neither can name."""
    for name, value in job_request.items():
        if not is_storable(name) or (isinstance(value, str) and not is_storable(value)):
            raise bad_job_request(
                f"{name[:60]!r} holds a NUL character or half of a character (a lone surrogate)"
            )


def _refuse_handing_out(entry: Entry, job_request: Mapping[str, Any]) -> None:
    """Files in the shared folder are downloaded from here; those of a storage are there at once."""
    for field in entry.targets:
        if job_request.get(field):
            why = f"{job_request[field]} would take payloads, and you may not see payloads."
            raise BulkError("OUT_OF_REACH", why, "Ask somebody who may see payloads.")


def _is_shared_file(name: object) -> bool:
    """Return whether a field names a file of the shared folder; objects are there for everybody."""
    return bool(name) and not is_object(str(name))


def _refuse_out_of_reach(entry: Entry, job_request: Mapping[str, Any], scope: Scope) -> None:
    for field in entry.shared:
        if job_request.get(field):
            # A queue of theirs beside it does not make what belongs to everybody theirs.
            next_step = "Name a queue of yours instead, or ask somebody whom nothing limits."
            raise _out_of_reach(f"The {field} {job_request[field]} belongs to", next_step)
    names = _queue_names(entry, job_request)
    if not names:
        raise _out_of_reach(f"{entry.title} concerns", "Ask somebody whom nothing limits.")
    for name in names:
        # A queue that is out of scope is not there for this person.
        if not Queue.objects.filter(scope.within("system"), name=name).exists():
            raise unknown("UNKNOWN_QUEUE", "inbound queue", name)


def _out_of_reach(what: str, next_step: str) -> BulkError:
    why = f"{what} all external systems, and you may know of some only."
    return BulkError("OUT_OF_REACH", why, next_step)


def _queue_names(entry: Entry, job_request: Mapping[str, Any]) -> list[str]:
    return [str(job_request[field]) for field in entry.queues if job_request.get(field)]


def _entry(job: str) -> Entry:
    if job not in CATALOGUE:
        raise unknown("UNKNOWN_JOB", "bulk job", job)
    return CATALOGUE[job]


def _made(entry: Entry, job_request: Mapping[str, Any]) -> BulkRun:
    """A run that is not stored yet."""
    try:
        parameters = read(entry.job_request, job_request).parameters()
    except JobError as e:
        raise BulkError.of(e) from e
    except BadParametersError as e:
        raise bad_job_request(" ".join(e.mistakes).rstrip(".")) from e
    queues = Queue.objects.filter(name__in=_queue_names(entry, job_request)).order_by("pk")
    return BulkRun(
        job=entry.job,
        job_request=dict(job_request),
        parameters=parameters,
        queues=list(queues.values_list("pk", flat=True)),
    )


def _stored(run: BulkRun, author: Author, *, send: bool = True) -> BulkRun:
    """Raises IntegrityError where there is a run of its number."""
    if "arrival" in run.parameters:
        run.parameters["arrival"] = next_arrival()
    now = database_now()
    run.actor, run.reason, run.asked_at = author.actor, author.reason, now
    run.sent_at, run.lease_until = (now, None) if send else (None, now + LEASE)
    with transaction.atomic():
        run.save(force_insert=True)
        # What was asked stands in the run itself: it may hold what not everybody may see.
        configuration.record(run, None, {"job": run.job}, author)
        if send:
            transaction.on_commit(partial(sending.send, run.pk))
    return run


def arguments_of(run: BulkRun) -> Arguments:
    """The arguments of the run's job, with the secrets of this moment.

    Raises JobError UNKNOWN_PROVIDER, ProviderUnusableError.
    """
    return Arguments(
        job=run.job,
        run=str(run.pk),
        parameters=run.parameters,
        database=conninfo(),
        kafka=_kafka(run.parameters.get("provider")),
        storage=settings.SLUICE_S3,
        plan=run.plan,
        epoch=run.epoch,
    )


def conninfo() -> str:
    """The database as libpq reads it; sessions of what was killed end soon."""
    return make_conninfo(
        **place_of(django_connection().settings_dict),
        connect_timeout=5,
        options=SERVER_OPTIONS,
    )


def _kafka(provider: int | None) -> dict[str, str]:
    if provider is None:
        return {}
    row = Provider.objects.filter(pk=provider).first()
    if row is None:
        raise JobError(
            "UNKNOWN_PROVIDER",
            "The provider that the run was asked for is gone.",
            "Start a new run with one that is there.",
        )
    to = connection(row)
    return {name: str(value) for name, value in {**to.properties, **to.producing}.items()}
