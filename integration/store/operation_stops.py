"""The automatic stop of operations: so much of what one released failed again that it pauses."""

from typing import Final

from integration.policy.operations import FAILING, StopRule
from integration.policy.states import ErrorState, listed
from integration.store.operations import Tenure, step_back
from integration.store.sessions import fetch_all

_RULE: Final = """
SELECT stop_after, stop_share, done - coalesce(stop_base, 0), queues, stop_from
FROM integration_operation WHERE id = %s AND stop_from IS NOT NULL
"""
# By the index of each queue's newest failures: what failed since then is little, whatever was
# released. As the operation's page has it: a later failure is one of the attempt it led to.
_FAILED: Final = f"""
SELECT count(*) FROM (
    SELECT 1 FROM integration_messageerror e
    JOIN integration_operationitem i ON i.error_id = e.id
    WHERE e.queue_id = ANY(%s) AND e.last_failed_at > %s
      AND e.state IN {listed({ErrorState.HOLD, ErrorState.RETRY})}
      AND i.operation_id = %s AND i.outcome = 'DONE' AND e.last_failed_at > i.at
    LIMIT %s
) failed
"""


def stop_if_failing(tenure: Tenure) -> bool:
    """Pause an operation whose StopRule is met; whether it was. Never counts further than that."""
    for after, share, released, queues, since in fetch_all(_RULE, [tenure.operation]):
        enough = StopRule(after, share).enough(released)
        if enough is None:
            return False
        [(failed,)] = fetch_all(_FAILED, [queues, since, tenure.operation, enough])
        if failed >= enough:
            step_back(tenure, FAILING)
            return True
    return False
