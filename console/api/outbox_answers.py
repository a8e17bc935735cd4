"""What the operator API says of outgoing messages, and what it takes for them."""

from datetime import datetime
from enum import StrEnum
from typing import Any
from uuid import UUID

from ninja import Schema
from pydantic import Field

from console.api.paging import RowNumber
from console.api.routes import Given, Reason, Text
from console.layout.asked import ACTION_ROWS
from integration.selectors.outbox import branches
from integration.selectors.outbox.rows import Doubt, OutboxDetail, OutboxLine
from integration.selectors.paging import PAGE_ROWS


class OutboxFilters(Schema):
    """The filters of the console's list, as in the address there, and the place in it."""

    state: str | None = Field(None, description="DEAD (default), PENDING or STAMPED.")
    queue: str | None = Field(None, description="Outbound queue.")
    code: str | None = Field(None, description="Why Kafka refused it.")
    kind: str | None = None
    topic: str | None = None
    message_id: str | None = None
    after: RowNumber | None = Field(None, description="`next` of an earlier answer.")
    size: int = Field(PAGE_ROWS, ge=1, le=200)


class OutgoingLine(Schema):
    """One row of the outbox; decisions name its `batch`, and fail if it was tried again since."""

    id: int
    state: str
    kind: str
    provider: str
    topic: str
    partition: int | None
    message_id: str
    batch: UUID | None
    created_at: datetime
    not_before: datetime | None
    published_at: datetime | None
    code: str
    text: str
    what: str = Field(description="What happened, as a sentence.")
    now: str = Field(description="What to do now, or what it waits for.")

    @classmethod
    def of(cls, line: OutboxLine) -> "OutgoingLine":
        return cls(**_facts_of(line))


class OutboxPage(Schema):
    """A page, in the order of sending; `next` is a value for `after`.

    `count` stops above 10,000 (`is_capped`).
    """

    rows: list[OutgoingLine]
    count: int
    is_capped: bool
    next: int | None


class OutboxDecision(Schema):
    """What somebody decided about a row, or about the batch that it was in."""

    at: datetime
    actor: str
    action: str
    from_state: str
    to_state: str
    reason: str


class Outgoing(OutgoingLine):
    """One row with its history. `behind` is how many wait for it in a strict order."""

    behind: int
    decisions: list[OutboxDecision]

    @classmethod
    def of_detail(cls, detail: OutboxDetail) -> "Outgoing":
        decided = [
            OutboxDecision.model_validate(one, from_attributes=True) for one in detail.changes
        ]
        return cls(**_facts_of(detail), behind=detail.behind, decisions=decided)


class AboutRow(Given):
    """A decision about a row as it was seen: `batch` of the answer that told of it."""

    batch: UUID | None = None
    reason: Reason = ""


class SeenRow(Given):
    """A row as it was seen."""

    id: RowNumber
    batch: UUID | None = None


class AboutRows(Given):
    """A decision about many rows, each as it was seen."""

    rows: list[SeenRow] = Field(min_length=1, max_length=ACTION_ROWS)
    reason: Reason = ""


class OutboxOutcome(Schema):
    """How many were decided about; those that had `moved_on` were left alone."""

    moved: int
    moved_on: int


class BatchInDoubt(Schema):
    """A batch of which nobody knows whether it is in Kafka: `count` rows, `first` to `last`."""

    lease_id: int
    relay: str
    provider: str
    since: datetime
    text: str
    batch: UUID | None
    count: int
    first: int | None
    last: int | None
    topics: list[str]

    @classmethod
    def of(cls, doubt: Doubt) -> "BatchInDoubt":
        return cls(**_attributes(cls, doubt, "topics"), topics=list(doubt.topics))


class CommitInDoubt(Schema):
    """A prepared transaction of which Kafka does not tell whether its part is committed.

    `tables` are those in which it holds rows; `waiting` counts the sessions that wait for any.
    """

    name: str
    queue: str
    topic: str
    partition: int
    last_offset: int
    since: datetime
    tables: list[str]
    waiting: int
    second: str
    why: str
    next_step: str

    @classmethod
    def of(cls, doubt: branches.CommitInDoubt) -> "CommitInDoubt":
        told = doubt.situation
        own = _attributes(cls, doubt, "tables", "why", "next_step")
        return cls(**own, tables=list(doubt.tables), why=told.why, next_step=told.next_step)


class BatchesInDoubt(Schema):
    """Batches that wait for a person's word; none for people who see some systems only."""

    batches: list[BatchInDoubt]


class CommitsInDoubt(Schema):
    """Commits that wait for a person's word; none for people who see some systems only."""

    commits: list[CommitInDoubt]


class AboutBatch(Given):
    """A person's word on a batch: it is in Kafka (`is_sent`), or it is to be sent."""

    batch: UUID
    is_sent: bool
    reason: Reason = ""


class Rows(Schema):
    """How many rows it was about."""

    count: int


class CommitChoice(StrEnum):
    """What is to become of a prepared transaction."""

    COMMIT = "commit"
    ROLL_BACK = "roll-back"


class AboutCommit(Given):
    """A person's word on a commit in doubt, by its name; needs a reason."""

    name: Text
    choice: CommitChoice
    reason: Reason


class CommitDecided(Schema):
    """What was decided about which one."""

    name: str
    choice: CommitChoice


def _attributes(cls: type[Schema], thing: object, *besides: str) -> dict[str, Any]:
    return {name: getattr(thing, name) for name in cls.model_fields if name not in besides}


def _facts_of(line: OutboxLine | OutboxDetail) -> dict[str, Any]:
    row, told = line.row, line.account
    given = {"provider": row.provider.name, "code": row.dead_code, "text": row.dead_text}
    given |= {"what": told.what, "now": told.now}
    return _attributes(OutgoingLine, row, *given) | given
