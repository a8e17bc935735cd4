"""A repair as a person asks for it."""

from collections.abc import Sequence
from dataclasses import asdict, dataclass
from datetime import datetime
from typing import Any, Final
from urllib.parse import urlencode

from crontasks.bulk.errors import BulkError, bad_job_request
from crontasks.bulk.job_requests.imports import as_given, moment, queues_of, structure_of
from crontasks.parameters import option
from integration.models import Queue
from integration.policy.failure import Failure
from integration.policy.operations import StopRule
from integration.recipe_rules import (
    Place,
    Told,
    away_in,
    defaults_now,
    registered_of,
    structures_now,
    wrapped_now,
)
from integration.selectors.failures.cause_ids import UNKNOWN, fingerprint_of
from integration.selectors.masking.rules import masked_queues
from integration.store.operations import held_beginnings
from integration.store.sessions import database_time
from spark_jobs.repairs.parameters import RepairParameters, Writing

# Stands for messages of no service and queues of no system, as in lists of failures.
WITHOUT: Final = "-"
# They are stored with the run, and sent to each task.
MOST_SCHEMAS: Final = 200
MOST_CHARACTERS: Final = 4 * 2**20
# What chooses messages; without any of it a repair would be of all that is on hold.
CHOOSING: Final = ("queue", "code", "cause", "service", "system", "run", "since", "until", "text")


@dataclass(frozen=True, kw_only=True)
class RepairRequest:
    """The fields of a repair in a form, a command or a schedule: held failures, and the change.

    All that is said of the failures has to be true of each.
    """

    recipe: str = option(
        ...,
        'The change, as a JSON Patch: [{"op": "replace", "path": "/siteid", "value": "NORTH"}].',
    )
    queue: str = option("", "Only failures of this queue.")
    code: str = option("", "Only failures with this code.")
    cause: str = option("", "Only failures of this cause: its id.")
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

    def parameters(self) -> dict[str, Any]:
        """The job's parameters: names and times become what they stand for now.

        What fails from now on is not meant. Raises BulkError, with the code of the outage where a
        registry cannot be asked, and JobError BAD_RECIPE.
        """
        if not any(getattr(self, name) for name in CHOOSING):
            raise bad_job_request("say which failures are meant, for example by queue and code")
        since, until = _time("since", self.since), _time("until", self.until)
        try:
            stop = StopRule.read(self.stop_after)
        except ValueError as e:
            raise bad_job_request(f"stop_after is {self.stop_after!r}: {e}") from e
        queues = self._queues()
        parameters = {
            "selection": {
                **as_given(self, "code", "run", "text"),
                "queues": queues,
                "fingerprint": self._fingerprint(),
                "interface": "" if self.service == WITHOUT else self.service or None,
                "since": None if since is None else since.isoformat(),
                "until": (until or database_time()).isoformat(),
            },
            **as_given(self, "recipe", "release", "late", "rate"),
            # What the changed messages are judged by.
            "structures": {name: asdict(structure_of(s)) for name, s in structures_now().items()},
            "defaults": {str(queue): interface for queue, interface in defaults_now().items()},
            "stop": asdict(stop),
            "query": self._query(),
        }
        # A driver of the release before takes a run that says nothing of schemas.
        if schemas := _schemas(queues):
            parameters["schemas"] = [asdict(one) for one in schemas]
        if masked := sorted({*masked_queues()}.intersection(queues)):
            parameters["masked"] = masked
        if wrapped := sorted({*wrapped_now()}.intersection(queues)):
            parameters["wrapped"] = wrapped
        RepairParameters.of(parameters)
        return parameters

    def _fingerprint(self) -> str:
        """The cause as it stands in failures. Raises BulkError."""
        fingerprint = fingerprint_of(self.cause)
        if fingerprint == UNKNOWN:
            raise bad_job_request(f"cause is {self.cause!r}, which is not the id of a cause here")
        return fingerprint

    def _queues(self) -> list[int]:
        """The queues that are meant, as they are now: they say whose run this is."""
        is_of_none = self.system == WITHOUT
        meant = queues_of(queue=self.queue, system="" if is_of_none else self.system)
        meant = meant.filter(system=None) if is_of_none else meant
        return list(meant.values_list("pk", flat=True))

    def _query(self) -> str:
        """The same selection as a list of failures asks for it, as far as that knows how."""
        said = {
            "state": "HOLD",
            **as_given(self, "queue", "system", "code"),
            "interface": self.service,
            "fingerprint": self.cause,
            **as_given(self, "since", "until", "text"),
        }
        return urlencode({name: value for name, value in said.items() if value})


def _schemas(queues: Sequence[int]) -> list[Writing]:
    """What held messages of registries in these queues were written by. Raises BulkError."""
    having = Queue.objects.filter(pk__in=queues).exclude(provider__registry_url="")
    found = registered_of(held_beginnings(list(having.values_list("pk", flat=True))))
    if (away := away_in(found)) is not None:
        step = "Nothing was started. Ask again once the registry can be asked."
        raise BulkError(away.code, away.text, step)
    schemas = [_writing(place, told) for place, told in found.items()]
    texts = [one.registered for one in schemas if one.registered is not None]
    if len(schemas) > MOST_SCHEMAS or sum(one.characters for one in texts) > MOST_CHARACTERS:
        raise bad_job_request("its messages have too many schemas, so name fewer queues")
    return schemas


def _writing(place: Place, told: Told) -> Writing:
    queue, schema_id = place
    if isinstance(told, Failure):
        return Writing(queue=queue, id=schema_id, code=told.code, why=told.text)
    return Writing(queue=queue, id=schema_id, registered=told)


def _time(name: str, text: str) -> datetime | None:
    at = moment(text.strip())
    if at is None and text.strip():
        raise bad_job_request(f"{name} is {text!r}: write a time such as 2026-01-31T08:00")
    return at
