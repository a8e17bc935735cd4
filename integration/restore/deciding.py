"""What people decide after a restore: one finding at a time, each once, each written down."""

import logging
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from types import MappingProxyType
from typing import ClassVar, Final

from django.db.models import F, QuerySet

from integration.actions.problems import QueueMismatchError, ReasonMissingError
from integration.actions.queues import CLEARED, note
from integration.actions.transaction import short_transaction
from integration.clock import database_now
from integration.counting import so_many
from integration.delivery.unit import Unit
from integration.errors import IntegrationError
from integration.models import (
    Gap,
    OutboxChange,
    OutboxRow,
    Queue,
    QueuePartition,
    RelayLease,
    Restore,
    RestoreFinding,
)
from integration.policy.states import OutboxState, PartitionState
from integration.restore import options
from integration.restore.examining import close_if_decided
from integration.restore.options import Option
from integration.restore.reviewing import (
    hold_interrupted,
    hold_waiting,
    lay_out,
    records_of,
)
from integration.store.starts import leave_request

log = logging.getLogger(__name__)

RESTORED: Final = "RESTORED"
WAITING: Final = (OutboxState.PENDING, OutboxState.STAMPED)


class FindingDecidedError(IntegrationError):
    """Somebody decided it before, or it was looked at anew; nothing was changed.

    `already_done` is true when it was decided in the same way.
    """

    code: ClassVar[str] = "RESTORE_DECIDED"

    def __init__(self, finding: RestoreFinding | None, word: str) -> None:
        self.already_done = finding is not None and finding.decision == word
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
    """A finding with what was decided about it, by whom and why; `units` are for a review."""

    finding: RestoreFinding
    option: Option
    actor: str
    reason: str
    units: Sequence[Unit] = ()

    @property
    def place(self) -> str:
        return f"{self.finding.facts['name']}, partition {self.finding.partition},"


def decide(finding_id: int, word: str, *, actor: str, reason: str = "") -> str:
    """Carry out one decision; returns what was done, in a sentence.

    With the last one everything that was held goes on. Raises FindingDecidedError,
    NoSuchDecisionError, ReasonMissingError, QueueMismatchError, RowBusyError, and for a review
    BrokerUnreachableError and ProviderUnusableError.
    """
    known = RestoreFinding.objects.filter(pk=finding_id).first()
    option = _option(known, word, reason)
    assert known is not None  # noqa: S101 - _option refuses it otherwise
    # Kafka is asked before anything is locked.
    laid_out = records_of(known) if word == options.REVIEW else []
    with short_transaction():
        Restore.objects.select_for_update().get(pk=known.restore_id)
        finding = RestoreFinding.objects.select_for_update().filter(pk=finding_id).first()
        if finding is None or finding.decided_at is not None:
            raise FindingDecidedError(finding, word)
        decision = Decision(finding, option, actor, reason.strip(), laid_out)
        effect = EFFECTS[word](decision)
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
    return f"{effect} That was the last decision: everything goes on." if is_over else effect


def _option(finding: RestoreFinding | None, word: str, reason: str) -> Option:
    if finding is None or finding.decided_at is not None:
        raise FindingDecidedError(finding, word)
    known = options.words(finding)
    if word not in known:
        raise NoSuchDecisionError(word, list(known))
    option = known[word]
    if option.needs_reason and not reason.strip():
        raise ReasonMissingError(action=option.label.lower())
    return option


def _read_again(decision: Decision) -> str:
    effect = f"{decision.place} goes on at offset {decision.finding.facts['from']:,}."
    _note(decision, effect)
    return effect


def _skip(decision: Decision) -> str:
    place = _moved(decision)
    facts = decision.finding.facts
    Gap.objects.create(
        partition=place,
        topic_uuid=place.topic_uuid,
        from_offset=facts["from"],
        to_offset=facts["to"],
        reason=RESTORED,
        found_at=database_now(),
        acknowledged_at=database_now(),
        acknowledged_by=decision.actor,
    )
    effect = f"{decision.place} goes on at offset {facts['to']:,}; what was skipped is a gap."
    _note(decision, effect)
    return effect


def _review(decision: Decision) -> str:
    _moved(decision)
    lay_out(decision.finding, decision.units)
    facts = decision.finding.facts
    effect = (
        f"Held for review: {so_many(len(decision.units), 'message')} from offset "
        f"{facts['from']:,} on. {decision.place} goes on at offset {facts['to']:,}."
    )
    _note(decision, effect)
    return effect


def _moved(decision: Decision) -> QueuePartition:
    """Set the position to where the lost database stood, and fence whoever still runs."""
    facts, finding = decision.finding.facts, decision.finding
    assert finding.queue is not None and finding.partition is not None  # noqa: S101, PT018 - as found
    place = QueuePartition.objects.select_for_update().get(
        queue=finding.queue, partition=finding.partition
    )
    if (place.next_offset, place.topic_uuid) != (facts["from"], facts["topic_uuid"]):
        raise QueueMismatchError("The position moved since this was found. Look again.")
    QueuePartition.objects.filter(pk=place.pk).update(
        next_offset=facts["to"],
        epoch=F("epoch") + 1,
        state=PartitionState.RUNNING,
        state_since=database_now(),
        **CLEARED,
    )
    return place


def _pause(decision: Decision) -> str:
    queue, name = _queue(decision), decision.finding.facts["name"]
    Queue.objects.filter(pk=queue).update(paused=True, pause_reason="Left paused after a restore.")
    effect = f"{name} stays paused until somebody resumes it."
    _note(decision, effect)
    return effect


def _queue(decision: Decision) -> int:
    queue = decision.finding.queue
    assert queue is not None  # noqa: S101 - findings of relays have decisions of their own
    return queue


def _note(decision: Decision, effect: str) -> None:
    note(
        _queue(decision),
        decision.actor,
        f"restore: {decision.option.word}",
        reason=decision.reason,
        effect=effect,
        partition=decision.finding.partition,
    )


def _mark_sent(decision: Decision) -> str:
    facts = decision.finding.facts
    lease = _lease(decision)
    rows = _waiting(lease).filter(pk__in=facts["sent"])
    marked = rows.update(state=OutboxState.PUBLISHED, published_at=database_now())
    left = _give_back(lease)
    effect = (
        f"{so_many(marked, 'message was', 'messages were')} marked as sent; "
        f"{left:,} will be sent now."
    )
    _note_relay(decision, lease, (marked, OutboxState.PUBLISHED))
    return effect


def _send_all(decision: Decision) -> str:
    lease = _lease(decision)
    count = _give_back(lease)
    _note_relay(decision, lease, (count, OutboxState.PENDING))
    return f"{so_many(count, 'waiting message', 'waiting messages')} will be sent."


def _lease(decision: Decision) -> RelayLease:
    """The relay, which knows Kafka's last batch from now on and begins anew."""
    finding = decision.finding
    assert finding.provider is not None and finding.shard is not None  # noqa: S101, PT018 - as found
    lease = RelayLease.objects.select_for_update().get(
        provider=finding.provider, shard=finding.shard
    )
    # Kafka could not be asked: then nothing is known, and the next look is the first.
    last = finding.facts.get("watermark")
    RelayLease.objects.filter(pk=lease.pk).update(
        watermark=last,
        epoch=F("epoch") + 1,
        batch=None,
        batch_rows=None,
        in_doubt_since=None,
        in_doubt_text="",
    )
    return lease


def _waiting(lease: RelayLease) -> "QuerySet[OutboxRow]":
    return OutboxRow.objects.filter(
        provider=lease.provider_id, shard=lease.shard, state__in=WAITING
    )


def _give_back(lease: RelayLease) -> int:
    """A batch of the lost time is none any more; returns how many rows wait."""
    stamped = _waiting(lease).filter(state=OutboxState.STAMPED)
    stamped.update(state=OutboxState.PENDING, batch=None)
    return _waiting(lease).count()


def _note_relay(decision: Decision, lease: RelayLease, done: tuple[int, OutboxState]) -> None:
    count, state = done
    OutboxChange.objects.create(
        provider_id=lease.provider_id,
        shard=lease.shard,
        topic=", ".join(decision.finding.facts.get("topics", []))[:249],
        count=count,
        at=database_now(),
        actor=decision.actor,
        action=f"restore: {decision.option.word}"[:20],
        from_state=OutboxState.PENDING,
        to_state=state,
        why_before=options.card(decision.finding).what,
        reason=decision.reason,
    )


def _hold(decision: Decision) -> str:
    finding = decision.finding
    failures = hold_waiting(finding, decision.actor, decision.reason)
    calls = hold_interrupted(_queue(decision))
    effect = f"Held for review: {options.to_deliver(failures, calls)} of {finding.facts['name']}."
    _note(decision, effect)
    return effect


def _deliver(decision: Decision) -> str:
    effect = f"What {decision.finding.facts['name']} had to deliver goes out as it comes due."
    _note(decision, effect)
    return effect


EFFECTS: Final[Mapping[str, Callable[[Decision], str]]] = MappingProxyType(
    {
        options.READ_AGAIN: _read_again,
        options.SKIP: _skip,
        options.REVIEW: _review,
        options.PAUSE: _pause,
        options.MARK_SENT: _mark_sent,
        options.SEND_ALL: _send_all,
        options.HOLD: _hold,
        options.DELIVER: _deliver,
    }
)
