"""What the log lines of a run carry: the queue, the run, and of a handler's call its message."""

from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from contextvars import ContextVar
from typing import Final

Fields = Mapping[str, str]

_NONE: Final[Fields] = {}
_run: Final[ContextVar[Fields]] = ContextVar("sluice_run")
_sources: Final[list[Callable[[], Fields]]] = []


def use(*sources: Callable[[], Fields]) -> None:
    """Choose what else tells of the work of a thread; asked when it logs something."""
    _sources[:] = sources


@contextmanager
def of_run(fields: Fields) -> Iterator[None]:
    """Let the lines that are logged within the block carry these."""
    token = _run.set({**_run.get(_NONE), **fields})
    try:
        yield
    finally:
        _run.reset(token)


def current() -> dict[str, str]:
    """Return what a line that is logged now carries."""
    fields = dict(_run.get(_NONE))
    for source in _sources:
        fields.update(source())
    return fields
