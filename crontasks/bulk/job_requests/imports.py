"""An import as a person asks for it."""

from dataclasses import dataclass
from pathlib import Path
from typing import Any

from crontasks.bulk.errors import BulkError, bad_job_request
from crontasks.bulk.job_requests.lookups import (
    as_given,
    inbound_queue,
    structure_named,
    structure_parameters,
    target_parameters,
)
from crontasks.parameters import option
from integration.models import Queue
from integration.selectors.failures.lateness import keeps_order
from spark_jobs.imports.parameters import Duplicates, Format, ImportParameters


@dataclass(frozen=True, kw_only=True)
class ImportRequest:
    """What a form, a command or a schedule says of an import."""

    source: str = option(..., "A file, a folder, or a pattern such as /data/assets-*.csv.")
    format: Format = option(Format.CSV, "How the rows lie in the files.")
    record: str = option("", "Of XML files: the element that is one row, for example ASSET.")
    structure: str = option("", "The object structure that takes the rows; or name a queue.")
    queue: str = option("", "The inbound queue that takes the rows, as messages.")
    rejects_queue: str = option(..., "The inbound queue whose failures the rejected rows are.")
    columns: str = option(
        "",
        "Which column becomes which member, one a line: COLUMN=PLACE[:KIND][!]. Kinds: text, "
        "integer, number, boolean, date, json; ! = required. As in WEIGHT=facts.weight:number. "
        "Of XML, COLUMN is a path in the record: LOCATION/SITEID, @id.",
        lines=True,
    )
    duplicates: Duplicates = option(Duplicates.LAST, "Which of several rows with one key counts.")
    encoding: str = option("utf-8", "The encoding of CSV files.")
    delimiter: str = option(",", "What stands between the columns of CSV files.")

    def parameters(self) -> dict[str, Any]:
        """The job's parameters: names become what they stand for now.

        Raises BulkError for a name that nobody has, and REJECTS_ELSEWHERE; JobError BAD_PARAMETERS,
        UNKNOWN_FIELD.
        """
        if bool(self.structure) is bool(self.queue):
            raise bad_job_request("it names an object structure or a queue, and only one of them")
        parameters = {
            "source": str(Path(self.source).absolute()),
            **(
                _into_queue(self.queue)
                if self.queue
                else {"structure": structure_parameters(structure_named(self.structure))}
            ),
            "arrival": 0,
            "rejects_queue": _rejects_queue(self.rejects_queue).pk,
            "columns": [column(line) for line in self.columns.splitlines() if line.strip()],
            **as_given(self, "format", "record", "duplicates", "encoding", "delimiter"),
        }
        ImportParameters.of(parameters)
        return parameters


def _into_queue(name: str) -> dict[str, Any]:
    """The queue, and the structure of the service that takes its messages, if that has one."""
    queue = inbound_queue(name)
    service = queue.default_service
    structure = None if service is None else service.structure
    return {
        "structure": None if structure is None else structure_parameters(structure),
        **target_parameters(queue),
    }


def _rejects_queue(name: str) -> Queue:
    """A continuous queue: on one that keeps its order each release would come late."""
    queue = inbound_queue(name)
    if keeps_order(queue):
        raise BulkError(
            "REJECTS_ELSEWHERE",
            f"The queue {name} is sequential: rejects have no place in the order of its messages.",
            "Name a continuous queue whose service stores into the same structure.",
        )
    return queue


def column(line: str) -> dict[str, Any]:
    """One line of the map as the job reads it. Raises BulkError BAD_PARAMETERS."""
    source, sign, place = line.strip().partition("=")
    if not (source and sign and place):
        raise bad_job_request(f"{line!r} is not COLUMN=PLACE, as in SITE=siteid")
    target, _, kind = place.removesuffix("!").partition(":")
    said = {"source": source, "target": target, "required": place.endswith("!")}
    return {**said, "kind": kind} if kind else said
