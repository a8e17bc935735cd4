"""Rejects of a bulk run, by cause, and what became of them since: rejects are failures."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Final, NamedTuple

from integration.masking.mask import HIDDEN
from integration.models import BulkRun, Queue
from integration.policy.failure import cause_words
from integration.policy.states import OPEN
from integration.selectors.failures.cause_ids import cause_id
from integration.selectors.masking.rules import any_masked
from integration.store.sessions import fetch_all

CAUSES: Final = 50
# Each of them is read: beyond this only the first are shown.
COUNT_CAP: Final = 100_000
# A reject stands where no record of Kafka can: its topic is the run. By the index of positions.
# All of them come first, then each cause.
_REJECTS: Final = f"""
SELECT r.code, r.fingerprint, min(r.text), count(*),
  count(*) FILTER (WHERE r.state IN ({", ".join(f"'{one}'" for one in sorted(OPEN))})),
  count(*) FILTER (WHERE r.state = 'RESOLVED'),
  count(*) FILTER (WHERE r.state = 'DELETED')
FROM (
  SELECT e.code, e.fingerprint, e.text, e.state FROM integration_messageerror e
  WHERE e.queue_id = ANY(%s) AND e.topic_uuid = %s LIMIT {COUNT_CAP + 1}
) r GROUP BY GROUPING SETS ((), (r.code, r.fingerprint))
ORDER BY grouping(r.code) DESC, 4 DESC, 1
"""


class Cause(NamedTuple):
    """Rejects of one cause, and where they stand."""

    code: str
    fingerprint: str
    example: str
    rows: int
    open: int
    resolved: int
    deleted: int

    @property
    def text(self) -> str:
        """The sentence without what varies in it."""
        return cause_words(self.example or "", self.rows)


@dataclass(frozen=True, slots=True)
class Rejects:
    """All rejects of a run that are still in the error table; the first causes are shown."""

    total: Cause
    causes: Sequence[Cause]

    @property
    def is_capped(self) -> bool:
        return self.total.rows > COUNT_CAP


def rejects(run: BulkRun) -> Rejects:
    """In one query, and one more where the run names no queue; the caller may know of the run."""
    queues = run.queues or list(Queue.objects.values_list("pk", flat=True))
    total, *causes = (Cause(*row) for row in fetch_all(_REJECTS, [queues, str(run.pk)]))
    shown = [one._replace(fingerprint=cause_id(one.fingerprint)) for one in causes[:CAUSES]]
    if any_masked(run.queues):
        # Which message an example is of is not known.
        shown = [cause._replace(example=HIDDEN) for cause in shown]
    return Rejects(total, shown)
