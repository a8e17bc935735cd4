"""Removes uploads that no run needs any more, with what is beside them."""

from collections.abc import Iterator
from datetime import datetime, timedelta
from fnmatch import fnmatchcase
from pathlib import Path
from typing import Final

from crontasks.bulk.catalogue import CATALOGUE
from crontasks.bulk.storage import PART, SENTINEL, UPLOADS, inside, is_set
from integration.models import BulkRun
from integration.policy.states import BulkState
from integration.selectors.bulk.runs import OPEN

# What nobody has finished writing by then is of a web process that died.
PART_KEPT: Final = timedelta(days=1)
ENDED: Final = frozenset(BulkState) - OPEN


def remove_old(days: int, at: datetime) -> int:
    """Remove uploads older than so many days that no run needs; returns how many.

    A run needs its files until it has ended for as many days: until then it can be run again.
    What is not whole and the sentinels of runs go as well, and are not counted.
    """
    if not is_set():
        return 0
    since = at - timedelta(days=days)
    sources, sentinels = _needed(since)
    removed = 0
    for path in _every(inside(UPLOADS)):
        changed = path.stat().st_mtime
        if path.name.endswith(PART):
            is_due = changed < (at - PART_KEPT).timestamp()
        elif path.name.startswith(SENTINEL):
            is_due = changed < since.timestamp() and str(path) not in sentinels
        else:
            is_old = path.name[0] != "." and changed < since.timestamp()
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
        files = CATALOGUE[run.job].files if run.job in CATALOGUE else ()
        named = [said.get(name) for name in files for said in (run.job_request, run.parameters)]
        sources += [str(one) for one in named if one]
        sentinels.add(run.sentinel)
    return sources, sentinels


def _is_of(path: Path, sources: list[str]) -> bool:
    text = str(path)
    return any(text == one or path.is_relative_to(one) or fnmatchcase(text, one) for one in sources)


def _is_gone(path: Path) -> bool:
    """Remove a file; one that cannot be removed stays, and keeps no other from going."""
    try:
        path.unlink(missing_ok=True)
    except OSError:
        return False
    return True
