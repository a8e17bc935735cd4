"""Decisions about outgoing rows that Kafka refuses, and about a relay in doubt.

Each decision is a compare-and-set with its line of history in the same transaction.
"""

import logging
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import ClassVar, Final
from uuid import UUID

from django.db import OperationalError
from django.db.models import F

from integration.actions.errors import ReasonMissingError, RowBusyError
from integration.actions.reasons import cut
from integration.actions.transaction import short_transaction
from integration.errors import IntegrationError
from integration.models import OutboxChange, OutboxRow, RelayLease
from integration.models.outbox import of_lease
from integration.policy.states import OutboxState
from integration.store.sessions import database_now, may_have_committed

log = logging.getLogger(__name__)

# Each chunk is one short transaction.
CHUNK_ROWS: Final = 500
STATE_WORDS: Final = {
    OutboxState.PENDING: "waiting to be sent",
    OutboxState.STAMPED: "in the relay's current batch",
    OutboxState.PUBLISHED: "in Kafka",
    OutboxState.DEAD: "refused by Kafka",
    OutboxState.CANCELLED: "given up, or not needed any more",
}

# A row is dead under the batch it was last tried in: that id is its version.
Batches = Mapping[int, UUID | None]


class OutboxMismatchError(IntegrationError):
    """The row has moved on since the person looked at it; nothing was changed.

    `already_done` is true when the same person already did the same thing: a second click.
    """

    code: ClassVar[str] = "OUTBOX_MISMATCH"

    def __init__(
        self, *, row: int, state: OutboxState | None, last: OutboxChange | None, decision: str
    ) -> None:
        self.already_done = False
        if state is None:
            sentence = f"Row {row} is not in the outbox; cleanup removes rows that were sent."
        elif state is OutboxState.DEAD:
            sentence = f"It has moved on: row {row} was tried again meanwhile and refused again."
        elif last is None:
            sentence = f"Row {row} does not wait for a decision: it is {STATE_WORDS[state]}."
        else:
            at = f"{last.at:%H:%M:%S} UTC on {last.at:%d %B %Y}"
            self.already_done = f"{last.actor} {last.action}" == decision
            who = "You already did this" if self.already_done else f"{last.actor} decided it"
            sentence = f"{who} at {at}: row {row} is {STATE_WORDS[state]}."
        step = "" if self.already_done else "Nothing was changed; check it again."
        super().__init__(sentence, next_step=step)


class NotInDoubtError(IntegrationError):
    """Somebody has decided already, or the relay sends another batch by now."""

    code: ClassVar[str] = "RELAY_NOT_IN_DOUBT"

    def __init__(self) -> None:
        super().__init__(
            "This relay is not in doubt about that batch (any more).",
            next_step="Nothing was changed; check it again.",
        )


@dataclass(frozen=True, slots=True)
class Verb:
    """The verb for a dead row: the state it leads to and the columns besides."""

    action: str
    target: OutboxState
    needs_reason: bool
    more: Mapping[str, object]


SEND_AGAIN: Final = Verb(
    "send again", OutboxState.PENDING, False, {"dead_code": "", "dead_text": "", "batch": None}
)
GIVE_UP: Final = Verb("give up", OutboxState.CANCELLED, True, {})


@dataclass(frozen=True, slots=True)
class OutboxOutcome:
    """The fate of the rows asked for; both counts add up to all of them.

    Left alone, in `moved_on`, are also those from one on that somebody else held too long, or at
    which the database gave up.
    """

    moved: int = 0
    moved_on: int = 0


def send_again(row: int, *, batch: UUID | None, actor: str, reason: str = "") -> None:
    """Give a dead row back to the relay, which sends it in its old place.

    `batch` is what it was dead under when seen. Raises OutboxMismatchError, RowBusyError.
    """
    _one(SEND_AGAIN, row, batch, actor, reason)


def give_up(row: int, *, batch: UUID | None, actor: str, reason: str) -> None:
    """Cancel a dead row for good: what it holds back on a strict queue goes on.

    Raises ReasonMissingError, OutboxMismatchError, RowBusyError.
    """
    _one(GIVE_UP, row, batch, actor, reason)


def send_again_many(rows: Batches, *, actor: str, reason: str = "") -> OutboxOutcome:
    """Give dead rows (id -> batch as seen) back to the relay.

    Raises RowBusyError, where nothing was changed.
    """
    return _many(SEND_AGAIN, rows, actor, reason)


def give_up_many(rows: Batches, *, actor: str, reason: str) -> OutboxOutcome:
    """Cancel dead rows (id -> batch as seen).

    Raises ReasonMissingError, and RowBusyError, where nothing was changed.
    """
    return _many(GIVE_UP, rows, actor, reason)


def resolve_in_doubt(
    lease_id: int, *, batch: UUID | None, sent: bool, actor: str, reason: str = ""
) -> int:
    """Say that the batch in doubt is in Kafka (`sent`) or is to be sent; return its row count.

    The epoch is raised, so that a relay that waits for this word begins anew. Raises
    NotInDoubtError, RowBusyError.
    """
    target = OutboxState.PUBLISHED if sent else OutboxState.PENDING
    with short_transaction():
        lease = RelayLease.objects.select_for_update().filter(pk=lease_id).first()
        if lease is None or lease.in_doubt_since is None:
            raise NotInDoubtError
        stamped = of_lease(lease).filter(state=OutboxState.STAMPED, batch=batch)
        topics = sorted(set(stamped.values_list("topic", flat=True)))
        if not topics:
            raise NotInDoubtError
        if sent:
            count = stamped.update(state=target, published_at=database_now())
        else:
            count = stamped.update(state=target, batch=None)
        OutboxChange.objects.create(
            provider_id=lease.provider_id,
            shard=lease.shard,
            batch=batch,
            topic=", ".join(topics)[:249],
            count=count,
            at=database_now(),
            actor=actor,
            action="say sent" if sent else "say not sent",
            from_state=OutboxState.STAMPED,
            to_state=target,
            why_before=lease.in_doubt_text,
            reason=cut(reason),
        )
        known = _as_last_sent(lease, batch) if sent else {}
        RelayLease.objects.filter(pk=lease_id).update(
            in_doubt_since=None, in_doubt_text="", epoch=F("epoch") + 1, **known
        )
    log.warning("%s said that %s rows in doubt were %s", actor, count, "sent" if sent else "not")
    return count


def _as_last_sent(lease: RelayLease, batch: UUID | None) -> dict[str, object]:
    """Let the lease know the batch as Kafka may: as the last one, in a cluster that has it.

    Unknown, it would pass for one of another state of the database. A cluster that has the one
    before is told of it; its rows are not noted, as nobody is to look for them again.
    """
    if lease.watermark is None:
        return {}
    return {
        "watermark": str(batch),
        "watermark_before": lease.watermark,
        "watermark_rows": None,
    }


def _one(verb: Verb, row: int, batch: UUID | None, actor: str, reason: str) -> None:
    if _many(verb, {row: batch}, actor, reason).moved == 1:
        return
    state_now = OutboxRow.objects.filter(pk=row).values_list("state", flat=True).first()
    last = OutboxChange.objects.filter(row=row).first()
    state = None if state_now is None else OutboxState(state_now)
    raise OutboxMismatchError(row=row, state=state, last=last, decision=f"{actor} {verb.action}")


def _many(verb: Verb, rows: Batches, actor: str, reason: str) -> OutboxOutcome:
    reason = reason.strip()
    if verb.needs_reason and not reason:
        raise ReasonMissingError(action="give up what was to be sent")
    moved = 0
    for chunk in _chunks(rows):
        try:
            with short_transaction():
                fit = _as_seen(chunk)
                _write(verb, fit, actor, reason)
        except (RowBusyError, OperationalError) as failure:
            if not moved or may_have_committed(failure):
                raise
            # That nothing was changed would not be true any more.
            break
        moved += len(fit)
    if moved:
        log.warning("%s: %s for %s outgoing rows", actor, verb.action, moved)
    return OutboxOutcome(moved=moved, moved_on=len(rows) - moved)


def _as_seen(chunk: Batches) -> list[OutboxRow]:
    """Lock those that are still dead under the batch the person saw, in id order."""
    dead = (
        OutboxRow.objects.select_for_update()
        .filter(pk__in=chunk, state=OutboxState.DEAD)
        .defer("value", "headers", "key")
        .order_by("pk")
    )
    return [row for row in dead if row.batch == chunk[row.pk]]


def _write(verb: Verb, rows: list[OutboxRow], actor: str, reason: str) -> None:
    OutboxRow.objects.filter(pk__in=[row.pk for row in rows]).update(state=verb.target, **verb.more)
    OutboxChange.objects.bulk_create(
        OutboxChange(
            provider_id=row.provider_id,
            shard=row.shard,
            row=row.pk,
            batch=row.batch,
            topic=row.topic,
            at=database_now(),
            actor=actor,
            action=verb.action,
            from_state=row.state,
            to_state=verb.target,
            why_before=row.dead_text or row.dead_code,
            reason=cut(reason),
        )
        for row in rows
    )


def _chunks(rows: Batches) -> Iterator[dict[int, UUID | None]]:
    every = list(rows.items())
    for start in range(0, len(every), CHUNK_ROWS):
        yield dict(every[start : start + CHUNK_ROWS])
