"""Removes uploads that no run and no schedule needs any more, with what is beside them."""

from collections.abc import Iterable, Iterator, Mapping
from datetime import datetime, timedelta
from pathlib import Path
from typing import Any, Final

from crontasks.bulk.catalogue import CATALOGUE
from crontasks.bulk.errors import BulkError
from crontasks.bulk.storage import PART, SENTINEL, UPLOADS, inside, is_set
from integration.models import BulkRun
from integration.policy.states import BulkState
from integration.selectors.bulk.runs import OPEN
from spark_jobs.storage import fits

# What nobody has finished writing by then is of a web process that died.
PART_KEPT: Final = timedelta(days=1)
# A job, and what it is asked for.
JobRequest = tuple[str, Mapping[str, Any]]
ENDED: Final = frozenset(BulkState) - OPEN


def remove_old(days: int, at: datetime, scheduled: Iterable[JobRequest]) -> int:
    """Remove uploads that came so many days ago and that nobody needs; returns how many.

    A run needs its files until it has ended for as many days: until then it can be run again. A
    schedule needs them for as long as it names them. What is not whole and the sentinels of runs
    go as well, and are not counted.
    """
    if not is_set():
        return 0
    since = at - timedelta(days=days)
    sources, sentinels = _needed(since)
    sources += _named(scheduled)
    removed = 0
    for path in _every(inside(UPLOADS)):
        facts = path.stat()
        changed = facts.st_mtime
        if path.name.endswith(PART):
            is_due = changed < (at - PART_KEPT).timestamp()
        elif path.name.startswith(SENTINEL):
            is_due = changed < since.timestamp() and str(path) not in sentinels
        else:
            # What was moved here or fetched back from a backup may have an older time of change.
            came = max(changed, facts.st_ctime)
            is_old = path.name[0] != "." and came < since.timestamp()
            is_due = is_old and not _is_of(path, sources)
        if is_due and _is_gone(path):
            removed += path.name[0] != "."
    return removed


def _every(folder: Path) -> Iterator[Path]:
    paths = list(folder.rglob("*")) if folder.is_dir() else []
    return (path for path in paths if path.is_file() and not path.is_symlink())


def _needed(since: datetime) -> tuple[list[str], set[str]]:
    """Sources (files, folders, patterns) and sentinels of runs that are open or ended lately."""
    sources, sentinels = [], set()
    runs = BulkRun.objects.exclude(ended_at__lt=since, state__in=ENDED)
    for run in runs.only("job", "job_request", "parameters", "sentinel").iterator():
        for said in (run.job_request, run.parameters):
            sources += _files_of(run.job, said)
        sentinels.add(run.sentinel)
    return sources, sentinels


def _named(scheduled: Iterable[JobRequest]) -> list[str]:
    """The same of schedules, whose names may be those within the folder."""
    sources = []
    for job, asked in scheduled:
        for name in _files_of(job, asked):
            try:
                sources.append(str(inside(name)))
            except (BulkError, RuntimeError):
                # It leads elsewhere, or links lead in a circle.
                continue
    return sources


def _files_of(job: str, asked: Mapping[str, Any]) -> list[str]:
    fields = CATALOGUE[job].files if job in CATALOGUE else ()
    return [str(asked[field]) for field in fields if asked.get(field)]


def _is_of(path: Path, sources: list[str]) -> bool:
    parts = path.parts
    return any(path.is_relative_to(one) or fits(parts, Path(one).parts) for one in sources)


def _is_gone(path: Path) -> bool:
    """Remove a file; one that cannot be removed stays, and keeps no other from going."""
    try:
        path.unlink(missing_ok=True)
    except OSError:
        return False
    return True
