"""A disk that takes no more, for the processes of Spark alone."""

import resource
from collections.abc import Iterator
from contextlib import contextmanager

import psutil


@contextmanager
def files_no_longer_than(size: int) -> Iterator[None]:
    """Spark's processes, and those it starts meanwhile, write no longer files than that."""
    limits = {}
    for process in _of_spark():
        limits[process.pid] = resource.prlimit(process.pid, resource.RLIMIT_FSIZE)
        hard = limits[process.pid][1]
        resource.prlimit(process.pid, resource.RLIMIT_FSIZE, (size, hard))
    assert limits, "Spark has been started before"
    try:
        yield
    finally:
        for process in _of_spark():
            first = next(iter(limits.values()))
            limit = limits.get(process.pid, first)
            resource.prlimit(process.pid, resource.RLIMIT_FSIZE, limit)


def _of_spark() -> list[psutil.Process]:
    found = []
    for child in psutil.Process().children():
        # The JVM of a session before this one, which nobody has waited for.
        if child.status() == psutil.STATUS_ZOMBIE:
            continue
        if any("SparkSubmit" in word for word in child.cmdline()):
            found += [child, *child.children(recursive=True)]
    return found
