"""What the operator API says of failures, and what it takes for them."""

from datetime import datetime
from typing import Any
from uuid import UUID

from ninja import Schema
from pydantic import Base64Bytes, Field

from console.api.routes import Decision, Given, Reason, Version, Whole
from integration.actions.check import Check
from integration.selectors.failures.edits import Editable, Part
from integration.selectors.failures.failure import FailureDetail
from integration.selectors.failures.rows import FailureRow


class FailureLine(Schema):
    """A failure as a line of the list; `key` is null without the right to see payloads."""

    id: UUID
    version: int = Field(description="Decisions name it: they fail if it has moved on since.")
    queue: str
    partition: int
    offset: int
    message_id: str
    interface: str
    state: str
    code: str
    text: str
    fingerprint: str
    attempts: int
    not_before: datetime | None
    is_edited: bool
    is_expired: bool
    last_failed_at: datetime
    origin_topic: str
    key: str | None

    @classmethod
    def of(cls, row: FailureRow, *, may_see: bool) -> "FailureLine":
        facts = {name: getattr(row, name) for name in cls.model_fields if name != "key"}
        return cls.model_construct(**facts, key=row.key if may_see else None)


class FailurePage(Schema):
    """A page of the list, the newest failure first; `next` and `previous` are values for `at`.

    `count` stops above 1,000 (`is_capped`), and is null where payloads were searched.
    """

    failures: list[FailureLine]
    count: int | None
    is_capped: bool
    next: str | None
    previous: str | None


class Try(Schema):
    """One attempt of the engine."""

    number: int
    at: datetime
    ended: str
    code: str


class FailureDecision(Schema):
    """One decision of a person."""

    at: datetime
    actor: str
    action: str
    reason: str


class Failure(Schema):
    """One failure with what happened and what to do now."""

    id: UUID
    version: int
    queue: str
    partition: int
    offset: int
    message_id: str
    interface: str
    sender: str
    state: str
    failure_class: str
    code: str
    text: str
    fingerprint: str
    attempts: int
    not_before: datetime | None
    first_failed_at: datetime
    last_failed_at: datetime
    closed_at: datetime | None
    ended: str
    is_edited: bool
    what: str = Field(description="What happened, as a sentence.")
    now: str = Field(description="What to do now, or what it waits for.")
    late: str | None = Field(description="Why a release needs “late”: true; else null.")
    ahead: UUID | None = Field(description="The failure to be closed before this one is tried.")
    tries: list[Try]
    decisions: list[FailureDecision]

    @classmethod
    def of(cls, detail: FailureDetail, now: str) -> "Failure":
        error = detail.error
        own = {*cls.model_fields} - {
            *("queue", "sender", "fingerprint", "is_edited", "what", "now", "late", "ahead"),
            *("tries", "decisions"),
        }
        return cls.model_validate(
            {name: getattr(error, name) for name in own}
            | {
                "queue": error.queue.name,
                "sender": detail.sender[0],
                "fingerprint": detail.cause,
                "is_edited": detail.is_edited,
                "what": detail.account.what,
                "now": now,
                "late": detail.late,
                "ahead": detail.ahead.id if detail.ahead else None,
                "tries": [Try.model_validate(one, from_attributes=True) for one in detail.tries],
                "decisions": [
                    FailureDecision.model_validate(one, from_attributes=True)
                    for one in detail.changes
                ],
            }
        )


class CauseGroup(Schema):
    """Open failures that belong together; `narrows` are the filters that find just these."""

    name: str
    code: str
    interface: str
    text: str
    count: int
    held: int
    retrying: int
    released: int
    parked: int
    first: datetime
    last: datetime
    queues: list[str]
    narrows: dict[str, str]


class CauseGroups(Schema):
    """The largest groups, of `total` failures; `has_more`: smaller groups are left out."""

    groups: list[CauseGroup]
    total: int
    has_more: bool


class Payload(Schema):
    """What the next attempt reads. `text` is null where it is no text: then take the record.

    `part` is what the text stands for: the document, or the whole record.
    """

    version: int
    part: Part
    has_envelope: bool
    text: str | None
    is_tombstone: bool
    key: str
    headers: list[tuple[str, str]]
    flaw_code: str
    flaw_text: str
    is_masked: bool = Field(description="Values of it are hidden: placeholders stand for them.")

    @classmethod
    def of(cls, message: Editable, contents: Any) -> "Payload":
        return cls(
            version=message.error.version,
            part=message.part,
            has_envelope=message.has_envelope,
            text=message.content,
            is_tombstone=message.is_tombstone,
            key=contents.key,
            headers=list(contents.headers),
            flaw_code=contents.current.flaw_code,
            flaw_text=contents.current.flaw_text,
            is_masked=contents.is_masked,
        )


class Tried(Given):
    """A text or a record in place of what is stored; neither: what is stored."""

    part: Part | None = None
    text: Whole | None = None
    record: Base64Bytes | None = Field(
        None, description="The whole record, Base64.", json_schema_extra={"format": "byte"}
    )


class Edit(Tried):
    """What the next attempt shall read instead. The original is kept."""

    version: Version
    reason: Reason = ""
    anyway: bool = Field(default=False, description="Store it although it would fail again.")


class Versioned(Decision):
    """A decision about a failure as it was seen."""

    version: Version


class Release(Versioned):
    """Give it back to the engine."""

    late: bool = Field(default=False, description="Also if it is applied after newer messages.")
    apply_as_newest: bool = Field(default=False, description="Needs a reason.")


class Decided(Schema):
    """How it stands after a decision; `already` means that the same person did the same before."""

    id: UUID
    version: int
    state: str
    already: bool = False


class Edited(Schema):
    """The version after an edit; the same one where nothing differs."""

    id: UUID
    version: int


class Written(Schema):
    """Rows of a table that the handler would have written."""

    table: str
    inserted: int
    updated: int
    deleted: int


class Checked(Schema):
    """What the handler did on trial; nothing of it was kept."""

    ending: str
    interface: str
    was_called: bool
    why: str
    code: str | None
    text: str | None
    tables: list[Written]
    sent: int = Field(description="Messages it would send.")

    @classmethod
    def of(cls, result: Check) -> "Checked":
        failure = result.failure
        return cls(
            ending=result.ending.value,
            interface=result.interface,
            was_called=result.was_called,
            why=result.why,
            code=failure.code if failure else None,
            text=failure.text if failure else None,
            tables=[Written.model_validate(one, from_attributes=True) for one in result.tables],
            sent=len(result.sent),
        )
