"""The cron tasks that exist: classes registered by name, from every installed app."""

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Any, ClassVar, Protocol, TypeVar

from crontasks.errors import CronTaskConflictError, UnknownCronTaskError
from crontasks.outcome import Context, Outcome


@dataclass(frozen=True)
class NoParameters:
    """A cron task that has nothing to set."""


class CronTask(Protocol):
    """A cron task. It is made without arguments for every run.

    `parameters` is a frozen dataclass of str, int, float, bool, enums, or one of them or None.
    `asks_only` marks one whose run only asks for a start: it takes milliseconds, needs no
    worker slot, and is done where the tick is found due. `is_noticed` marks one that ends as FAILED
    without a text for what has notices of its own. `permissions` are those that the user of an
    instance needs which runs with a user's rights, such as "app.change_item".
    """

    title: ClassVar[str]
    parameters: ClassVar[type[Any]]
    asks_only: ClassVar[bool]
    is_noticed: ClassVar[bool]
    permissions: ClassVar[tuple[str, ...]]

    @staticmethod
    def has_work() -> bool:
        """Beat asks it before it sends a tick; at a no the moment passes without a run.

        It must take milliseconds. A class that does not have it always has work.
        """

    def run(self, parameters: Any, context: Context) -> Outcome:
        """Do the work; expected endings are values. Anything raised ends the run as FAILED."""


@dataclass(frozen=True, slots=True)
class Definition:
    """A registered cron task."""

    name: str
    task: type[CronTask]

    @property
    def title(self) -> str:
        return self.task.title

    @property
    def description(self) -> str:
        return " ".join((self.task.__doc__ or "").split())

    @property
    def permissions(self) -> tuple[str, ...]:
        """The permissions that the user of an instance needs, if it runs with a user's rights."""
        return self.task.permissions

    @property
    def origin(self) -> str:
        return f"{self.task.__module__}.{self.task.__qualname__}"


class Registry:
    """Name -> definition. Filled when Django starts, from each app's `crontasks` module."""

    def __init__(self) -> None:
        self._by_name: dict[str, Definition] = {}

    def add(self, definition: Definition) -> None:
        """Raises CronTaskConflictError when another class has the name."""
        first = self._by_name.setdefault(definition.name, definition)
        if first.origin != definition.origin:
            raise CronTaskConflictError(
                name=definition.name, first=first.origin, second=definition.origin
            )

    def get(self, name: str) -> Definition | None:
        return self._by_name.get(name)

    def named(self, name: str) -> Definition:
        """Raises UnknownCronTaskError."""
        definition = self._by_name.get(name)
        if definition is None:
            raise UnknownCronTaskError(name=name, known=sorted(self._by_name))
        return definition

    def __iter__(self) -> Iterator[Definition]:
        return iter(sorted(self._by_name.values(), key=lambda d: d.name))


registry = Registry()
T = TypeVar("T", bound=type)


def crontask(
    name: str,
    *,
    title: str = "",
    parameters: type[Any] = NoParameters,
    asks_only: bool = False,
    is_noticed: bool = False,
    permissions: tuple[str, ...] = (),
) -> Callable[[T], T]:
    """Register a class under `name`, which instances store. Raises CronTaskConflictError."""

    def register(task: T) -> T:
        kind: Any = task
        kind.title = title or name.replace("_", " ").capitalize()
        kind.parameters = parameters
        kind.asks_only = asks_only
        kind.is_noticed = is_noticed
        if not hasattr(kind, "has_work"):
            kind.has_work = staticmethod(_always)
        kind.permissions = permissions
        registry.add(Definition(name, task))
        return task

    return register


def _always() -> bool:
    return True
