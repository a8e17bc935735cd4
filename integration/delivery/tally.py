"""What a run counts for monitoring: how messages ended, how long they and calls took."""

from collections import Counter
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from typing import Final

from integration.delivery.batch_result import BatchResult
from integration.delivery.sending.values import DeliveryEnd
from integration.delivery.tracked import Track
from integration.policy.histograms import CALL_SECONDS, LATENCY_SECONDS, Histogram
from integration.policy.states import Ended

WORKED: Final = frozenset({Ended.APPLIED.value, Ended.DELIVERED.value})


def _latency() -> Histogram:
    return Histogram(LATENCY_SECONDS)


@dataclass(slots=True)
class Tally:
    """Counts since they were told last. `calls` are by the number of the endpoint.

    `latency` is of messages that were applied or delivered: from their time in Kafka on.
    """

    endings: Counter[str] = field(default_factory=Counter)
    latency: Histogram = field(default_factory=_latency)
    calls: dict[int, Histogram] = field(default_factory=dict)

    def add(self, batch_result: BatchResult, now_ms: int) -> None:
        """Add what a commit has settled. `now_ms` is the host's time, as those of records are."""
        tracks: Sequence[Track] = batch_result.tracks
        if batch_result.strays:
            tracks = [*tracks, *(track for _, track in batch_result.strays)]
        # A clock that is ahead of this one has no message arrive later than it was applied.
        took = [
            max(now_ms - track[5], 0) / 1_000
            for track in tracks
            if track[5] is not None and track[3] in WORKED
        ]
        if took:
            self.latency.add_all(took)
        if batch_result.dispatch is not None:
            self._add_calls(batch_result.dispatch.ends)

    def _add_calls(self, ends: Iterable[DeliveryEnd]) -> None:
        for end in ends:
            if end.endpoint is not None and end.took_ms is not None:
                known = self.calls.setdefault(end.endpoint, Histogram(CALL_SECONDS))
                known.add_all([end.took_ms / 1_000])

    @property
    def is_empty(self) -> bool:
        return not (self.endings or self.calls)
