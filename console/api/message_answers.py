"""What the operator API says of tracked messages: lines of a search, and the story of one."""

from dataclasses import replace
from datetime import datetime
from typing import Any, Final
from uuid import UUID

from ninja import Schema
from pydantic import Field

from integration.selectors.failures.timeline import Event
from integration.selectors.paging import PAGE_ROWS
from integration.selectors.tracking.masked import masked
from integration.selectors.tracking.rows import TrackRow
from integration.selectors.tracking.story import Story

_OF_CONTENTS: Final = ("key", "external_id", "search_a", "search_b")


class MessageFilters(Schema):
    """The filters of the console's list, as in the address there, and the place in it."""

    id: str | None = Field(
        None, description="Message or trace id; with the right view_payload any of its ids."
    )
    queue: str | None = None
    ended: str | None = Field(None, description="How a try of it ended.")
    hours: str | None = Field(None, description="Within so many: 1, 24 (default), 168, 720, 8760.")
    until: str | None = Field(None, description="As 2026-11-27T10:00 (UTC); else now.")
    system: str | None = Field(None, description="External system.")
    interface: str | None = Field(None, description="Service or channel.")
    direction: str | None = None
    key: str | None = Field(None, description="Record key; needs the right view_payload.")
    at: str | None = Field(None, description="`next` of an earlier answer.")
    size: int = Field(PAGE_ROWS, ge=1, le=200)


class TrackLine(Schema):
    """One ending of one try; what is of payloads is null without the right to see them."""

    at: datetime
    queue: str
    direction: str
    partition: int
    offset: int
    message_id: str
    interface: str
    ended: str
    written_at: datetime | None
    caused_by: str
    trace_id: str
    keeps_payload: bool
    key: str | None
    external_id: str | None
    search_a: str | None
    search_b: str | None

    @classmethod
    def of(cls, row: TrackRow, *, may_see: bool) -> "TrackLine":
        facts = {name: getattr(row, name) for name in cls.model_fields}
        return cls(**facts if may_see else facts | dict.fromkeys(_OF_CONTENTS))

    @classmethod
    def of_all(cls, rows: tuple[TrackRow, ...], *, may_see: bool) -> "list[TrackLine]":
        """The lines, without what masking rules hide."""
        shown = masked(rows) if may_see else rows
        return [cls.of(row, may_see=may_see) for row in shown]


class MessagePage(Schema):
    """A page, the newest first; `next` is a value for `at`. `count` stops at 1,000 (`is_capped`).

    `untried` is a message of the wanted id of which no try is listed: it waits, or its sender
    calls it by that id.
    """

    tracks: list[TrackLine]
    count: int
    is_capped: bool
    untried: str | None
    next: str | None


class StoryEvent(Schema):
    """One thing that happened. `detail` is null without the right to see payloads."""

    at: datetime
    title: str
    who: str
    code: str
    text: str
    detail: str | None
    operation: UUID | None

    @classmethod
    def of(cls, event: Event, *, may_see: bool) -> "StoryEvent":
        shown = event if may_see else replace(event, detail="")
        facts: dict[str, Any] = {name: getattr(shown, name) for name in cls.model_fields}
        return cls(**facts if may_see else facts | {"detail": None})


class MessageStory(Schema):
    """Everything known of one message: `events` oldest first, tries and failures newest first.

    `stands` says where it is as long as no try of it has ended.
    """

    id: str
    interface: str
    stands: str
    caused_by: str
    trace_id: str
    events: list[StoryEvent]
    tracks: list[TrackLine]
    failures: list[UUID]
    outbox_rows: list[int]

    @classmethod
    def of(cls, story: Story, *, may_see: bool) -> "MessageStory":
        return cls(
            id=story.message_id,
            interface=story.interface,
            stands=story.stands,
            caused_by=story.caused_by,
            trace_id=story.trace_id,
            events=[StoryEvent.of(event, may_see=may_see) for event in story.events],
            tracks=TrackLine.of_all(story.tracks, may_see=may_see),
            failures=[error.pk for error in story.failures],
            outbox_rows=[row.id for row in story.outgoing],
        )
