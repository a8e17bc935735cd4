"""The small counts beside the menu: each is one query that stops counting at its cap."""

from dataclasses import dataclass
from typing import Final

from integration.delivery.policy.states import ErrorState, OperationState, PartitionState
from integration.models import BulkRun, BulkState, MessageError, Operation, QueuePartition
from integration.selectors.scope import Scope, visible_operations, visible_runs

# Nobody reads the difference between 1,000 and 2,000 beside a menu; counting it costs time.
CAP: Final = 999


@dataclass(frozen=True, slots=True)
class Badge:
    """How many wait, up to the cap, and what they are: "12 held"."""

    count: int
    word: str

    @property
    def shown(self) -> str:
        return f"{CAP}+" if self.count > CAP else f"{self.count:,}"


def held(scope: Scope) -> Badge:
    """Failures that wait for a person."""
    found = MessageError.objects.filter(scope.within("queue__system"), state=ErrorState.HOLD)
    return Badge(found.order_by()[: CAP + 1].count(), "held")


def queues_in_need(scope: Scope) -> Badge:
    """Queues that stand still until a person decides."""
    stuck = (PartitionState.BLOCKED, PartitionState.BRAKED)
    found = QueuePartition.objects.filter(scope.within("queue__system"), state__in=stuck)
    return Badge(found.order_by().values("queue").distinct().count(), "need a person")


def operations(scope: Scope) -> Badge:
    """Bulk operations under way or paused; of a limited person only those they may see."""
    states = (OperationState.RUNNING, OperationState.PAUSED)
    found = Operation.objects.filter(visible_operations(scope), state__in=states)
    return Badge(found.order_by().count(), "under way")


def bulk_runs(scope: Scope) -> Badge:
    """Runs of bulk jobs that wait or are under way."""
    states = (BulkState.ASKED, BulkState.RUNNING)
    found = BulkRun.objects.filter(visible_runs(scope), state__in=states)
    return Badge(found.order_by().count(), "under way")
