"""A repair as a person asks for it."""

from dataclasses import dataclass
from datetime import UTC, datetime
from typing import Any, Final
from urllib.parse import urlencode

from django.db.models import Q

from crontasks.bulk.errors import BulkError, bad_job_request, unknown
from crontasks.parameters import option
from integration.models import ExternalSystem, ObjectStructure, Queue
from integration.policy.operations import StopRule
from integration.recipe_rules import defaults_now, structures_now
from integration.store.sessions import fetch_all
from spark_jobs.problems import JobError
from spark_jobs.repairs.parameters import RepairParameters

# Stands for messages of no service and queues of no system, as in lists of failures.
WITHOUT: Final = "-"
# What chooses messages; without any of it a repair would be of all that is on hold.
CHOOSING: Final = ("queue", "code", "cause", "service", "system", "run", "since", "until", "text")


@dataclass(frozen=True, kw_only=True)
class RepairRequest:
    """What a form, a command or a schedule says of a repair: held failures, and what is changed.

    All that is said of the failures has to be true of each.
    """

    recipe: str = option(
        ...,
        'The change, as a JSON Patch: [{"op": "replace", "path": "/siteid", "value": "NORTH"}].',
    )
    queue: str = option("", "Only failures of this queue.")
    code: str = option("", "Only failures with this code.")
    cause: str = option("", "Only failures of this cause: its fingerprint.")
    service: str = option("", "Only messages of this service; - means those that name none.")
    system: str = option("", "Only queues of this external system; - means those of none.")
    run: str = option("", "Only rows that this bulk run rejected.")
    since: str = option("", "Only what last failed since then (UTC), as in 2026-01-31T08:00.")
    until: str = option("", "Only what last failed until then; empty means now.")
    text: str = option("", "Only messages that hold this text.")
    release: bool = option(True, "Release the messages afterwards, by an operation.")
    rate: int | None = option(
        None, "How many messages a second are released; empty means any.", least=1, most=10_000
    )
    stop_after: str = option(
        "", "The release pauses by itself when so many failed again: 100, or a share such as 5 %."
    )
    late: bool = option(False, "Also release what its sequential queue has gone on without.")


def prepare(job_request: RepairRequest) -> dict[str, Any]:
    """What the job is told: names and times become what they stand for now.

    What fails from now on is not meant. Raises BulkError, JobError BAD_RECIPE.
    """
    if not any(getattr(job_request, name) for name in CHOOSING):
        raise bad_job_request("say which failures are meant, for example by queue and code")
    since, until = _time("since", job_request.since), _time("until", job_request.until)
    [(now,)] = fetch_all("SELECT clock_timestamp()")
    try:
        stop = StopRule.read(job_request.stop_after)
    except ValueError as e:
        raise bad_job_request(f"stop_after is {job_request.stop_after!r}: {e}") from e
    parameters = {
        "selection": {
            "queues": _queues(job_request),
            "code": job_request.code,
            "fingerprint": job_request.cause,
            "interface": "" if job_request.service == WITHOUT else job_request.service or None,
            "run": job_request.run,
            "since": None if since is None else since.isoformat(),
            "until": (until or now).isoformat(),
            "text": job_request.text,
        },
        "recipe": job_request.recipe,
        **_judgement(),
        "release": job_request.release,
        "late": job_request.late,
        "rate": job_request.rate,
        "stop": {"after": stop.after, "share": stop.share},
        "query": _query(job_request),
    }
    RepairParameters.of(parameters)
    return parameters


def _queues(job_request: RepairRequest) -> list[int]:
    """The queues that are meant, as they are now: whose run this is can be told by them."""
    if job_request.queue and not Queue.objects.filter(name=job_request.queue).exists():
        raise unknown("queue", job_request.queue)
    known = ExternalSystem.objects.filter(name=job_request.system)
    if job_request.system not in {"", WITHOUT} and not known.exists():
        raise BulkError(
            JobError(
                "UNKNOWN_SYSTEM",
                f"There is no external system {job_request.system!r}.",
                "Correct the name.",
            )
        )
    meant = Q(name=job_request.queue) if job_request.queue else Q()
    if job_request.system == WITHOUT:
        meant &= Q(system=None)
    elif job_request.system:
        meant &= Q(system__name=job_request.system)
    return list(Queue.objects.filter(meant).order_by("pk").values_list("pk", flat=True))


def told_of(structure: ObjectStructure) -> dict[str, Any]:
    """A structure as the job is told of it."""
    return {
        "name": structure.name,
        "key_paths": structure.key_paths,
        "version_path": structure.version_path,
        "json_schema": structure.json_schema,
        "tombstone": structure.tombstone,
    }


def _judgement() -> dict[str, Any]:
    """The structures and default services that the changed messages are judged by."""
    return {
        "structures": {name: told_of(one) for name, one in structures_now().items()},
        "defaults": {str(queue): interface for queue, interface in defaults_now().items()},
    }


def _time(name: str, text: str) -> datetime | None:
    if not text.strip():
        return None
    try:
        at = datetime.fromisoformat(text.strip())
    except ValueError as e:
        raise bad_job_request(f"{name} is {text!r}: write a time such as 2026-01-31T08:00") from e
    return at if at.tzinfo else at.replace(tzinfo=UTC)


def _query(job_request: RepairRequest) -> str:
    """The same selection as a list of failures asks for it, as far as that knows how."""
    said = {
        "state": "HOLD",
        "queue": job_request.queue,
        "system": job_request.system,
        "code": job_request.code,
        "interface": job_request.service,
        "fingerprint": job_request.cause,
        "since": job_request.since,
        "until": job_request.until,
        "text": job_request.text,
    }
    return urlencode({name: value for name, value in said.items() if value})
