"""What became of the batches before: Kafka and the database are compared when a relay begins."""

import logging
from dataclasses import dataclass
from uuid import UUID

from integration.delivery.relay import policy
from integration.delivery.relay.ports import Outbox, Publisher

log = logging.getLogger(__name__)


@dataclass(frozen=True, slots=True)
class Accounting:
    """One comparison, by a publisher that has fenced every earlier owner.

    `cluster` is what the publisher writes to, "" where it tells no id; `as_of` tells what the
    provider is that names it. `has_moved`: a stamped batch may have gone to another one.
    """

    outbox: Outbox
    publisher: Publisher
    judge: policy.Judge
    cluster: str
    as_of: str
    has_moved: bool

    def account(self) -> bool:
        """Settle what became of the batches before; False: people have to decide.

        Raises RelayLostError, FencedError, and what the publisher raises.
        """
        stamped, watermark = self.outbox.stamped(), self.publisher.watermark()
        last_batch = self.outbox.watermark()
        before = self.outbox.watermark_before()
        is_lost = policy.has_lost_mark(watermark, known=last_batch, before=before)
        if is_lost and self.has_moved and (self.outbox.cluster() or self.cluster):
            # Sent again, the batch would be in both clusters. Where neither tells an id they may be
            # one after all, and what that has lost would be lost for good.
            is_lost, watermark = False, str(last_batch)
            self.publisher.write_watermark(watermark)
        if is_lost or self.publisher.has_hanging:
            self.publisher.abort_hanging(self.outbox.topics_at_stake())
        if is_lost:
            watermark = self._mark_again(str(last_batch))
        ahead = policy.is_ahead(
            watermark, known=last_batch, stamped=stamped[0] if stamped else None
        )
        # After a move the stamped batch is doubted first: what people decide about the cluster
        # would make it due in that one, and the one before may have it.
        if ahead and not (self.has_moved and stamped):
            self.outbox.went_back(policy.ahead_text(has_moved=self.has_moved))
            log.error("Kafka has a batch that this database did not send last; people must decide.")
            return False
        if not self._account_for(stamped, watermark):
            return False
        if watermark is not None and last_batch is None:
            self.outbox.note_watermark(watermark)
        # Before anything is stamped: the next owner compares with it, whenever this one ends.
        noted = self.outbox.cluster(), self.outbox.provider_as_of()
        if (self.cluster, self.as_of) != noted:
            self.outbox.note_cluster(self.cluster, as_of=self.as_of)
        return True

    def _mark_again(self, batch: str) -> str:
        """Send what Kafka confirmed and does not have; leave the watermark it lost, return it.

        Nothing of the batch is undecided any more, so that what can be read is all there is.
        """
        rows, since_ms = self.outbox.last_sent()
        there = self.publisher.there(rows, since_ms) if rows else set()
        lost = [row.id for row in rows if row.id not in there]
        log.warning(
            "Kafka has lost the mark of batch %s, which it had confirmed, and %s of its %s records",
            *(batch, len(lost), len(rows)),
        )
        if lost:
            self.outbox.send_again(lost)
        self.publisher.write_watermark(batch)
        return batch

    def _account_for(self, stamped: tuple[UUID, int] | None, watermark: str | None) -> bool:
        if stamped is None:
            if watermark is None:
                self.publisher.write_watermark("")
                self.outbox.note_watermark("")
            return True
        batch, count = stamped
        match policy.after_move(self.judge(batch, watermark), has_moved=self.has_moved):
            case policy.Finding.SENT:
                self.outbox.mark_published(batch, count)
                self.outbox.await_marked()
            case policy.Finding.NOT_SENT:
                self.outbox.unstamp(batch, count)
            case policy.Finding.UNKNOWN:
                self.outbox.doubt(batch, policy.doubt_text(count, has_moved=self.has_moved))
                log.error("%s outgoing messages are in doubt; a person must decide.", count)
                return False
        return True
