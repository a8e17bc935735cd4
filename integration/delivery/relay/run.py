"""The relay's main road: from the outbox to Kafka, each row exactly once."""

import logging
import time
import uuid
from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import dataclass, field
from enum import StrEnum
from functools import partial
from typing import Final

from integration.delivery.relay import policy, spans
from integration.delivery.relay.accounting import Accounting
from integration.delivery.relay.left_out import LeftOut, hindering_text
from integration.delivery.relay.ports import (
    FencedError,
    OutgoingRow,
    Publisher,
    Refused,
    RelayLostError,
    Sent,
    Tenure,
    Unavailable,
)
from integration.delivery.relay.rest import rest
from integration.delivery.relay.shares import LOOK_EVERY_SECONDS, Shares
from integration.delivery.relay.steps import RelayObserver, RelayStep, unobserved
from integration.errors import IntegrationError
from integration.policy.relay_shares import bucket
from integration.tracing.spans import Tracer

log = logging.getLogger(__name__)

IDLE_SECONDS: Final = 0.02
# Where nothing was sent for some seconds, asking every 20 ms would cost a twentieth of a core.
QUIET_SECONDS: Final = 0.25
QUIET_SHARE: Final = 0.02
DOUBT_SECONDS: Final = 1.0
# Kafka forgets a group's offset a week after its last commit; an idle relay renews it daily.
WATERMARK_SECONDS: Final = 86_400.0

Stop = Callable[[], bool]


class RelayEnd(StrEnum):
    """The reason why a relay came home."""

    STOPPED = "stopped"  # it was asked to
    HELD = "held"  # another process relays this shard
    LOST = "lost"  # the database or another process ended its ownership
    SPARE = "spare"  # people want fewer shards, and it holds nothing any more


def run(
    take: Callable[[], Tenure | None],
    make_publisher: Callable[[], Publisher],
    *,
    stop: Stop,
    observer: RelayObserver = unobserved,
    judge: policy.Judge = policy.judge,
    tracer: Tracer | None = None,
) -> RelayEnd:
    """Relay one shard, once it is taken, until `stop()`.

    A broker or provider that is out of order is waited for, and so is a person's word on a
    batch in doubt. Nothing is raised for what Kafka, the database or another relay does.
    """
    tenure = relay = None
    try:
        tenure = take()
        if tenure is None:
            return RelayEnd.HELD
        relay = Relay(tenure, make_publisher, observer, judge, tracer)
        return relay.run(stop)
    except (RelayLostError, FencedError) as e:
        log.warning("A relay ended: %s", e)
        return RelayEnd.LOST
    finally:
        if relay is not None:
            relay.close_publisher()
        if tenure is not None:
            tenure.close()


@dataclass
class Relay:
    """One tenure of one shard."""

    tenure: Tenure
    make_publisher: Callable[[], Publisher]
    observer: RelayObserver
    judge: policy.Judge
    tracer: Tracer | None = None
    pace: policy.Pace = field(default_factory=policy.Pace)
    patience: policy.Patience = field(default_factory=policy.Patience)
    left_out: LeftOut = field(default_factory=LeftOut)
    # The topics of what did not get there, until Kafka has said which of them can be written.
    at_stake: set[str] = field(default_factory=set)
    # What else people are told of the last failure to begin.
    hint: str = ""
    publisher: Publisher | None = None
    # What the provider was when all was accounted for; before that, when the tenure began.
    publisher_as_of: str = field(init=False)
    watermark_written: float = 0.0
    sent_at: float = 0.0
    stamped: uuid.UUID | None = None
    # What people were told last; None at first, as a former owner may have told them something.
    told: str | None = None
    is_doubt_logged: bool = False
    is_marking: bool = False

    def __post_init__(self) -> None:
        self.outbox = self.tenure.outbox
        self.publisher_as_of = self.tenure.provider_as_of
        self.shares = Shares(self.tenure, self.observer)

    def run(self, stop: Stop) -> RelayEnd:
        self.observer(RelayStep.TAKEN)
        while not stop():
            self.tenure.sign()
            if self.shares.are_spare():
                return RelayEnd.SPARE
            try:
                publisher = self._current() or self._settle()
                pause_seconds = DOUBT_SECONDS if publisher is None else self._serve(publisher)
            except (FencedError, RelayLostError):
                raise
            except IntegrationError as e:
                pause_seconds = self._wait_for_kafka(f"{e.code}: {e}{self.hint}")
                self.hint = ""
            rest(pause_seconds, stop)
        self._await_marked()
        return RelayEnd.STOPPED

    def _current(self) -> Publisher | None:
        """The open publisher, unless people have changed the provider since it was made.

        Left open, it would go on writing to the cluster that was there before, and what it wrote
        would count as published.
        """
        if self.publisher is not None and self.publisher_as_of != self.tenure.provider_as_of:
            log.info("The provider was changed: the relay connects anew.")
            self._await_marked()
            self.close_publisher()
        return self.publisher

    def _settle(self) -> Publisher | None:
        """Fence earlier owners, then find out what became of their batch; None: in doubt."""
        self._await_marked()
        if self.outbox.is_in_doubt():
            self._log_doubt()
            return None
        # Asked before the provider is read: a change in between is noticed at the next look.
        as_of = self.tenure.provider_as_of
        publisher = self.make_publisher()
        if self.patience.failures or self.outbox.stamped() is not None:
            # What did not get there may have failed for the sake of some topics.
            self.at_stake |= self.outbox.topics_at_stake()
        try:
            is_known = self._open(publisher, as_of)
            if is_known:
                self._leave_out(publisher)
        except BaseException:
            publisher.close()
            raise
        if not is_known:
            publisher.close()
            return None
        self._tell(self.left_out.text)
        self.publisher, self.publisher_as_of = publisher, as_of
        self.watermark_written = time.monotonic()
        self.observer(RelayStep.SETTLED)
        return publisher

    def _open(self, publisher: Publisher, as_of: str) -> bool:
        """Fence earlier owners and account for their batches; return whether all is known.

        `as_of` is the state of the provider that was known before the publisher was made.
        """
        self.hint = ""
        try:
            publisher.open()
            self.observer(RelayStep.FENCED)
            return self._account(publisher, as_of)
        except (FencedError, RelayLostError):
            raise
        except IntegrationError:
            # Kafka may be unable to end the transaction before, as it has a record in such a topic.
            # No topic can be left out then: there is no other transaction before that one's end.
            self.hint = hindering_text(self._ailing(publisher, self.at_stake) or {})
            raise

    def _account(self, publisher: Publisher, as_of: str) -> bool:
        former, cluster = self.outbox.cluster(), publisher.cluster()
        if policy.is_another(former, cluster):
            # What was found of the former cluster's topics says nothing of these.
            self.left_out = LeftOut()
        # Asked before the publisher is made and once it is there: it may be of a provider that was
        # changed in between, and be it for a moment.
        now = self.tenure.provider_now()
        # The owner before may have sent to another place.
        noted = policy.place_of(self.outbox.provider_as_of())
        is_changed = {as_of, now} != {self.publisher_as_of}
        is_changed = is_changed or noted not in {"", policy.place_of(as_of)}
        has_moved = policy.has_moved(former, cluster, is_provider_changed=is_changed)
        surely = as_of if now == as_of else policy.UNSURE
        accounting = Accounting(self.outbox, publisher, self.judge, cluster, surely, has_moved)
        return accounting.account()

    def _leave_out(self, publisher: Publisher) -> None:
        """Leave out what cannot be written of the topics at stake: all others wait for them.

        They stay at stake until Kafka has said which these are.
        """
        ailing = publisher.ailing(self.at_stake) if self.at_stake else {}
        self.at_stake = set()
        if ailing:
            self.left_out.add(ailing, time.monotonic())
            log.warning("The relay goes on without some topics. %s", self.left_out.text)

    def _look_at_left_out(self, publisher: Publisher) -> None:
        """Take up what can be written again. Where Kafka does not say what can, nothing changes."""
        held = self.outbox.held
        why = {topic: text for topic, text in self.left_out.why.items() if bucket(topic) in held}
        ailing = self._ailing(publisher, why)
        self.left_out.note(why if ailing is None else ailing, time.monotonic())
        self._tell(self.left_out.text)

    @staticmethod
    def _ailing(publisher: Publisher, topics: Collection[str]) -> Mapping[str, str] | None:
        """Why some of these cannot be written now, by topic; None where Kafka does not say."""
        if not topics:
            return {}
        try:
            return publisher.ailing(topics)
        except IntegrationError as e:
            log.warning("Nobody knows which topics can be written: %s", e)
            return None

    def _log_doubt(self) -> None:
        if not self.is_doubt_logged:
            log.warning("The relay waits for a person: a batch is in doubt, or a restore open.")
            self.is_doubt_logged = True

    def _serve(self, publisher: Publisher) -> float:
        """Keep to the share, then send of it; return how long to rest.

        Earlier owners are fenced and accounted for by now. Once the last batch is marked, nothing
        is on its way that another shard could meet.
        """
        if self.shares.are_due():
            self._await_marked()
            self.shares.balance()
        if self.left_out.is_look_due(time.monotonic()):
            self._look_at_left_out(publisher)
        if self.outbox.held:
            return self._send(publisher)
        # Not even asked for: what waits for others would have to be passed to find nothing.
        self._keep_watermark(publisher)
        return LOOK_EVERY_SECONDS

    def _send(self, publisher: Publisher) -> float:
        """Send one batch, if anything is due; return how long to rest before the next.

        The database marks the batch before meanwhile, which takes it as long as Kafka takes for
        this one. It is marked before this one is stamped, and that before Kafka commits it: so
        whatever ends the relay, the one batch that the lease names is the one to ask Kafka about.
        """
        began = time.monotonic()
        left_out = self.left_out.why
        if not self.is_marking and not self.outbox.has_due(left_out):
            self._keep_watermark(publisher)
            quiet_seconds = min(QUIET_SHARE * (began - self.sent_at), QUIET_SECONDS)
            # Asking never takes more than a tenth of the time, whatever lies in the table.
            return max(IDLE_SECONDS, quiet_seconds, 10 * (time.monotonic() - began))
        rows = self.outbox.due(rows=self.pace.rows, size_bytes=policy.MAX_BYTES, left_out=left_out)
        if not rows:
            self._await_marked()
            return IDLE_SECONDS
        batch = uuid.uuid4()
        stamp = partial(self._stamp, batch, rows)
        began_ns = 0 if self.tracer is None else self.tracer.now()
        match publisher.publish(batch, rows, stamp, self.observer):
            case Sent():
                self._sent(batch, len(rows))
                if self.tracer is not None:
                    spans.hand_over(self.tracer, rows, began_ns)
            case Refused() as refused:
                self._narrow_down(batch, rows, refused)
            case Unavailable(text):
                return self._wait_for_kafka(text)
        return 0

    def _stamp(self, batch: uuid.UUID, rows: Sequence[OutgoingRow]) -> None:
        self._await_marked()
        self.outbox.stamp(batch, rows)
        self.stamped = batch
        self.observer(RelayStep.STAMPED)

    def _await_marked(self) -> None:
        if self.is_marking:
            self.is_marking = False
            self.outbox.await_marked()
            self.observer(RelayStep.MARKED)

    def _sent(self, batch: uuid.UUID, count: int) -> None:
        self.outbox.mark_published(batch, count)
        self.is_marking = True
        self.pace.after_sent()
        self.patience.reset()
        self._tell(self.left_out.text)
        self.watermark_written = self.sent_at = time.monotonic()

    def _narrow_down(self, batch: uuid.UUID, rows: Sequence[OutgoingRow], refused: Refused) -> None:
        """Try again in smaller parts; only what is refused alone is dead."""
        if self.stamped != batch:
            self._stamp(batch, rows)
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
        """Silence is no verdict: begin anew with the provider as it is then, ask the watermark."""
        self.close_publisher()
        self._tell(text)
        pause_seconds = self.patience.next_pause_seconds()
        log.warning("The relay waits %.2f s for Kafka: %s", pause_seconds, text)
        return pause_seconds

    def _tell(self, text: str) -> None:
        if text != self.told:
            self.outbox.note_trouble(text)
            self.told = text

    def _keep_watermark(self, publisher: Publisher) -> None:
        if time.monotonic() - self.watermark_written > WATERMARK_SECONDS:
            publisher.write_watermark(publisher.watermark() or "")
            self.watermark_written = time.monotonic()

    def close_publisher(self) -> None:
        publisher, self.publisher = self.publisher, None
        if publisher is not None:
            publisher.close()
