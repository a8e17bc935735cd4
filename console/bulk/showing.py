"""What pages tell of a job request: to everybody what names things, its texts to those who may.

A job request may hold a recipe or a filter with values of payloads in it.
"""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Final

from django.contrib.auth.models import AnonymousUser, User

from console.layout.access import Right, has
from crontasks.bulk.catalogue import CATALOGUE, Entry
from crontasks.bulk.storage import shown
from crontasks.parameters import Described, describe
from integration.models import BulkRun

# Free texts that only name what is set up here, or how a file is written.
PLAIN: Final = frozenset(
    {"structure", "queue", "rejects_queue", "topic", "provider", "system", "service", "format"}
    | {"columns", "encoding", "delimiter", "into", "into_queue", "source", "target"}
    | {"begin", "end", "as_of"}
)


@dataclass(frozen=True, slots=True)
class Fact:
    """One thing that was asked for."""

    label: str
    value: str


@dataclass(frozen=True, slots=True)
class Requested:
    """What of a job request is shown to somebody; `is_cut` when not all of it may be."""

    values: Mapping[str, Any]
    facts: tuple[Fact, ...]
    is_cut: bool


def title_of(run: BulkRun) -> str:
    """What a run does, in a few words: the job and what it is about."""
    entry = CATALOGUE.get(run.job)
    if entry is None:
        return run.job.capitalize()
    fields = (*entry.files, "structure", "topic", "queue", "kind")
    about = [_named(entry, run, field) for field in fields]
    said = ", ".join(one for one in about if one)
    return f"{entry.title}: {said}" if said else entry.title


def requested(run: BulkRun, person: User | AnonymousUser) -> Requested:
    """The job request as this person may see it."""
    entry = CATALOGUE.get(run.job)
    if entry is None:
        return Requested({}, (), is_cut=False)
    sees_all = has(person, Right.VIEW_PAYLOAD) or has(person, Right.EDIT_PAYLOAD)
    fields = {one.name: one for one in describe(entry.job_request)}
    values = {
        name: shown(str(value)) if name in entry.files else value
        for name, value in run.job_request.items()
        if name in fields and (sees_all or _is_plain(fields[name], entry))
    }
    secret = {name for name, one in fields.items() if one.is_secret}
    facts = tuple(
        Fact(fields[name].label, "set" if name in secret else str(value))
        for name, value in values.items()
        if value not in {None, ""}
    )
    kept = {name: value for name, value in values.items() if name not in secret}
    return Requested(kept, facts, is_cut=len(kept) < len(run.job_request))


def _is_plain(one: Described, entry: Entry) -> bool:
    is_named = one.name in PLAIN or one.name in entry.queues or one.name in entry.files
    return is_named or one.plain is not str


def _named(entry: Entry, run: BulkRun, field: str) -> str:
    value = str(run.job_request.get(field) or "")
    return shown(value) if field in entry.files else value
