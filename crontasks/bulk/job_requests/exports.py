"""An export as a person asks for it."""

from dataclasses import asdict, dataclass
from datetime import UTC, datetime, timedelta
from typing import Any, Final

from crontasks.bulk import storage
from crontasks.bulk.errors import bad_job_request
from crontasks.bulk.job_requests.imports import (
    as_given,
    inbound_queue,
    moment,
    queues_of,
    refuse_jms,
    structure_named,
    target_of,
)
from crontasks.bulk.job_requests.masking import masking_of
from crontasks.parameters import option
from integration import durations
from integration.models import Queue
from integration.policy.states import Ended
from integration.store.sessions import database_time
from spark_jobs.exports.parameters import ExportParameters, Format, Formulas, What
from spark_jobs.exports.selecting import selection

HOW: Final = "a time such as 2026-01-31T10:00Z, a day such as 2026-01-31, or how long ago: 7 d"
# Of one of the two alone: with the other they are refused.
OF_DOCUMENTS = ("structure", "key", "where", "deleted")
OF_MESSAGES = ("queue", "system", "service", "state", "payload")


@dataclass(frozen=True, kw_only=True)
class ExportRequest:
    """The fields of an export in a form, a command or a schedule."""

    what: What = option(..., "Documents of an object structure, or tracked messages.")
    format: Format = option(Format.JSON_LINES, "How the rows are written.")
    structure: str = option("", "Documents: of this object structure.")
    key: str = option(
        "", "Documents: with such a key only; * stands for any characters, ? for one."
    )
    where: str = option(
        "", "Documents: with this value only, as PATH=VALUE, such as $.status=OPERATING."
    )
    deleted: bool = option(False, "Documents: deleted ones as well.")
    queue: str = option("", "Messages: of this queue.")
    system: str = option("", "Messages: of the queues of this external system.")
    service: str = option("", "Messages: of this service or channel.")
    state: str = option("", "Messages: that ended so, such as APPLIED or HOLD.")
    payload: bool = option(False, "Messages: with their payloads, where tracking kept them.")
    since: str = option("", "Changed or tried since: 2026-01-31T10:00Z, 2026-01-31, or 7 d ago.")
    until: str = option("", "Changed or tried before that; empty for messages is now.")
    columns: str = option(
        "",
        "The columns, one a line: NAME=FIELD or NAME=PATH, such as site=$.siteid or id=key. None: "
        "all fields; of documents as JSON lines the documents themselves.",
    )
    delimiter: str = option(",", "What stands between the columns of CSV files.")
    formulas: Formulas = option(
        Formulas.EXACT,
        "CSV values that spreadsheets run (= + - @ first): exact as they are, or quoted by '.",
    )
    to: str = option(
        "",
        "The folder of an object storage that takes the files, such as s3://bucket/out/; none: the "
        "shared folder.",
    )
    unmasked: bool = option(
        False,
        "With true values of what masking rules hide: takes the right to reveal, and a reason.",
    )
    into_queue: str = option("", "The inbound queue that takes the rows, as messages; none: files.")

    def parameters(self) -> dict[str, Any]:
        """The job's parameters: names become what they stand for now, times what they mean now.

        Raises BulkError for a name that nobody has, JobError BAD_PARAMETERS.
        """
        is_documents = self.what is What.DOCUMENTS
        for name in OF_MESSAGES if is_documents else OF_DOCUMENTS:
            if getattr(self, name):
                raise bad_job_request(f"{name} is not asked for {self.what}")
        now = database_time()
        into = self.into_queue
        parameters = {
            **as_given(self, "what", "format", "delimiter", "formulas"),
            "folder": self._folder(),
            "columns": [column(line) for line in self.columns.splitlines() if line.strip()],
            "since": _time("since", self.since, now),
            "until": _time("until", self.until, now),
            **(_into(inbound_queue(into)) if into else {}),
            **(self._documents() if is_documents else self._messages()),
        }
        if not (into or self.unmasked):
            parameters |= masking_of(parameters)
        if not (is_documents or parameters["until"]):
            parameters["until"] = now.isoformat()
        selection(ExportParameters.of(parameters))
        return parameters

    def _folder(self) -> str:
        """Where the files go; empty where there are none."""
        if not self.to:
            return "" if self.into_queue else str(storage.root() / storage.EXPORTS)
        if self.into_queue:
            raise bad_job_request("it names a queue and a folder, and only one of them can be")
        return storage.object_folder(self.to)

    def _documents(self) -> dict[str, Any]:
        structure = structure_named(self.structure)
        path, sign, value = self.where.partition("=")
        if self.where and not (path.strip() and sign):
            raise bad_job_request(f"{self.where!r} is not PATH=VALUE, as in $.status=OPERATING")
        return {
            **as_given(self, "key", "deleted"),
            "structure": structure.pk,
            "structure_name": structure.name,
            "where": [path.strip(), value.strip()] if self.where else None,
        }

    def _messages(self) -> dict[str, Any]:
        if self.state and self.state not in set(Ended):
            raise bad_job_request(
                f"state is {self.state!r}, and should be one of {', '.join(Ended)}"
            )
        queues = None
        # None stands for all queues, also those that were removed.
        if self.queue or self.system:
            meant = queues_of(queue=self.queue, system=self.system)
            queues = list(meant.values_list("pk", flat=True))
        return {**as_given(self, "service", "state", "payload"), "queues": queues}


def _into(queue: Queue) -> dict[str, Any]:
    refuse_jms(queue, "to which nothing is written from here")
    return {"target": asdict(target_of(queue)), "provider": queue.provider_id}


def column(line: str) -> dict[str, str]:
    """One line of the columns as the job reads it. Raises BulkError BAD_PARAMETERS."""
    name, sign, source = line.strip().partition("=")
    if not (name.strip() and sign and source.strip()):
        raise bad_job_request(f"{line!r} is not NAME=PATH, as in site=$.siteid")
    return {"name": name.strip(), "source": source.strip()}


def _time(name: str, text: str, now: datetime) -> str:
    """The time as ISO text in UTC; empty for none."""
    text = text.strip()
    if not text:
        return ""
    # A number alone is a duration; eight digits would be a day.
    at = None if text.isdecimal() else moment(text)
    if at is None:
        try:
            at = now - timedelta(seconds=durations.read(text))
        except (ValueError, OverflowError) as e:
            raise bad_job_request(f"{name} is {text[:60]!r}, and should be {HOW}") from e
    return at.astimezone(UTC).isoformat()
