"""What was put on hold while something was off, released in one click when it is on again."""

from urllib.parse import urlencode
from uuid import UUID

from django.db.models import Model

from integration.actions import operations
from integration.actions.operations import OperationRequest, Options
from integration.actions.transaction import short_transaction
from integration.models import Operation
from integration.policy import moves
from integration.policy.states import OperationState
from integration.selectors.failures.failures import FailureFilter, matching
from integration.selectors.scope import Scope, visible_operations


def release_held(row: Model, wanted: FailureFilter, actor: str, scope: Scope) -> UUID:
    """Start one operation that releases what the filter finds within the scope; returns its id.

    While such an operation of this row runs or rests, it is that one: a second click releases
    nothing twice. Raises NothingChosenError, RowBusyError.
    """
    given = {"state": wanted.state, "system": wanted.system, "code": wanted.code}
    given |= {"interface": wanted.interface}
    query = urlencode({name: value for name, value in given.items() if value})
    with short_transaction():
        # One click after the other, so that the second finds the operation of the first.
        type(row)._default_manager.select_for_update(no_key=True).get(pk=row.pk)
        under_way = _under_way(query, scope)
        if under_way is not None:
            return under_way
        asked = OperationRequest(verb=moves.RELEASE.action, actor=actor, query=query)
        operation = operations.plan_matching(matching(wanted, scope), asked)
        options = Options(reason=f"{row} was switched on again.")
        operations.start(operation, options, version=1, actor=actor)
        return operation


def _under_way(query: str, scope: Scope) -> UUID | None:
    running = Operation.objects.filter(
        visible_operations(scope),
        verb=moves.RELEASE.action,
        query=query,
        state__in=(OperationState.RUNNING, OperationState.PAUSED),
    )
    return running.order_by("-created_at").values_list("pk", flat=True).first()
