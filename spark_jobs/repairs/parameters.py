"""The parameters of a repair: in which failures, what it changes, and how they are released."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from datetime import datetime
from typing import ClassVar

from integration.formats.compiling import compiled
from integration.formats.port import unusable
from integration.formats.schema import Registered, Schema, UnusableSchemaError
from integration.policy.failure import Failure, FailureClass
from integration.policy.operations import NEVER, StopRule
from integration.recipe_use import Rules
from integration.recipes import Unreadable, compile_written
from spark_jobs.errors import JobError
from spark_jobs.imports.parameters import Structure
from spark_jobs.parameters import JobParameters


@dataclass(frozen=True, slots=True, kw_only=True)
class Selection:
    """The held failures that are meant, as they were when the run was asked for.

    Empty texts ask for nothing; `interface` None neither, "" means messages that name no service.
    `since` and `until` bound the last failure, `run` is the bulk run that rejected them, and
    `text` is looked for in records and in the documents in them.
    """

    queues: tuple[int, ...]
    code: str = ""
    fingerprint: str = ""
    interface: str | None = None
    run: str = ""
    since: datetime | None = None
    until: datetime | None = None
    text: str = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class Writing:
    """The schema of a queue's messages with this id, as its registry had it when it was asked.

    Without one `code` and `why` say what it lacks.
    """

    queue: int
    id: int
    registered: Registered | None = None
    code: str = ""
    why: str = ""

    def schema(self) -> Schema | Failure:
        """Compile it, or say why there is none."""
        if self.registered is None:
            return Failure(FailureClass.PERMANENT, self.code, self.why)
        try:
            return compiled(self.registered)
        except UnusableSchemaError as e:
            return unusable(self.id, str(e))


@dataclass(frozen=True, slots=True, kw_only=True)
class RepairParameters(JobParameters):
    """`structures` judge what comes of the change, by service; `defaults` are services by queue.

    `schemas` are what messages of registries are read and written by: a job asks no registry.
    `masked` are the queues of whose payloads a masking rule hides something, `wrapped` those whose
    messages come in a retry wrapper.
    Without `release` the changed messages stay on hold. `rate` is in messages a second, None for
    any; `query` is the selection as a list of failures asks for it.
    """

    JOB: ClassVar[str] = "repair"
    selection: Selection
    recipe: str
    structures: Mapping[str, Structure] = field(default_factory=dict)
    defaults: Mapping[int, str] = field(default_factory=dict)
    schemas: tuple[Writing, ...] = ()
    masked: tuple[int, ...] = ()
    wrapped: tuple[int, ...] = ()
    release: bool = True
    late: bool = False
    rate: int | None = None
    stop: StopRule = NEVER
    query: str = ""

    def check(self) -> None:
        """Raise JobError BAD_RECIPE for a change that cannot be made."""
        try:
            compile_written(self.recipe)
        except Unreadable as e:
            raise JobError(
                "BAD_RECIPE",
                f"The change cannot be used: {e}.",
                'Write a JSON Patch: [{"op": "replace", "path": "/siteid", "value": "NORTH"}].',
            ) from e

    def rules(self) -> Rules:
        return Rules.of(self.structures, self.defaults, self.masked, self.wrapped)
