"""The relay's main road: from the outbox to Kafka, each row exactly once."""

import logging
import time
import uuid
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from enum import StrEnum
from typing import Final

import psycopg

from integration.delivery.relay import policy, wiring
from integration.delivery.relay.lease import RelayLostError, Tenure, take
from integration.delivery.relay.ports import OutgoingRow, Publisher, Refused, Sent, Unavailable
from integration.delivery.relay.steps import RelayObserver, RelayStep, unobserved
from integration.delivery.relay.store import Outbox
from integration.errors import IntegrationError
from integration.kafka.errors import BrokerUnreachableError, FencedError

log = logging.getLogger(__name__)

IDLE_SECONDS: Final = 0.02
# Kafka forgets a group's offset a week after its last commit; an idle relay renews it daily.
WATERMARK_SECONDS: Final = 86_400.0

Stop = Callable[[], bool]


class RelayEnd(StrEnum):
    """Why a relay came home."""

    STOPPED = "stopped"  # it was asked to
    HELD = "held"  # another process relays this shard
    LOST = "lost"  # the database or another process ended its ownership
    IN_DOUBT = "in_doubt"  # a person must say what became of the last batch
    UNUSABLE = "unusable"  # the provider's settings make no client, or the cluster refuses them


def run_relay(
    provider_id: int,
    shard: int = 0,
    *,
    stop: Stop,
    observer: RelayObserver = unobserved,
    publisher: Publisher | None = None,
    judge: policy.Judge = policy.judge,
) -> RelayEnd:
    """Relay one shard of one provider until `stop()`; raises nothing that is a matter of course."""
    tenure = None
    publisher = publisher or wiring.publisher_for(provider_id, shard)
    try:
        tenure = take(provider_id, shard, wiring.worker_name())
        if tenure is None:
            return RelayEnd.HELD
        return Relay(tenure, publisher, observer, judge).run(stop)
    except (psycopg.Error, RelayLostError, FencedError) as e:
        log.warning("The relay of provider %s ended: %s", provider_id, e)
        return RelayEnd.LOST
    except IntegrationError as e:
        log.error("The relay of provider %s cannot work: %s", provider_id, e)  # noqa: TRY400
        return RelayEnd.UNUSABLE
    finally:
        publisher.close()
        if tenure is not None:
            tenure.close()


@dataclass
class Relay:
    """One tenure of one shard."""

    tenure: Tenure
    publisher: Publisher
    observer: RelayObserver
    judge: policy.Judge
    pace: policy.Pace = field(default_factory=policy.Pace)
    patience: policy.Patience = field(default_factory=policy.Patience)

    def __post_init__(self) -> None:
        self.outbox = Outbox(self.tenure.work, self.tenure.ownership)
        self.is_settled = False
        self.watermark_written = time.monotonic()

    def run(self, stop: Stop) -> RelayEnd:
        self.observer(RelayStep.TAKEN)
        while not stop():
            self.tenure.sign()
            try:
                if not self.is_settled and not self._settle():
                    return RelayEnd.IN_DOUBT
                pause_seconds = self._send()
            except BrokerUnreachableError as e:
                pause_seconds = self._wait_for_kafka(str(e))
            _rest(pause_seconds, stop)
        return RelayEnd.STOPPED

    def _settle(self) -> bool:
        """Fence earlier owners, then find out what became of their batch; False: in doubt."""
        self.publisher.open()
        self.observer(RelayStep.FENCED)
        stamped, watermark = self.outbox.stamped(), self.publisher.watermark()
        if stamped is not None:
            batch, count = stamped
            match self.judge(batch, watermark):
                case policy.Finding.SENT:
                    self.outbox.mark_published(batch, count)
                case policy.Finding.NOT_SENT:
                    self.outbox.unstamp(batch, count)
                case policy.Finding.UNKNOWN:
                    self.outbox.doubt(wiring.doubt_text(count))
                    return False
        elif watermark is None:
            self.publisher.write_watermark("")
        self.is_settled = True
        self.observer(RelayStep.SETTLED)
        return True

    def _send(self) -> float:
        """Send one batch, if anything is due; return how long to rest before the next."""
        asked = time.monotonic()
        if not self.outbox.has_due():
            self._keep_watermark()
            # Never more than a tenth of the time is spent on asking, whatever lies in the table.
            return max(IDLE_SECONDS, 10 * (time.monotonic() - asked))
        batch = uuid.uuid4()
        rows = self.outbox.stamp(batch, rows=self.pace.rows, size_bytes=policy.MAX_BYTES)
        if rows:
            self.observer(RelayStep.STAMPED)
            return self._publish(batch, rows)
        return IDLE_SECONDS

    def _publish(self, batch: uuid.UUID, rows: Sequence[OutgoingRow]) -> float:
        match self.publisher.publish(batch, rows, self.observer):
            case Sent():
                self.outbox.mark_published(batch, len(rows))
                self.observer(RelayStep.MARKED)
                self.pace.after_sent()
                self.patience.reset()
                self.watermark_written = time.monotonic()
            case Refused() as refused:
                self._narrow_down(batch, rows, refused)
            case Unavailable(text):
                return self._wait_for_kafka(text)
        return 0

    def _narrow_down(self, batch: uuid.UUID, rows: Sequence[OutgoingRow], refused: Refused) -> None:
        """Try again in smaller parts; only what is refused alone is dead."""
        if len(rows) > 1:
            self.outbox.unstamp(batch, len(rows))
            self.pace.after_refused(len(rows), refused.index)
            self.observer(RelayStep.UNSTAMPED)
            return
        self.outbox.bury(batch, code=refused.code, text=refused.text)
        self.pace.after_buried()
        log.error("Kafka refuses row %s of the outbox: %s", rows[0].id, refused.text)
        self.observer(RelayStep.BURIED)

    def _wait_for_kafka(self, text: str) -> float:
        """An unavailable broker is no verdict: open anew and ask the watermark."""
        self.is_settled = False
        pause_seconds = self.patience.next_pause_seconds()
        log.warning("The relay waits %.2f s for Kafka: %s", pause_seconds, text)
        return pause_seconds

    def _keep_watermark(self) -> None:
        if time.monotonic() - self.watermark_written > WATERMARK_SECONDS:
            self.publisher.write_watermark(self.publisher.watermark() or "")
            self.watermark_written = time.monotonic()


def _rest(seconds: float, stop: Stop) -> None:
    until = time.monotonic() + seconds
    while (left := until - time.monotonic()) > 0 and not stop():
        time.sleep(min(left, 0.05))
