"""What a repair is told: which failures, what is changed in them, and how they are released."""

from collections.abc import Mapping
from dataclasses import dataclass, field, fields
from datetime import datetime
from typing import Any

from integration.policy.operations import NEVER, StopRule
from integration.recipe_use import Rules
from integration.recipes import Unreadable, compile_recipe
from spark_jobs.imports.parameters import Structure
from spark_jobs.problems import JobError


@dataclass(frozen=True, slots=True, kw_only=True)
class Selection:
    """Which held failures are meant, as they were when the run was asked for.

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
class RepairParameters:
    """`structures` judge what comes of the change, by service; `defaults` are services by queue.

    Without `release` the changed messages stay on hold. `rate` is in messages a second, None for
    any; `query` is the selection as a list of failures asks for it.
    """

    selection: Selection
    recipe: str
    structures: Mapping[str, Structure] = field(default_factory=dict)
    defaults: Mapping[int, str] = field(default_factory=dict)
    release: bool = True
    late: bool = False
    rate: int | None = None
    stop: StopRule = NEVER
    query: str = ""

    @staticmethod
    def of(said: Mapping[str, Any]) -> "RepairParameters":
        """Check and read them. Raises JobError BAD_PARAMETERS, BAD_RECIPE."""
        known = {one.name for one in fields(RepairParameters)}
        if unknown := sorted(set(said) - known):
            raise bad(f"there is no parameter {unknown[0]!r}")
        try:
            read = RepairParameters(
                **{
                    **said,
                    "selection": _selection(said["selection"]),
                    "structures": {
                        interface: Structure(**{**one, "key_paths": tuple(one["key_paths"])})
                        for interface, one in said.get("structures", {}).items()
                    },
                    "defaults": {int(q): name for q, name in said.get("defaults", {}).items()},
                    "stop": StopRule(**said.get("stop", {})),
                }
            )
        except (KeyError, TypeError, ValueError) as e:
            raise bad(str(e)) from e
        try:
            compile_recipe(read.recipe)
        except Unreadable as e:
            raise JobError(
                "BAD_RECIPE",
                f"The change cannot be used: {e}.",
                'Write a JSON Patch: [{"op": "replace", "path": "/siteid", "value": "NORTH"}].',
            ) from e
        return read

    def rules(self) -> Rules:
        return Rules.of(self.structures, self.defaults)


def _selection(said: Mapping[str, Any]) -> Selection:
    times = {name: _time(said.get(name)) for name in ("since", "until")}
    return Selection(**{**said, **times, "queues": tuple(said["queues"])})


def _time(said: str | None) -> datetime | None:
    return None if said is None else datetime.fromisoformat(said)


def bad(why: str) -> JobError:
    return JobError(
        "BAD_PARAMETERS",
        f"The repair cannot be run as it is asked for: {why}.",
        "Correct the parameter and start the run again.",
    )
