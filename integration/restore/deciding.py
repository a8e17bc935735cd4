"""Decisions after a restore: one finding at a time, each once, each written down."""

import logging
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any, ClassVar, Final

from django.db.models import F, QuerySet

from integration.actions import failures
from integration.actions.blocks import move_position, record_gap
from integration.actions.errors import QueueMismatchError, ReasonMissingError
from integration.actions.queues import note
from integration.actions.transaction import short_transaction
from integration.counting import so_many
from integration.errors import IntegrationError
from integration.models import (
    OutboxChange,
    OutboxRow,
    Provider,
    Queue,
    QueuePartition,
    RelayLease,
    Restore,
    RestoreFinding,
)
from integration.policy.states import OutboxState
from integration.restore import former_cluster, options
from integration.restore.examining import close_if_decided
from integration.restore.options import Option, card
from integration.restore.reviewing import (
    REVIEW,
    first_kept,
    hold_interrupted,
    hold_waiting,
    lay_out,
)
from integration.store.sessions import database_now
from integration.store.starts import leave_request

log = logging.getLogger(__name__)

RESTORED: Final = "RESTORED"
# Of a lease, whose batch is given back.
NO_BATCH: Final[dict[str, str | None]] = {
    **dict.fromkeys(("batch", "batch_rows", "in_doubt_since")),
    "in_doubt_text": "",
}


class FindingDecidedError(IntegrationError):
    """Somebody decided it before, or it was looked at anew; nothing was changed."""

    code: ClassVar[str] = "RESTORE_DECIDED"

    def __init__(self, finding: RestoreFinding | None) -> None:
        if finding is None:
            text = "This finding is not there any more: it was looked at anew meanwhile."
        else:
            text = f"{finding.actor} decided it already: {finding.effect}"
        super().__init__(text, next_step="Look at what is left to decide.")


class NoSuchDecisionError(IntegrationError):
    """The word names no way to decide this finding."""

    code: ClassVar[str] = "RESTORE_NO_SUCH_DECISION"

    def __init__(self, word: str, known: list[str]) -> None:
        super().__init__(
            f"This cannot be decided as {word!r}.", next_step=f"Choose one of {', '.join(known)}."
        )


@dataclass(frozen=True, slots=True)
class Decision:
    """A finding with what was decided about it, by whom and why."""

    finding: RestoreFinding
    option: Option
    actor: str
    reason: str

    @property
    def name(self) -> str:
        return str(self.finding.facts["name"])

    @property
    def place(self) -> str:
        return f"{self.name}, partition {self.finding.partition},"

    @property
    def queue(self) -> int:
        assert self.finding.queue is not None  # noqa: S101 - relays have decisions of their own
        return self.finding.queue


def decide(finding_id: int, word: str, *, actor: str, reason: str = "") -> str:
    """Carry out one decision; returns what was done, in a sentence.

    With the last one everything that was held goes on. Raises FindingDecidedError,
    NoSuchDecisionError, ReasonMissingError, QueueMismatchError, RowBusyError, and for a review
    BrokerUnreachableError and ProviderUnusableError.
    """
    locked = _undecided(RestoreFinding.objects.filter(pk=finding_id))
    option = _option(locked, word, reason)
    with short_transaction():
        Restore.objects.select_for_update().get(pk=locked.restore_id)
        finding = _undecided(RestoreFinding.objects.select_for_update().filter(pk=finding_id))
        decision = Decision(finding, option, actor, reason.strip())
        effect = EFFECTS[word](decision)
        if finding.queue is not None:
            note(
                finding.queue,
                actor,
                f"restore: {word}",
                reason=decision.reason,
                effect=effect,
                partition=finding.partition,
            )
        RestoreFinding.objects.filter(pk=finding_id).update(
            decision=word,
            effect=effect,
            decided_at=database_now(),
            actor=actor,
            reason=decision.reason,
        )
        is_over = close_if_decided(finding.restore_id, actor)
    log.warning("%s decided after a restore: %s", actor, effect)
    if finding.queue is not None:
        leave_request(finding.queue)
    return f"{effect} That was the last decision: everything continues." if is_over else effect


def _undecided(matching: QuerySet[RestoreFinding]) -> RestoreFinding:
    finding = matching.first()
    if finding is None or finding.decided_at is not None:
        raise FindingDecidedError(finding)
    return finding


def _option(finding: RestoreFinding, word: str, reason: str) -> Option:
    choices = {option.word: option for option in card(finding).options}
    if word not in choices:
        raise NoSuchDecisionError(word, list(choices))
    option = choices[word]
    if option.needs_reason and not reason.strip():
        raise ReasonMissingError(action=option.label.lower())
    return option


def _read_again(decision: Decision) -> str:
    return f"{decision.place} continues at offset {decision.finding.facts['from']:,}."


def _skip(decision: Decision) -> str:
    facts, place = decision.finding.facts, _moved(decision)
    skipped = facts["from"], facts["to"]
    record_gap(place, place.topic_uuid, skipped, by=decision.actor, reason=RESTORED)
    _hold_failed(decision, place)
    return f"{decision.place} continues at offset {facts['to']:,}; what was skipped is a gap."


def _review(decision: Decision) -> str:
    facts, place = decision.finding.facts, _moved(decision)
    _hold_failed(decision, place)
    first, gone = first_kept(decision.finding), ""
    if first > facts["from"]:
        expired = facts["from"], first
        record_gap(place, place.topic_uuid, expired, by=decision.actor, reason=RESTORED)
        many = so_many(first - facts["from"], "offset before is", "offsets before are")
        gone = f" {many} no longer in Kafka, and recorded as a gap."
    # Kafka is read while rows are locked, as it is too much to be kept. Nobody waits for these: the
    # queue stands still until all is decided.
    count = lay_out(decision.finding, first)
    return (
        f"Held for review: {so_many(count, 'message')} from offset {first:,} on.{gone} "
        f"{decision.place} continues at offset {facts['to']:,}."
    )


def _hold_failed(decision: Decision, place: QueuePartition) -> None:
    """What had failed among these at the backup is not tried by itself, in order or not."""
    facts = decision.finding.facts
    failed = failures.at_offsets(place, facts["from"], facts["to"])
    reason = decision.reason or REVIEW.text
    failures.hold_passed(failed, actor=decision.actor, reason=reason)


def _moved(decision: Decision) -> QueuePartition:
    """Set the position to where the lost database stood, and fence whoever still runs."""
    facts, number = decision.finding.facts, decision.finding.partition
    assert number is not None  # noqa: S101 - of a position
    places = QueuePartition.objects.select_for_update()
    place = places.get(queue=decision.queue, partition=number)
    if (place.next_offset, place.topic_uuid) != (facts["from"], facts["topic_uuid"]):
        raise QueueMismatchError("The position moved since this was found. Look again.")
    move_position(place, facts["to"])
    return place


def _pause(decision: Decision) -> str:
    queue = Queue.objects.filter(pk=decision.queue)
    queue.update(paused=True, paused_until=None, pause_reason="Left paused after a restore.")
    return f"{decision.name} stays paused until somebody resumes it."


def _hold(decision: Decision) -> str:
    waiting = hold_waiting(decision.queue, decision.actor, decision.reason)
    calls = hold_interrupted(decision.queue)
    return f"Held for review: {options.to_deliver(waiting, calls)} of {decision.name}."


def _deliver(decision: Decision) -> str:
    return f"What {decision.name} had to deliver goes out as it comes due."


def _mark_sent(decision: Decision) -> str:
    waiting = _begin_anew(decision)
    rows = waiting.filter(pk__in=decision.finding.facts["sent"])
    marked = rows.update(state=OutboxState.PUBLISHED, published_at=database_now())
    left = _give_back(waiting)
    _note_relay(decision, (marked, OutboxState.PUBLISHED))
    return (
        f"{so_many(marked, 'message was', 'messages were')} marked as sent; "
        f"{left:,} will be sent now."
    )


def _send_all(decision: Decision) -> str:
    count = _give_back(_begin_anew(decision))
    _note_relay(decision, (count, OutboxState.PENDING))
    return f"{so_many(count, 'waiting message', 'waiting messages')} will be sent."


def _begin_anew(decision: Decision) -> QuerySet[OutboxRow]:
    """Let every shard of the relay know Kafka's last batch from now on, and begin anew.

    Returns what waits to be sent, as far as this decides about it. Where Kafka could not be asked,
    nothing is known, and the next look is the first. A shard that the database does not know finds
    its own batch when it begins. One whose batch a former cluster may have keeps it, and what it
    knows: it is in doubt, or will be once it begins. Raises QueueMismatchError.
    """
    finding = decision.finding
    assert finding.provider is not None  # noqa: S101 - as found
    _refuse_if_moved(finding.facts, finding.provider)
    leases = RelayLease.objects.select_for_update().filter(provider=finding.provider)
    locked = list(leases.order_by("pk"))
    former = _of_former(finding.facts, finding.provider) if locked else set()
    ahead = finding.facts.get("watermarks")
    for lease in locked:
        is_kept = lease.shard in former
        known = lease.watermark if is_kept else None
        if ahead is not None:
            known = ahead.get(str(lease.shard), lease.watermark)
        row = RelayLease.objects.filter(pk=lease.pk)
        row.update(watermark=known, epoch=F("epoch") + 1, **({} if is_kept else NO_BATCH))
    return former_cluster.others(finding.provider, former)


def _refuse_if_moved(facts: Mapping[str, Any], provider: int) -> None:
    """A look at one cluster tells nothing of another; the provider stays as it is until the commit.

    Raises QueueMismatchError.
    """
    locked = Provider.objects.select_for_update(no_key=True).filter(pk=provider)
    now = locked.values_list("bootstrap_servers", flat=True).first()
    if facts.get("bootstrap_servers", now) != now:
        raise QueueMismatchError("The provider was changed since this was found. Look again.")


def _of_former(facts: Mapping[str, Any], provider: int) -> set[int]:
    """The shards whose batches a former cluster may have, once all leases are locked.

    Of a silent one the look could only compare what the provider is, and that may have changed
    since: people point it elsewhere where the cluster is lost as well.
    """
    shards = set(facts.get("former_cluster", []))
    if "problem" in facts:
        moved = former_cluster.moved(Provider.objects.get(pk=provider), is_silent=True)
        shards |= set(former_cluster.with_batch(moved))
    return shards


def _give_back(waiting: QuerySet[OutboxRow]) -> int:
    """A batch of the lost time is none any more; returns how many rows wait."""
    waiting.filter(state=OutboxState.STAMPED).update(state=OutboxState.PENDING, batch=None)
    return waiting.count()


def _note_relay(decision: Decision, done: tuple[int, OutboxState]) -> None:
    count, state = done
    provider = decision.finding.provider
    assert provider is not None  # noqa: S101 - as found
    OutboxChange.objects.create(
        provider_id=provider,
        topic=", ".join(decision.finding.facts.get("topics", []))[:249],
        count=count,
        at=database_now(),
        actor=decision.actor,
        action=f"restore: {decision.option.word}"[:20],
        from_state=OutboxState.PENDING,
        to_state=state,
        why_before=card(decision.finding).what,
        reason=decision.reason,
    )


EFFECTS: Final[Mapping[str, Callable[[Decision], str]]] = {
    options.READ_AGAIN: _read_again,
    options.SKIP: _skip,
    options.REVIEW: _review,
    options.PAUSE: _pause,
    options.MARK_SENT: _mark_sent,
    options.SEND_ALL: _send_all,
    options.HOLD: _hold,
    options.DELIVER: _deliver,
}
