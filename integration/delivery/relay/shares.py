"""The share of a relay's shard: what it takes and gives up when the number of shards changes.

Each knows its share from the number alone, so that nobody has to agree with anybody: who holds
more gives it up, who holds less takes what is free.
"""

import time
from typing import Final

from integration.delivery.relay.ports import Tenure
from integration.delivery.relay.steps import RelayObserver, RelayStep

LOOK_EVERY_SECONDS: Final = 0.4


class Shares:
    """Keeps what one relay holds at its shard's share."""

    def __init__(self, tenure: Tenure, observer: RelayObserver) -> None:
        self._tenure = tenure
        self._observer = observer
        self._looked_at = float("-inf")

    def are_due(self) -> bool:
        """Return whether to balance now. Costs nothing as long as everything is as it should be."""
        if self._tenure.outbox.held == self._tenure.share:
            return False
        return time.monotonic() - self._looked_at >= LOOK_EVERY_SECONDS

    def balance(self) -> None:
        """Give up what is beyond the share, and take the whole of it if it is free.

        To be called while nothing is stamped and no earlier owner can send anything any more: from
        then on another shard may send what is given up.
        """
        self._looked_at = time.monotonic()
        outbox, share = self._tenure.outbox, self._tenure.share
        kept = outbox.held.common(share)
        if kept != outbox.held:
            outbox.give_up(kept)
            self._observer(RelayStep.GAVE_UP)
        if kept != share and outbox.take(share):
            self._observer(RelayStep.TOOK)

    def are_spare(self) -> bool:
        """Return whether there is nothing to send for this shard, and nothing to come."""
        return not self._tenure.share and not self._tenure.outbox.held
