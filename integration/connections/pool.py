"""A pool of connections to anything: so many are kept, no more than so many are out at a time."""

import sys
import threading
import time
from collections import deque
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Final, Generic, Protocol, TypeVar

from integration.connections.errors import PoolClosedError, PoolExhaustedError

# Of what lies between the pool and whoever takes a connection, nobody is told.
_PACKAGE: Final = Path(__file__).parent
_OWN: Final = frozenset(
    {
        *map(str, _PACKAGE.glob("*.py")),
        *map(str, (_PACKAGE.parent / "xa").glob("*.py")),
        contextmanager.__code__.co_filename,
    }
)
_NAMED: Final = 5


class Pooled(Protocol):
    """What a pool holds."""

    def is_usable(self) -> bool:
        """Return whether it may be used again; asked before it is. Never raises."""

    def close(self) -> None:
        """End it. Never raises."""


C = TypeVar("C", bound=Pooled)


@dataclass(frozen=True, slots=True, kw_only=True)
class Limits:
    """How many connections there are, and for how long.

    `least` of them are kept however long nobody uses them; the others end after `idle_seconds`.
    Who finds `most` of them out waits for `wait_seconds`.
    """

    least: int = 0
    most: int = 8
    idle_seconds: float = 60.0
    wait_seconds: float = 5.0


@dataclass(frozen=True, slots=True)
class Lease:
    """A connection that is out: since when, and where in the code it was taken."""

    place: str
    taken_at: float = field(default_factory=time.monotonic)

    @property
    def seconds(self) -> float:
        return time.monotonic() - self.taken_at

    def __str__(self) -> str:
        return f"{self.place} (for {self.seconds:.0f} s)"


class Pool(Generic[C]):
    """Safe for several threads. `make` opens a connection; what it raises goes to who asked."""

    def __init__(self, name: str, make: Callable[[], C], limits: Limits) -> None:
        self.name = name
        self._make, self._limits = make, limits
        self._idle: deque[tuple[C, float]] = deque()
        self._leases: dict[int, Lease] = {}
        self._turn = threading.Condition()
        self._is_closed = False

    @contextmanager
    def taken(self) -> Iterator[C]:
        """A connection for this thread alone. After an error inside, it is not used again.

        Raises PoolExhaustedError, PoolClosedError, and what `make` raises.
        """
        connection = self._take()
        try:
            yield connection
        except BaseException:
            self._give_back(connection, is_whole=False)
            raise
        self._give_back(connection, is_whole=True)

    def leases(self) -> list[Lease]:
        """What is out now, the oldest first: one that grows old has probably leaked."""
        with self._turn:
            return sorted(self._leases.values(), key=lambda lease: lease.taken_at)

    @property
    def idle(self) -> int:
        with self._turn:
            return len(self._idle)

    def close(self) -> None:
        """End all that nobody uses now; the others end as they are given back."""
        with self._turn:
            self._is_closed = True
            ended = [connection for connection, _ in self._idle]
            self._idle.clear()
            self._turn.notify_all()
        _end(ended)

    def _take(self) -> C:
        lease = Lease(_place())
        deadline = time.monotonic() + self._limits.wait_seconds
        while True:
            with self._turn:
                self._await_room(deadline)
                found = self._idle.pop()[0] if self._idle else None
                # Counted already, so that nobody else takes its place meanwhile.
                key = id(lease)
                self._leases[key] = lease
            try:
                connection = self._checked(found)
            except BaseException:
                self._forget(key)
                raise
            if connection is not None:
                with self._turn:
                    self._leases[id(connection)] = self._leases.pop(key)
                return connection
            self._forget(key)

    def _checked(self, found: C | None) -> C | None:
        """The connection, or a new one where there was none; None for one that had to be ended."""
        if found is None:
            return self._make()
        if found.is_usable():
            return found
        found.close()
        return None

    def _await_room(self, deadline: float) -> None:
        while not self._is_closed and len(self._leases) >= self._limits.most:
            if not self._turn.wait(deadline - time.monotonic()):
                oldest = sorted(self._leases.values(), key=lambda lease: lease.taken_at)
                raise PoolExhaustedError(
                    self.name,
                    self._limits.most,
                    self._limits.wait_seconds,
                    [str(lease) for lease in oldest[:_NAMED]],
                )
        if self._is_closed:
            raise PoolClosedError(self.name)

    def _forget(self, key: int) -> None:
        with self._turn:
            self._leases.pop(key, None)
            self._turn.notify()

    def _give_back(self, connection: C, *, is_whole: bool) -> None:
        with self._turn:
            self._leases.pop(id(connection), None)
            is_kept = is_whole and not self._is_closed
            if is_kept:
                self._idle.append((connection, time.monotonic()))
            self._turn.notify()
            ended = [*self._outdated(), *([] if is_kept else [connection])]
        _end(ended)

    def _outdated(self) -> list[C]:
        """Take out what nobody has used for too long: the last used is the next to be taken."""
        oldest = time.monotonic() - self._limits.idle_seconds
        ended = []
        while len(self._idle) > self._limits.least and self._idle[0][1] < oldest:
            ended.append(self._idle.popleft()[0])
        return ended


def _end(connections: list[C]) -> None:
    for connection in connections:
        connection.close()


def _place() -> str:
    """Where in the code a connection is being taken: the last line outside this package."""
    frame = sys._getframe()  # noqa: SLF001 - to make a whole traceback costs more than a send
    while frame.f_code.co_filename in _OWN and frame.f_back is not None:
        frame = frame.f_back
    return f"{frame.f_code.co_filename}:{frame.f_lineno}"
