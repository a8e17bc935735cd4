"""The parameters of a replay: which messages of a topic range, and where they go."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from datetime import datetime
from enum import StrEnum
from typing import ClassVar

from integration.paths import BadPath, compile_path
from spark_jobs.imports.parameters import Structure
from spark_jobs.topics.planning import Wanted, bound


class Into(StrEnum):
    """The destination of the messages."""

    QUEUE = "queue"
    TOPIC = "topic"
    STRUCTURE = "structure"


@dataclass(frozen=True, slots=True, kw_only=True)
class Filter:
    """The filter of messages; what is empty lets all through, and all that is set must hold.

    `header` is NAME or NAME=VALUE, `path` a path or PATH=VALUE: without one any value will do.
    """

    key: str = ""
    header: str = ""
    path: str = ""
    interface: str = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class ReplayParameters(Wanted):
    """An inbound queue, the range of its topic, and what becomes of the chosen messages.

    `provider_name` and `default_interface` name messages that do not say who they are. With a
    reason in `apply_as_newest` messages are applied as if they had come now; `arrival` is the
    run's number for those that have none. `as_of` leaves out what was applied after that time.
    `order_path` tells where in a document the queue finds the key whose order it keeps,
    `retry_wrapper` that its messages come wrapped, `generations` by partition how often its offsets
    were given to other messages.
    """

    JOB: ClassVar[str] = "replay"
    provider: int
    provider_name: str
    queue: int
    into: Into
    arrival: int
    default_interface: str = ""
    order_path: str = ""
    retry_wrapper: bool = False
    generations: Mapping[int, int] = field(default_factory=dict)
    target: str = ""
    structure: Structure | None = None
    chosen: Filter = Filter()
    apply_as_newest: str = ""
    as_of: str = ""

    @property
    def until(self) -> datetime | None:
        """The time of `as_of`."""
        end = bound(self.as_of)
        return end if isinstance(end, datetime) else None

    def check(self) -> None:
        """Raise JobError for what does not go together."""
        Wanted.check(self)
        for is_wrong, why in (
            (self.as_of and self.until is None, f"{self.as_of!r} is no time with its zone"),
            (
                self.as_of and self.into is not Into.STRUCTURE,
                "only a structure is rebuilt as of a time",
            ),
            (
                self.into is Into.TOPIC and not self.target,
                "it does not say which topic the messages go to",
            ),
            (
                self.into is Into.TOPIC and self.target == self.topic,
                "the messages would go to the topic that they come from",
            ),
            (
                self.into is Into.TOPIC and self.apply_as_newest,
                "who reads the other topic decides what is the newest there",
            ),
            (
                self.into is Into.STRUCTURE and self.structure is None,
                "it does not say which structure is rebuilt",
            ),
        ):
            if is_wrong:
                raise self.bad(why)
        self._check_path()

    def _check_path(self) -> None:
        path = self.chosen.path.partition("=")[0]
        if path:
            try:
                compile_path(path)
            except BadPath as e:
                raise self.bad(str(e)) from e
