"""Facts about the installation at a moment, and problems that come of them. Values only."""

from collections.abc import Mapping, Sequence
from dataclasses import KW_ONLY, dataclass, field
from datetime import datetime
from enum import StrEnum
from typing import Final, NamedTuple
from uuid import UUID

from crontasks.health.slots import Slots
from integration.selectors.delivering.endpoints import EndpointRow
from integration.selectors.outbox.branches import CommitInDoubt, HeldByOthers
from integration.selectors.queues.heads import Head
from integration.selectors.queues.rows import QueueRow
from integration.selectors.queues.status import LiveProcesses, Situation
from integration.selectors.queues.unhandled import Untaken

# What is between us and a JMS broker, whichever of its queues is read.
_OF_JMS_BROKER: Final = frozenset({"JMS_UNREACHABLE", "JMS_REFUSED", "JMS_CERTIFICATE"})


class Way(StrEnum):
    """The place where the way out of a problem begins; the console knows the page."""

    QUEUE = "queue"
    CONFIGURE_QUEUE = "configure queue"
    FAILURE = "failure"
    OUTBOX = "outbox"
    SYSTEM = "system"
    SERVICE = "service"
    PROVIDER = "provider"
    INSTANCE = "instance"
    ENDPOINT = "endpoint"
    CONNECTION = "connection"
    OUTBOX_WAITING = "what waits in the outbox"
    TERMINAL = "terminal"


@dataclass(frozen=True, slots=True)
class Problem:
    """A problem: what is wrong, why, and what to do now. `subject` names what `way` leads to.

    The most urgent has the lowest `rank`. `number` is the primary key where pages are found by
    that. `is_grave`: messages stand still because of it, or will be lost.
    """

    what: str
    situation: Situation
    way: Way
    _: KW_ONLY
    rank: int
    subject: str = ""
    number: int | None = None
    is_grave: bool = True

    @property
    def why(self) -> str:
        return self.situation.why

    @property
    def next_step(self) -> str:
        return self.situation.next_step


class Taker(NamedTuple):
    """A service that is switched off, and the queues whose messages it takes by default."""

    number: int
    interface: str
    queues: tuple[str, ...]
    sequential: tuple[str, ...]


class Idle(NamedTuple):
    """A queue that no schedule starts: its cron instance, None if there is none."""

    queue: str
    instance: int | None
    name: str


class Short(NamedTuple):
    """A sequential queue whose topic forgets messages before the retries of one are over."""

    queue: str
    topic: str
    kept_seconds: float
    retries_seconds: float


class Late(NamedTuple):
    """A provider whose outbox has a message that is due for so long, and what its relay met."""

    provider: str
    seconds: float
    trouble: str = ""


class Schedule(NamedTuple):
    """A cron instance whose run failed or is late, as it was noticed; its queue, or empty."""

    name: str
    number: int
    queue: str
    kind: str
    text: str


class Branches(NamedTuple):
    """A connection factory whose branches wait for a person, and why."""

    factory: str
    number: int
    text: str


@dataclass(frozen=True, slots=True, kw_only=True)
class Facts:
    """Everything the problems are found from. `away` is what providers were last found to be.

    `broker_is_away`: of Celery, as last noticed.
    `bulk_waiting` counts bulk runs that no Spark driver takes.
    `slots` is None where no worker lives.
    `unknown` counts messages that may have arrived, by queue. `unhandled` is the service without a
    handler that a queue waits for. `hindered`: why the last run of a queue could not begin.
    """

    now: datetime
    live_processes: LiveProcesses
    rows: Sequence[QueueRow]
    heads: Mapping[UUID, Head] = field(default_factory=dict)
    away: Mapping[str, str] = field(default_factory=dict)
    services_off: Sequence[Taker] = ()
    idle: Sequence[Idle] = ()
    short: Sequence[Short] = ()
    endpoints: Sequence[EndpointRow] = ()
    unknown: Mapping[int, int] = field(default_factory=dict)
    late: Sequence[Late] = ()
    commits_in_doubt: Sequence[CommitInDoubt] = ()
    held_by_others: Sequence[HeldByOthers] = ()
    branches: Sequence[Branches] = ()
    schedules: Sequence[Schedule] = ()
    unhandled: Mapping[int, Untaken] = field(default_factory=dict)
    hindered: Mapping[int, str] = field(default_factory=dict)
    bulk_waiting: int = 0
    broker_is_away: bool = False
    slots: Slots | None = None


def is_wanted(row: QueueRow) -> bool:
    """Return whether people want it to run; a relay stops for nobody."""
    return not row.is_read or (row.enabled and not row.paused)


def is_of_provider(code: str) -> bool:
    """Return whether a state's code is a trouble between us and the provider, for all its queues.

    What else a JMS broker refuses concerns one queue: its selector, its address, a right there.
    """
    return code.startswith("KAFKA_") or code in _OF_JMS_BROKER


def counted(count: int, one: str, many: str) -> str:
    return f"One {one}" if count == 1 else f"{count:,} {many}"
