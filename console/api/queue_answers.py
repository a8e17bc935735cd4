"""What the operator API says of queues, and what it takes for them."""

from datetime import datetime
from typing import Annotated, Any, Final
from uuid import UUID

from ninja import Schema
from pydantic import AwareDatetime, Field

from console.api.paging import LARGEST, RowNumber
from console.api.routes import Decision, Given, Reason
from integration.actions.blocks import Place
from integration.selectors.queues.rows import QueueRow
from integration.selectors.queues.seeking import To

MOST_PARTITIONS: Final = 10_000
Offset = Annotated[int, Field(ge=0, le=LARGEST)]
Partition = Annotated[int, Field(ge=0, lt=2**31)]


class PartitionLine(Schema):
    """One partition; `code` says what stops it."""

    number: int
    status: str
    code: str
    text: str
    next_offset: int
    high_watermark: int | None
    lag: int | None
    owner: str
    stop_at: int | None

    @classmethod
    def of(cls, row: Any) -> "PartitionLine":
        own = {name: getattr(row, name) for name in cls.model_fields if name not in _WORDS}
        return cls(**own, status=row.status.name, text=row.situation.text)


class QueueLine(Schema):
    """A queue as it stands; `why` and `next_step` say what that means. Counts are of messages."""

    name: str
    description: str
    topic: str
    provider: str
    system: str
    kind: str
    direction: str
    enabled: bool
    paused: bool
    status: str
    why: str
    next_step: str
    since: datetime | None
    lag: int | None
    held: int
    retrying: int
    parked: int
    failure: UUID | None = Field(description="The failure that stops it.")

    @classmethod
    def of(cls, row: QueueRow) -> "QueueLine":
        return cls(**facts_of(row))


class QueueDetail(QueueLine):
    """A queue with its partitions."""

    partitions: list[PartitionLine]


class QueueSetUp(Schema):
    """The values of a queue by field; of secrets only whether they are set."""

    queue: str
    values: dict[str, Any]


class QueuePage(Schema):
    """Queues by name; `next` is a value for `after`."""

    queues: list[QueueLine]
    next: str | None


_WORDS: Final = ("status", "text")


def facts_of(row: QueueRow) -> dict[str, Any]:
    words = {"status": row.status.name, "why": row.situation.why}
    words["next_step"] = row.situation.next_step
    own = [name for name in QueueLine.model_fields if name not in words]
    return {**{name: getattr(row, name) for name in own}, **words}


class QueueFilters(Schema):
    """The filters of the console's list, as in the address there."""

    system: str | None = None
    state: str | None = Field(None, description="A status, or NEED: it needs a person.")
    kind: str | None = None
    text: str | None = None
    after: str | None = None


class PauseQueue(Decision):
    """Until a time, 30 days ahead at most, or until somebody resumes it."""

    until: AwareDatetime | None = None


class StopQueue(Decision):
    """Work up to an offset, or with null up to what is in the topic now; then pause."""

    offset: Offset | None = None
    partition: Partition | None = Field(None, description="null: all of them.")


class AdoptTopic(Decision):
    """Where to go on in a topic that was made anew; null: stay blocked."""

    place: Place | None


class Asked(Schema):
    """Where positions would be moved to."""

    to: To
    partition: Partition | None = None
    offset: Offset | None = None
    at: AwareDatetime | None = None
    count: Annotated[int, Field(ge=1, le=1_000_000_000)] | None = None


class Line(Schema):
    """One partition before and after; counts are of messages, at most."""

    partition: int
    epoch: int
    before: int
    after: int
    low: int
    high: int
    again: int
    skipped: int
    open_between: int
    moves: bool
    problem: str


class PositionPlan(Schema):
    """What moving positions would do; `lines` that move are what a POST takes."""

    lines: list[Line]
    again: int
    skipped: int


class Move(Given):
    """One partition's position as it was seen, and where it is to go."""

    partition: Partition
    epoch: RowNumber
    before: Offset
    after: Offset


class MovePositions(Given):
    """Moves as the plan showed them, with the reason."""

    moves: list[Move] = Field(min_length=1, max_length=MOST_PARTITIONS)
    reason: Reason
    send_again: bool = Field(default=False, description="Outbound: also what was delivered.")


class Effects(Schema):
    """What was done, a sentence for each partition."""

    effects: list[str]
