"""The map of an import's columns as lines of its job request, and as rows of a form. Pure."""

from collections.abc import Mapping, Sequence
from typing import Final

from crontasks.bulk.errors import BulkError
from crontasks.bulk.job_requests.imports import column
from crontasks.bulk.suggesting import Suggestion
from spark_jobs.imports.parameters import Kind

KINDS: Final = tuple(kind.value for kind in Kind)
# What a column's line cannot hold in its name: it ends the name, or the line.
NEVER: Final = ("=", "\n", "\r")


def may_be_mapped(name: str) -> bool:
    """Whether a line can name this column."""
    return bool(name) and name == name.strip() and not any(sign in name for sign in NEVER)


def written(mapped: Sequence[Suggestion]) -> str:
    """The lines of a job request; columns without a place are left out."""
    return "\n".join(map(_line, (one for one in mapped if one.place)))


def read(text: str) -> Mapping[str, Suggestion]:
    """The inverse of `written`, by column; what is no line of a map is passed over."""
    found = {}
    for line in text.splitlines():
        try:
            said = column(line)
        except BulkError:
            continue
        found[str(said["source"])] = Suggestion(
            column=str(said["source"]),
            place=str(said["target"]),
            kind=str(said.get("kind", Kind.TEXT.value)),
            required=bool(said.get("required")),
        )
    return found


def _line(one: Suggestion) -> str:
    kind = "" if one.kind == Kind.TEXT else f":{one.kind}"
    return f"{one.column}={one.place}{kind}{'!' if one.required else ''}"
