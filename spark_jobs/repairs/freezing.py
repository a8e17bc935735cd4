"""The messages of a run, stored before anything is read of them: a rerun has the same."""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Final, Self

from spark_jobs.errors import JobError
from spark_jobs.fencing import Owned, fence
from spark_jobs.parameters import RunPlan
from spark_jobs.repairs.parameters import RepairParameters
from spark_jobs.repairs.selection import COST, condition
from spark_jobs.staging import Session, Stage

# The size of a task's reading and of a commit's edits: a second's work, and little memory.
PART_BYTES: Final = 8 * 2**20
_FREEZES: Final = -1
# What was chosen and done outlives a crash of the database; what was judged is judged again.
_ITEMS: Final = """
CREATE TABLE {items} (
  place int PRIMARY KEY, id uuid NOT NULL, version int NOT NULL, queue bigint NOT NULL,
  part bigint NOT NULL);
CREATE TABLE {applied} (part int PRIMARY KEY, rows int NOT NULL);
CREATE TABLE {outcomes} (
  place int PRIMARY KEY, id uuid NOT NULL, version int NOT NULL, queue bigint NOT NULL,
  kind text NOT NULL, text text NOT NULL);
CREATE UNLOGGED TABLE {judged} (part int PRIMARY KEY, rows int NOT NULL);
CREATE UNLOGGED TABLE {results} (
  place int PRIMARY KEY, id uuid NOT NULL, version int NOT NULL, queue bigint NOT NULL,
  kind text NOT NULL, text text NOT NULL, payload bytea);
"""
# In the order of arrival: what came first is released first. Cut where a part's bytes are full.
_FREEZE: Final = """
WITH found AS (
  SELECT e.id, e.version, e.queue_id, {cost} AS cost,
    row_number() OVER (ORDER BY e.arrival_batch, e.arrival_index, e.id) - 1 AS place
  FROM integration_messageerror e WHERE {condition}
)
INSERT INTO {items} (place, id, version, queue, part)
SELECT place, id, version, queue_id, sum(cost) OVER (ORDER BY place) / %(part_bytes)s::bigint
FROM found
"""
_PARTS: Final = "SELECT min(place), max(place) + 1 FROM {items} GROUP BY part ORDER BY 1"


@dataclass(frozen=True, slots=True)
class Part:
    """Messages that are judged by one task and edited in one commit: places from `begin` on."""

    number: int
    begin: int
    end: int

    @property
    def rows(self) -> int:
        return self.end - self.begin


@dataclass(frozen=True, slots=True, kw_only=True)
class Plan(RunPlan):
    """All parts of a run. Together they have every place from 0 on, once."""

    parts: tuple[Part, ...]

    @property
    def messages(self) -> int:
        return self.parts[-1].end if self.parts else 0

    @classmethod
    def of(cls, values: Mapping[str, Any]) -> Self:
        return cls(parts=tuple(Part(n, *bounds) for n, bounds in enumerate(values["parts"])))

    def as_json(self) -> dict[str, Any]:
        return {"messages": self.messages, "parts": [[p.begin, p.end] for p in self.parts]}


class Tables(Stage):
    """The tables of one repair."""

    NAME = "sluice repair"
    PARTS = ("items", "judged", "results", "applied", "outcomes")

    def are_there(self, session: Session) -> bool:
        name = f"{self.name}_items"
        row = session.execute("SELECT to_regclass(%s) IS NOT NULL", [name]).fetchone()
        return bool(row and row[0])


def frozen(
    session: Session,
    owned: Owned,
    parameters: RepairParameters,
    part_bytes: int = PART_BYTES,
) -> Plan:
    """Choose the messages, or find those that an earlier driver of this run chose.

    Raises JobError RUN_TAKEN.
    """
    tables = Tables(owned.run)
    with session.transaction():
        tables.hold(session, _FREEZES)
        if not tables.are_there(session):
            session.execute(tables.sql(_ITEMS))
            _freeze(session, tables, parameters, part_bytes)
        parts = session.execute(tables.sql(_PARTS)).fetchall()
        fence(session, owned)
    return Plan.of({"parts": parts})


def _freeze(
    session: Session, tables: Tables, parameters: RepairParameters, part_bytes: int
) -> None:
    where, values = condition(parameters.selection)
    statement = tables.sql(_FREEZE, cost=COST, condition=where)
    session.execute(statement, {**values, "part_bytes": part_bytes})
    # Else the planner would take the new table for an empty or a huge one.
    session.execute(tables.sql("ANALYZE {items}"))


def still_frozen(session: Session, run: str, plan: Plan) -> None:
    """Raise JobError PLAN_LOST unless what was chosen is still there."""
    tables = Tables(run)
    if tables.are_there(session):
        row = session.execute(tables.sql("SELECT count(*) FROM {items}")).fetchone()
        if row is not None and row[0] == plan.messages:
            return
    raise JobError(
        "PLAN_LOST",
        "The table with the messages that were chosen for this run is gone.",
        "Ask for a new run; what this one has edited stays edited and on hold.",
    )
