"""Checks of a run between batches: still this topic, still wanted, still ours."""

from collections.abc import Collection, Mapping
from dataclasses import replace
from typing import Final, NamedTuple

from integration.counting import so_many
from integration.delivery import added, stopping
from integration.delivery.added import Addition
from integration.delivery.batch_result import RUNNING, StateChange
from integration.delivery.context import RunContext
from integration.delivery.owned import CopiedHead, Owned
from integration.delivery.ports import QueueGoneError
from integration.delivery.report import YIELD, Report, RunEnding
from integration.delivery.unit import OpenError
from integration.errors import IntegrationError
from integration.policy import retry
from integration.policy.positions import untried
from integration.policy.states import BROKER_DOWN, PartitionState
from integration.values import Fetched, TopicFacts, TroubleKind

LOOK_EVERY_SECONDS: Final = 0.2
CONFIGURATION_EVERY_SECONDS: Final = 1.0
IDENTITY_EVERY_SECONDS: Final = 5.0
# What a process has counted since is lost if it is killed.
TOLD_EVERY_SECONDS: Final = 5.0
# A client that meets another topic under the old name fails once and then waits this long before
# it reads there (fetch.error.backoff.ms): what came sooner after a look is of the topic looked at.
SURE_SECONDS: Final = 1.0
FIRST_TURN_SECONDS: Final = 1.0
# A broker that neither gives records nor says that there are none is not waited for for ever.
SILENCE_SECONDS: Final = 30.0
# The cluster answers, but not to us: bringing a broker back would not help.
KIND_OF_CODE: Final = {
    "BROKER_REFUSED": TroubleKind.REFUSED,
    "BROKER_PROTOCOL": TroubleKind.PROTOCOL,
    "BROKER_RIGHTS": TroubleKind.RIGHTS,
    "BROKER_CERTIFICATE_EXPIRED": TroubleKind.CERTIFICATE,
    "BROKER_CERTIFICATE_UNTRUSTED": TroubleKind.CERTIFICATE,
    "BROKER_CERTIFICATE_NAME": TroubleKind.CERTIFICATE,
    "CLIENT_CERTIFICATE": TroubleKind.CERTIFICATE,
    "GROUP_REFUSED": TroubleKind.GROUP,
}
# What blocks a queue only as long as it promises an order that such a topic does not keep.
ORDER_LOST: Final = ("MORE_PARTITIONS", "KEYS_REMAPPED")
REFUSALS: Final = frozenset({TroubleKind.REFUSED, TroubleKind.RIGHTS})

ENDINGS: Final = {
    PartitionState.BACKOFF: RunEnding.BACKOFF,
    PartitionState.BLOCKED: RunEnding.BLOCKED,
    PartitionState.BRAKED: RunEnding.BRAKED,
    PartitionState.OUTAGE: RunEnding.OUTAGE,
    PartitionState.WAITING: RunEnding.WAITING,
    PartitionState.RUNNING: RunEnding.DRAINED,
}


def outage_code(problem: IntegrationError) -> str:
    """Return the state's code for a broker that cannot be asked; a JMS broker's are its own."""
    if problem.code.startswith("JMS_"):
        return problem.code
    return f"KAFKA_{KIND_OF_CODE.get(problem.code, TroubleKind.UNAVAILABLE)}"


class Strange(NamedTuple):
    """Why a position means nothing in its topic, and from where on that lost what it had."""

    code: str
    text: str
    lost_from: int | None = None


class Watch:
    """The run's outlook. Every answer is a value; what it finds wrong is written as a state."""

    def __init__(self, context: RunContext, held: list[Owned]) -> None:
        now = context.monotonic()
        self.context = context
        self.held = held
        self.busy_at = now
        self._began_at = now
        self._looked_at = float("-inf")
        self._configured_at = self._told_at = now
        self._group, self._selector = context.queue.group, context.queue.selector
        self._reached_by = context.queue.reached_by
        self._identified_at = float("-inf")
        self._committed: dict[int, int] = {}
        self._committed_at = now
        self._partitions = 0
        self._do_keys_stay = True
        self._apart: frozenset[int] = frozenset()

    def ending(self, report: Report, *, drained: bool) -> Report | None:
        """Return the report if the run is over, with the reason; asked between batches."""
        report.drained = drained
        if self.context.manager.is_lost():
            return report.ended(RunEnding.LOST, "The session that holds the locks is gone.")
        now = self.context.monotonic()
        if not self.held and (gone := self._adopt(report)) is not None:
            return gone
        if stopping.pauses(self.context, self.held):
            return report.ended(RunEnding.STOPPED, stopping.PAUSED)
        if drained and not any(owned.reads_kafka for owned in self.held):
            state = next((owned.state for owned in self.held), PartitionState.RUNNING)
            return report.ended(ENDINGS[state])
        idle = now - self.busy_at - self.context.queue.stay_seconds
        if idle > (0 if drained else SILENCE_SECONDS):
            return report.ended(RunEnding.DRAINED)
        is_due = now - self._looked_at >= LOOK_EVERY_SECONDS
        is_due = is_due and self._has_had_its_turn(drained, now)
        quiet_seconds = now - self.busy_at if drained else 0.0
        return self._asked(report, now, quiet_seconds) if is_due else None

    def _has_had_its_turn(self, drained: bool, now: float) -> bool:
        """A run that gave way before it read anything would let a ring of queues pass on and on.

        So it is first asked once it is drained, or after its first batch, or after a second.
        """
        return drained or self.busy_at > self._began_at or now - self._began_at > FIRST_TURN_SECONDS

    def _asked(self, report: Report, now: float, quiet_seconds: float) -> Report | None:
        self._looked_at = now
        if now - self._told_at >= TOLD_EVERY_SECONDS:
            self._told_at = now
            self.context.tell(report.untold())
        reason = self.context.stop(quiet_seconds=quiet_seconds)
        if reason is not None:
            ending = RunEnding.YIELDED if reason == YIELD else RunEnding.STOPPED
            return report.ended(ending, reason)
        if now - self._configured_at >= CONFIGURATION_EVERY_SECONDS:
            self._configured_at = now
            gone = self._adopt(report)
            if gone is not None:
                return gone
            self._give_up_moved(self.context.repository.read_stops(self.held))
            for owned in self.held:
                if not owned.reads_kafka:
                    self.context.repository.look(owned)
            if self.context.queue.paused or not self.context.queue.enabled:
                return report.ended(RunEnding.STOPPED, "The queue is paused or switched off.")
        return None

    def _give_up_moved(self, as_left: Collection[int]) -> None:
        """Give up what a person has moved or adopted: whoever takes it anew reads where it is."""
        if moved := [owned for owned in self.held if owned.id not in as_left]:
            self.held[:] = [owned for owned in self.held if owned.id in as_left]
            self.context.manager.give_up(moved)

    def _adopt(self, report: Report) -> Report | None:
        """Go on under the configuration of now; over when the queue was deleted.

        A provider and its registry are reached, a group is joined, and a selector read by, for the
        whole of a run: others by the next.
        """
        try:
            self.context.adopt(self.context.repository.snapshot())
        except QueueGoneError as e:
            return report.ended(RunEnding.STOPPED, str(e))
        if self.context.queue.reached_by != self._reached_by:
            return report.ended(RunEnding.STOPPED, "The address or login of its provider changed.")
        if self.context.queue.group != self._group:
            return report.ended(RunEnding.STOPPED, "Its consumer group was changed.")
        if self.context.queue.selector != self._selector:
            return report.ended(RunEnding.STOPPED, "Its selector was changed.")
        return None

    def busy(self) -> None:
        self.busy_at = self.context.monotonic()

    def identify_anew(self) -> None:
        """Compare now, whenever that was done last: partitions were taken."""
        for owned in self.held:
            # Whoever had it before could not commit where the broker was away.
            if not owned.state_code.startswith(BROKER_DOWN):
                self._committed.setdefault(owned.partition, owned.next_offset)
        self._identified_at = float("-inf")
        self.identify()

    def identify(self, fetched: Fetched | None = None) -> None:
        """Compare topic, partitions and watermarks before anything fetched since is settled.

        At the start, every 5 s, after a client error, and whenever something was read that the
        last look does not vouch for: so after any stall, wherever in the turn it was. As long as
        all is read that was rescued, Kafka is not asked: it has no say in that.
        """
        if self._are_all_apart():
            return
        now = self.context.monotonic()
        has_read = fetched is not None and bool(fetched.records or fetched.drained)
        troubles = [] if fetched is None else fetched.troubles
        seconds = SURE_SECONDS if has_read else IDENTITY_EVERY_SECONDS
        if not troubles and now - self._identified_at < seconds:
            return
        self._identified_at = now
        try:
            facts = self.context.source.facts()
        except IntegrationError as e:
            self._outage(outage_code(e), str(e))
            return
        self._compare_all(facts)
        for trouble in troubles:
            if trouble.kind in REFUSALS:
                self._outage(f"KAFKA_{trouble.kind}", trouble.text)

    def _compare_all(self, facts: TopicFacts | None) -> None:
        if facts is not None and facts.partitions != self._partitions:
            addition = self.context.repository.add_partitions(facts)
            self._do_keys_stay = addition is not Addition.KEYS_MOVED
            # Those that are to be added later are asked for again by the next look.
            self._partitions = 0 if addition is Addition.LATER else facts.partitions
        for owned in self.held:
            self._compare(owned, facts)
        self._apart = frozenset(o.id for o in self.held if o.rescued_until is not None)

    def _are_all_apart(self) -> bool:
        """Return whether every partition reads what was rescued.

        Where one has come to its end since the last look, that look vouches for nothing: it passed
        over whatever the topic had become.
        """
        if any(o.id in self._apart and o.rescued_until is None for o in self.held):
            self._identified_at = float("-inf")
        if not all(o.reads_kafka and o.rescued_until is not None for o in self.held):
            return False
        self._apart = frozenset(o.id for o in self.held)
        return bool(self.held)

    def _outage(self, code: str, text: str) -> None:
        for owned in self.held:
            if not owned.reads_kafka or owned.rescued_until is not None:
                continue
            pause = retry.probe_pause(owned.probes, self.context.roll())
            change = StateChange(
                state=PartitionState.OUTAGE,
                code=code,
                text=text,
                resume_seconds=pause.total_seconds(),
                probes=owned.probes + 1,
            )
            self._state(owned, change)

    def _state(self, owned: Owned, change: StateChange, next_offset: int | None = None) -> None:
        if not self.context.repository.state(owned, change, next_offset):
            owned.state, owned.due = PartitionState.BLOCKED, False
            return
        owned.state, owned.state_code = change.state, change.code
        owned.due = change.state is PartitionState.RUNNING
        owned.probes = change.probes
        if next_offset is not None:
            owned.next_offset = next_offset

    def _block(self, owned: Owned, code: str, text: str, lost_from: int | None = None) -> None:
        if owned.lose(lost_from) or owned.state_code != code:
            blocked = PartitionState.BLOCKED
            change = StateChange(state=blocked, code=code, text=text, lost_from=lost_from)
            self._state(owned, change)

    def _compare(self, owned: Owned, facts: TopicFacts | None) -> None:
        strange = self._strangeness(owned, facts)
        low = 0 if facts is None else facts.low.get(owned.partition, 0)
        if strange is not None and owned.rescued_until is None:
            self._block(owned, *strange)
        elif owned.is_cut(facts):
            self._state(owned, replace(RUNNING, lost_from=owned.lost_from))
        elif owned.state is PartitionState.BRAKED:
            # Nothing is read until a person resumes it; what expired meanwhile is told then.
            return
        elif strange is None and self._is_expired(owned, low):
            self._expired(owned, low)
        elif owned.waits_for_others:
            self._begin(owned)
        elif owned.state_code.startswith((*BROKER_DOWN, *ORDER_LOST)):
            # The broker answers again, and an idle queue has no message whose success would say so;
            # or a person has chosen to do without the order.
            self._state(owned, RUNNING)

    def _strangeness(self, owned: Owned, facts: TopicFacts | None) -> Strange | None:
        topic = self.context.queue.topic
        if facts is None or owned.partition not in facts.low:
            what = topic if facts is None else f"{topic} with a partition {owned.partition}"
            return Strange("TOPIC_GONE", f"Topic {what} does not exist on the broker.")
        if facts.topic_uuid != owned.topic_uuid:
            text = f"Topic {topic} was deleted and created again; the position means nothing there."
            return Strange("TOPIC_RECREATED", text)
        if self.context.queue.needs_one_partition and facts.partitions > 1:
            text = f"Topic {topic} has {facts.partitions} partitions; its order is lost."
            return Strange("MORE_PARTITIONS", text)
        if not self._do_keys_stay:
            text = f"It has {facts.partitions} now, which is no multiple of what it had."
            return Strange("KEYS_REMAPPED", text)
        end = facts.high[owned.partition]
        if owned.lost_from is not None:
            # However far it has grown or expired since: a person has to know what it lost.
            end = min(end, owned.lost_from)
        # What is known ahead of the position was read, too: where the topic ends before it, other
        # messages get its offsets, and would be passed as done, or taken for a failure.
        if (reached := owned.reached) > end:
            what = "the position is" if reached == owned.next_offset else "it was read up to"
            text = f"The topic ended at {end}, {what} {reached}: data is gone."
            return Strange("TOPIC_TRUNCATED", text, end)
        return None

    def _begin(self, owned: Owned) -> None:
        """Read a partition that was added once no message of its keys waits in the others."""
        change = added.look(self.context.repository, self.context.source.ends, owned)
        if change is None:
            return
        if change is RUNNING:
            owned.waits_for_others = False
        self._state(owned, change)

    def _is_expired(self, owned: Owned, low: int) -> bool:
        """Return whether something at the position is gone, be it only a failure's own record."""
        is_head_gone = self.context.queue.sequential and self._is_out_of_kafka(owned, low)
        return is_head_gone or owned.gone_until(low) > owned.next_offset

    def _is_out_of_kafka(self, owned: Owned, low: int) -> bool:
        """Return whether Kafka was to have the position and has not: in a range it has no say."""
        return owned.next_offset < low and owned.rescued_until is None

    def _expired(self, owned: Owned, low: int) -> None:
        """Messages at the position are gone from Kafka: the saved head first, then the gap."""
        if self.context.queue.sequential and not self._past_heads(owned, low):
            return
        until = owned.gone_until(low)
        if until == owned.next_offset:
            return
        accepted = self.context.repository.gap_acknowledged(owned)
        if accepted is not None:
            # What expired after the acknowledgement is another gap.
            self._state(owned, RUNNING, min(accepted, until))
        for first, after in untried(owned.next_offset, until, owned.done):
            if not self._passed(owned, first):
                return
            self.context.repository.gap(owned, after, "EXPIRED")
            if self.context.queue.on_gap == "block":
                text = f"{so_many(after - first, 'message')} expired in Kafka before being read."
                self._block(owned, "GAP", text)
                return
            self._state(owned, RUNNING, after)
        self._passed(owned, until)

    def _passed(self, owned: Owned, offset: int) -> bool:
        """Go on at an offset: what lies before it is through. False when it is not ours to say."""
        if owned.next_offset < offset:
            self._state(owned, RUNNING, offset)
        return owned.next_offset >= offset

    def _past_heads(self, owned: Owned, low: int) -> bool:
        """Pass saved heads that Kafka no longer has; false when one of them has to be waited for.

        A closed one is through already. An open one goes on hold and can be released later.
        """
        while self._is_out_of_kafka(owned, low):
            head = self.context.repository.head(owned)
            if head is None:
                return True
            if isinstance(head, CopiedHead) or (isinstance(head, OpenError) and not head.parked):
                passes = self.context.queue.on_head_expired == "advance"
                self.context.repository.expire_head(owned, passes=passes)
                if not passes:
                    return False
            if isinstance(head, OpenError) and head.parked:
                owned.has_parked = True
            before = owned.next_offset
            self._state(owned, RUNNING, before + 1)
            if owned.next_offset == before:
                return False
            owned.may_have_head = True
        return True

    def commit_to_group(self) -> bool:
        """Tell the source how far all is committed, as often as it wants to know."""
        now = self.context.monotonic()
        if now - self._committed_at < self.context.source.commit_every_seconds:
            return False
        self._committed_at = now
        self._commit({owned.partition: owned.next_offset for owned in self.held})
        return True

    def commit_rest(self, report: Report) -> bool:
        """Tell the source, before it is closed, what has moved since: many runs last no second.

        Not where somebody else may be the owner by now, nor where the broker is away: closing
        would wait for its answer.
        """
        reached = {owned.partition: owned.next_offset for owned in self.held}
        is_away = any(owned.state_code.startswith(BROKER_DOWN) for owned in self.held)
        is_told = reached.items() <= self._committed.items()
        if report.ending is RunEnding.LOST or is_away or is_told:
            return False
        self._commit(reached)
        return True

    def _commit(self, positions: Mapping[int, int]) -> None:
        self._committed.update(positions)
        self.context.source.commit_to_group(positions)
