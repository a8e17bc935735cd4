"""The small counts beside the menu: one query for all of them, which stops counting at its cap."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import lru_cache
from typing import Any, Final

from django.db.models import QuerySet

from integration.models import BulkRun, MessageError, Operation, QueuePartition
from integration.policy.states import BulkState, ErrorState, OperationState, PartitionState
from integration.selectors.scope import Scope, visible_operations, visible_runs
from integration.store.querysets import text_of
from integration.store.sessions import fetch_all

# A statement and its parameters.
Query = tuple[str, tuple[Any, ...]]
# Nobody reads the difference between 1,000 and 2,000 beside a menu; counting it costs time.
CAP: Final = 999


@dataclass(frozen=True, slots=True)
class Badge:
    """The number of things that wait, up to the cap, and what they are: "12 held"."""

    count: int
    word: str

    @property
    def shown(self) -> str:
        return f"{CAP}+" if self.count > CAP else f"{self.count:,}"


@dataclass(frozen=True, slots=True)
class Waiting:
    """Something that is counted: what it is called, and the rows of it that a person may know.

    `rows` only composes: what it answers is kept for its scope.
    """

    word: str
    rows: Callable[[Scope], QuerySet[Any, Any]]


def _held(scope: Scope) -> QuerySet[Any, Any]:
    failures = MessageError.objects.filter(scope.within("queue__system"), state=ErrorState.HOLD)
    return failures.values("pk")


def _in_need(scope: Scope) -> QuerySet[Any, Any]:
    stuck = (PartitionState.BLOCKED, PartitionState.BRAKED)
    partitions = QueuePartition.objects.filter(scope.within("queue__system"), state__in=stuck)
    return partitions.values("queue").distinct()


def _operations(scope: Scope) -> QuerySet[Any, Any]:
    states = (OperationState.RUNNING, OperationState.PAUSED)
    return Operation.objects.filter(visible_operations(scope), state__in=states).values("pk")


def _bulk_runs(scope: Scope) -> QuerySet[Any, Any]:
    states = (BulkState.ASKED, BulkState.RUNNING)
    return BulkRun.objects.filter(visible_runs(scope), state__in=states).values("pk")


# Failures that wait for a person, and queues that stand still until a person decides.
HELD: Final = Waiting("held", _held)
QUEUES_IN_NEED: Final = Waiting("need a person", _in_need)
# Bulk operations under way or paused, and runs of bulk jobs that wait or are under way; of a
# limited person only those they may see.
OPERATIONS: Final = Waiting("under way", _operations)
BULK_RUNS: Final = Waiting("under way", _bulk_runs)


def counted(waiting: Sequence[Waiting], scope: Scope) -> list[Badge]:
    """A badge for each, in their order; one query, because every page asks for all of them."""
    counts: list[str] = []
    values: list[Any] = []
    for badge in waiting:
        text, parameters = _query(badge, scope)
        counts.append(f"(SELECT count(*) FROM ({text}) AS counted)")
        values += parameters
    [row] = fetch_all(f"SELECT {', '.join(counts)}", values)
    return [Badge(count, badge.word) for count, badge in zip(row, waiting, strict=True)]


@lru_cache(maxsize=256)
def _query(waiting: Waiting, scope: Scope) -> Query:
    """The query of a scope, kept: to compose the four takes longer than to ask them."""
    return text_of(waiting.rows(scope).order_by()[: CAP + 1])
