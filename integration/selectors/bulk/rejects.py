"""What a bulk run rejected, by cause, and what became of it since: rejects are failures."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Final, NamedTuple

from integration.models import BulkRun, Queue
from integration.policy.failure import cause_words
from integration.policy.states import OPEN
from integration.store.sessions import fetch_all

CAUSES: Final = 50
# Each of them is read: beyond this only the first are told of.
COUNT_CAP: Final = 100_000
# A reject stands where no record of Kafka can: its topic is the run. By the index of positions.
_REJECTS: Final = f"""
SELECT r.code, r.fingerprint, min(r.text), count(*),
  count(*) FILTER (WHERE r.state = 'HOLD'),
  count(*) FILTER (WHERE r.state IN ({", ".join(f"'{one}'" for one in sorted(OPEN))})),
  count(*) FILTER (WHERE r.state = 'RESOLVED'),
  count(*) FILTER (WHERE r.state = 'DELETED')
FROM (
  SELECT e.code, e.fingerprint, e.text, e.state FROM integration_messageerror e
  WHERE e.queue_id = ANY(%s) AND e.topic_uuid = %s LIMIT {COUNT_CAP + 1}
) r GROUP BY 1, 2 ORDER BY 4 DESC, 1
"""


class Cause(NamedTuple):
    """Rejects of one cause, and where they stand."""

    code: str
    fingerprint: str
    example: str
    rows: int
    held: int
    open: int
    resolved: int
    deleted: int

    @property
    def text(self) -> str:
        """The sentence without what varies in it."""
        return cause_words(self.example or "")


@dataclass(frozen=True, slots=True)
class Rejects:
    """All rejects of a run that are still in the error table."""

    causes: Sequence[Cause]

    @property
    def count(self) -> int:
        return sum(one.rows for one in self.causes)

    @property
    def open(self) -> int:
        return sum(one.open for one in self.causes)

    @property
    def resolved(self) -> int:
        return sum(one.resolved for one in self.causes)

    @property
    def deleted(self) -> int:
        return sum(one.deleted for one in self.causes)

    @property
    def is_capped(self) -> bool:
        return self.count > COUNT_CAP

    @property
    def shown(self) -> Sequence[Cause]:
        return self.causes[:CAUSES]


def rejects(run: BulkRun) -> Rejects:
    """In one query, and one more where the run names no queue; the caller may know of the run."""
    queues = run.queues or list(Queue.objects.values_list("pk", flat=True))
    return Rejects([Cause(*row) for row in fetch_all(_REJECTS, [queues, str(run.pk)])])
