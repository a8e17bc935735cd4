"""What the operator API says of operations over many failures, and what it takes for them."""

from datetime import datetime
from typing import Annotated, Literal
from uuid import UUID

from ninja import Schema
from pydantic import Field, StringConstraints

from console.api.routes import Decision, Given, Reason, Text, Version
from console.failures.filters import with_cause_id, without_secrets
from console.layout.asked import ACTION_ROWS
from console.operations.forms import MOST_A_SECOND
from integration.models import Operation
from integration.recipes import MAX_CHARACTERS
from integration.selectors.operations.operations import Progress

Verb = Literal["release", "hold", "delete", "restore", "edit", "send back"]
Rate = Annotated[int, Field(ge=1, le=MOST_A_SECOND)]


class Chosen(Given):
    """A failure as it was seen."""

    id: UUID
    version: Version


class Plan(Given):
    """The failures that a verb is for: named one by one, or by a filter of the list."""

    verb: Verb
    failures: list[Chosen] | None = Field(None, max_length=ACTION_ROWS)
    filter: dict[str, Text] | None = Field(None, description="As the list takes it.")


class Start(Given):
    """The way to carry out a planned operation."""

    version: Version
    reason: Reason = ""
    rate: Rate | None = Field(None, description="Messages a second; null: any.")
    first_only: bool = Field(default=False, description="Pause after the first message.")
    late: bool = Field(default=False, description="Also what is applied after newer messages.")
    release_after_edit: bool = True
    stop: Annotated[str, StringConstraints(max_length=20)] = Field(
        "", description="Pause when so many failed again: a number, or a share such as “5 %”."
    )


class Resume(Decision):
    """Go on, as it was seen."""

    version: Version
    first_only: bool = False


class ChangeRate(Given):
    """Another rate, as it was seen."""

    version: Version
    rate: Rate | None


class SetRecipe(Given):
    """What an edit changes in each message: a JSON Patch as text."""

    version: Version
    recipe: Annotated[str, StringConstraints(max_length=MAX_CHARACTERS, pattern="^[^\x00]*$")]


class Again(Given):
    """A part of an operation, for a new one."""

    verb: Verb
    part: Literal["failed", "skipped"]


class OperationLine(Schema):
    """An operation as a line of the list."""

    id: UUID
    verb: str
    title: str
    state: str
    version: int = Field(description="Decisions name it: they fail if it was changed since.")
    total: int
    handled: int
    done: int
    is_capped: bool
    rate: int | None
    actor: str
    reason: str
    why_paused: str
    query: str = Field(description="The filter; key and text only with the right to see payloads.")
    created_at: datetime
    started_at: datetime | None
    ended_at: datetime | None

    @classmethod
    def of(cls, row: Operation, *, sees_payloads: bool) -> "OperationLine":
        line = cls.model_validate(row, from_attributes=True)
        line.query = with_cause_id(line.query)
        if not sees_payloads:
            line.query = without_secrets(line.query)
        return line


class OperationPage(Schema):
    """A page of the list, the newest first; `next` is a value for `at`."""

    operations: list[OperationLine]
    next: str | None


class HowFar(Schema):
    """How far it is, in messages, and what became of those it has done."""

    left: int
    done: int
    skipped: int
    resolved: int
    failed: int
    waiting: int
    kept: int
    moved: int
    gone: int
    rate: float | None = Field(description="Messages a second.")


class OperationDetail(OperationLine):
    """One operation. `recipe` is null without the right to see or edit payloads."""

    recipe: str | None
    is_tried: bool
    progress: HowFar

    @classmethod
    def shown(
        cls, row: Operation, progress: Progress, *, sees_payloads: bool, sees_recipe: bool
    ) -> "OperationDetail":
        line = OperationLine.of(row, sees_payloads=sees_payloads).model_dump()
        how_far = HowFar.model_validate(progress, from_attributes=True)
        recipe = row.recipe if sees_recipe else None
        return cls(**line, recipe=recipe, is_tried=row.is_tried, progress=how_far)


class ItemLine(Schema):
    """One message of an operation, what was done to it, and how it stands now."""

    place: int
    failure: UUID
    outcome: str = Field(description="Empty: it is still to come.")
    text: str
    became: str
    at: datetime | None
    queue: str | None
    interface: str | None
    message_id: str | None
    state: str | None
    code: str | None


class ItemLines(Schema):
    """A page of messages in their order; `next` is a value for `after`."""

    items: list[ItemLine]
    next: int | None
