"""An export as a person asks for it."""

from dataclasses import dataclass
from typing import Any

from crontasks.bulk import moments, storage
from crontasks.bulk.errors import bad_wish, unknown
from crontasks.bulk.wishes.imports import inbound, target_of
from crontasks.parameters import option
from integration.models import ExternalSystem, ObjectStructure, Queue
from integration.policy.states import Ended
from spark_jobs.exports.parameters import ExportParameters, Format, Formulas, What
from spark_jobs.exports.selecting import selection

FOLDER = "exports"
# What only one of the two has; said of the other it is a slip.
OF_DOCUMENTS = ("structure", "key", "where", "deleted")
OF_MESSAGES = ("queue", "system", "service", "state", "payload")


@dataclass(frozen=True, kw_only=True)
class ExportWish:
    """What a form, a command or a schedule says of an export."""

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
    into_queue: str = option("", "The inbound queue that takes the rows, as messages; none: files.")


def prepare(wish: ExportWish) -> dict[str, Any]:
    """What the job is told: names become what they stand for now, times what they mean now.

    Raises BulkError for a name that nobody has, JobError BAD_PARAMETERS.
    """
    is_documents = wish.what is What.DOCUMENTS
    for name in OF_MESSAGES if is_documents else OF_DOCUMENTS:
        if getattr(wish, name):
            raise bad_wish(f"{name} is not asked for {wish.what}")
    at = moments.now()
    parameters = {
        "what": str(wish.what),
        "format": str(wish.format),
        "folder": "" if wish.into_queue else str(storage.root() / FOLDER),
        "columns": [column(line) for line in wish.columns.splitlines() if line.strip()],
        "since": moments.read("since", wish.since, at),
        "until": moments.read("until", wish.until, at),
        "delimiter": wish.delimiter,
        "formulas": str(wish.formulas),
        **_into(wish.into_queue),
        **(_documents(wish) if is_documents else _messages(wish)),
    }
    if not (is_documents or parameters["until"]):
        parameters["until"] = at.isoformat()
    selection(ExportParameters.of(parameters))
    return parameters


def _into(name: str) -> dict[str, Any]:
    if not name:
        return {}
    queue = inbound(name)
    return {"target": target_of(queue), "provider": queue.provider_id}


def column(line: str) -> dict[str, str]:
    """One line of the columns as the job is told of it. Raises BulkError BAD_PARAMETERS."""
    name, found, source = line.strip().partition("=")
    if not (name.strip() and found and source.strip()):
        raise bad_wish(f"{line!r} is not NAME=PATH, as in site=$.siteid")
    return {"name": name.strip(), "source": source.strip()}


def _documents(wish: ExportWish) -> dict[str, Any]:
    structure = ObjectStructure.objects.filter(name=wish.structure).first()
    if structure is None:
        raise unknown("object structure", wish.structure)
    path, found, value = wish.where.partition("=")
    if wish.where and not (path.strip() and found):
        raise bad_wish(f"{wish.where!r} is not PATH=VALUE, as in $.status=OPERATING")
    return {
        "structure": structure.pk,
        "structure_name": structure.name,
        "key": wish.key,
        "where": [path.strip(), value.strip()] if wish.where else None,
        "deleted": wish.deleted,
    }


def _messages(wish: ExportWish) -> dict[str, Any]:
    if wish.state and wish.state not in set(Ended):
        raise bad_wish(f"state is {wish.state!r}, and should be one of {', '.join(Ended)}")
    return {
        "queues": _queues(wish),
        "service": wish.service,
        "state": wish.state,
        "payload": wish.payload,
    }


def _queues(wish: ExportWish) -> list[int] | None:
    """The numbers of the queues; None for all, also those that were removed."""
    if not (wish.queue or wish.system):
        return None
    found = Queue.objects.all()
    if wish.queue:
        if not found.filter(name=wish.queue).exists():
            raise unknown("queue", wish.queue)
        found = found.filter(name=wish.queue)
    if wish.system:
        if not ExternalSystem.objects.filter(name=wish.system).exists():
            raise unknown("external system", wish.system)
        found = found.filter(system__name=wish.system)
    return sorted(found.values_list("pk", flat=True))
