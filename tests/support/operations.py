"""Bulk operations for tests: failures to choose, a plan over them, one turn of its runner."""

from crontasks.running.operating import run_operation
from integration.actions import operations
from integration.actions.operations import Options
from integration.models import MessageError, Operation
from integration.policy.states import OperationState
from integration.selectors.failures.failures import FailureFilter, matching
from integration.selectors.scope import EVERYTHING
from tests.support.rows import a_place, a_queue_row, in_arrival_order, several_held

ALL = FailureFilter(state="")


def some_held(count: int, **fields) -> list[MessageError]:
    queue = a_queue_row("continuous")
    a_place(queue)
    return several_held(queue, range(count), in_arrival_order, **fields)


def plan(verb: str = "release", wanted: FailureFilter = ALL) -> Operation:
    chosen = matching(wanted, EVERYTHING)
    return Operation.objects.get(pk=operations.plan_matching(chosen, verb=verb, actor="otto"))


def started(operation: Operation, **options) -> Operation:
    operations.start(operation.pk, Options(**options), version=operation.version, actor="otto")
    operation.refresh_from_db()
    return operation


def run(operation: Operation) -> OperationState | None:
    state = run_operation(operation.pk, stop=lambda: None)
    operation.refresh_from_db()
    return state


def outcomes(operation: Operation) -> list[str]:
    return list(operation.items.order_by("place").values_list("outcome", flat=True))
