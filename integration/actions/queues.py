"""Requests about a queue: switch it, pause it, let it run again."""

from collections.abc import Mapping
from datetime import UTC, datetime, timedelta
from typing import Any, Final

from django.db.models import Q
from django.utils import timezone

from integration.actions.errors import (
    OutboundQueueError,
    PauseEndError,
    QueueAtJmsError,
    QueueMismatchError,
)
from integration.actions.reasons import cut
from integration.actions.transaction import short_transaction
from integration.models import Provider, Queue, QueueChange, QueuePartition
from integration.policy.states import PartitionState
from integration.selectors.delivering.senders import RUNS
from integration.store.sessions import database_now
from integration.store.starts import leave_request

# The columns of a partition that runs, once nothing holds it any more.
RUNNING: Final[Mapping[str, Any]] = {
    "state": PartitionState.RUNNING,
    "state_since": database_now(),
    "state_code": "",
    "state_text": "",
    "state_error": None,
    "resume_at": None,
    "probes": 0,
}


# The columns of a partition that nobody told to stop.
NO_STOP: Final[Mapping[str, Any]] = {"stop_at": None, "stop_request": None}
# Those of one that was added, and waits for no other any more.
WAITS_NO_MORE: Final[Mapping[str, Any]] = {"begins_after": None, "producers_know_at": None}
# Those of one where nothing is through beyond the position.
NOTHING_OPEN: Final[Mapping[str, Any]] = {
    "done_offsets": [],
    "open_from": None,
    "open_until": None,
    "open_arrival": None,
}
# Those of one where work has died on none of the messages that are to come.
NO_SUSPECT: Final[Mapping[str, Any]] = {
    "unclean_ends": 0,
    "unclean_offset": None,
    "suspect_offset": None,
    "suspect_receipt": None,
    "suspect_crashes": 0,
    "suspect_hung": False,
}
PAUSE_ENDED: Final = "The pause was taken away."
# A pause with an end, of a queue or an endpoint.
LONGEST_PAUSE: Final = timedelta(days=30)


def pause(queue_id: int, *, actor: str, reason: str = "", until: datetime | None = None) -> None:
    """Let the current batch finish and start nothing more, until a person resumes it or `until`.

    Raises PauseEndError, QueueMismatchError, OutboundQueueError.
    """
    if until is not None and not timedelta(0) < until - timezone.now() <= LONGEST_PAUSE:
        raise PauseEndError(most_days=LONGEST_PAUSE.days)
    refuse_outbound(queue_id)
    with short_transaction():
        free = Queue.objects.filter(pk=queue_id, paused=False)
        if free.update(paused=True, pause_reason=cut(reason)[:200], paused_until=until) == 0:
            raise _already(queue_id, "paused", "pause")
        note(queue_id, actor, "pause", reason=reason, effect=_pause_effect(until))


def resume(queue_id: int, *, actor: str, reason: str = "") -> None:
    """Take the pause away and the stop at the failure threshold; what is BLOCKED stays blocked.

    Where it was told to stop counts no more. Raises QueueMismatchError when neither a pause nor the
    failure threshold stops the queue, OutboundQueueError.
    """
    refuse_outbound(queue_id)
    with short_transaction():
        lock(queue_id)
        was_paused = Queue.objects.filter(pk=queue_id, paused=True).update(
            paused=False, pause_reason="", paused_until=None
        )
        stopped = QueuePartition.objects.filter(queue=queue_id, state=PartitionState.BRAKED)
        resumed = stopped.update(**RUNNING)
        if not was_paused and not resumed:
            raise _already(queue_id, "running", "resume")
        effect = PAUSE_ENDED if was_paused else ""
        if resumed:
            effect += f" The stop at the failure threshold was lifted on {resumed} partition(s)."
        if QueuePartition.objects.filter(queue=queue_id, stop_at__isnull=False).update(**NO_STOP):
            effect += " It stops nowhere any more."
        note(queue_id, actor, "resume", reason=reason, effect=effect.strip())
    leave_request(queue_id)


def enable(queue_id: int, *, actor: str, reason: str = "") -> None:
    """Switch the queue on. Raises QueueMismatchError, OutboundQueueError."""
    _switch(queue_id, actor, reason, on=True)
    leave_request(queue_id)


def disable(queue_id: int, *, actor: str, reason: str = "") -> None:
    """Switch the queue off: its positions stay, nothing is read.

    Raises QueueMismatchError, OutboundQueueError.
    """
    _switch(queue_id, actor, reason, on=False)


def note(
    queue_id: int,
    actor: str,
    action: str,
    *,
    reason: str = "",
    effect: str = "",
    partition: int | None = None,
) -> QueueChange:
    """Write one line of the queue's history; called in the transaction of what it tells."""
    return QueueChange.objects.create(
        queue_id=queue_id,
        name=Queue.objects.values_list("name", flat=True).get(pk=queue_id),
        partition=partition,
        at=database_now(),
        actor=actor,
        action=action,
        reason=reason.strip(),
        effect=effect,
    )


def _switch(queue_id: int, actor: str, reason: str, *, on: bool) -> None:
    action, word = ("enable", "switched on") if on else ("disable", "switched off")
    refuse_outbound(queue_id)
    with short_transaction():
        if Queue.objects.filter(pk=queue_id, enabled=not on).update(enabled=on) == 0:
            raise _already(queue_id, word, action)
        note(queue_id, actor, action, reason=reason, effect=f"The queue was {word}.")


def _pause_effect(until: datetime | None) -> str:
    last = "The current batch was the last one."
    if until is None:
        return last
    return f"{last} It continues at {until.astimezone(UTC):%H:%M UTC on %d %B %Y}."


def lock(queue_id: int) -> Queue:
    """Lock the queue's row: whoever sets stops, or pauses at them, comes before this or after.

    Before its partitions, always.
    """
    return Queue.objects.select_for_update(no_key=True).get(pk=queue_id)


def refuse_outbound(queue_id: int) -> None:
    """A switch that nothing obeys must not look as if it were obeyed. Raises OutboundQueueError."""
    queue = Queue.objects.exclude(RUNS).filter(pk=queue_id).first()
    if queue is not None:
        raise OutboundQueueError(queue=queue.name)


def refuse_jms(queue_id: int) -> None:
    """What waits at a JMS broker has no offsets yet, so none can be named.

    Raises QueueAtJmsError.
    """
    at_jms = Queue.objects.filter(pk=queue_id, provider__kind=Provider.Kind.JMS)
    queue = at_jms.first()
    if queue is not None:
        raise QueueAtJmsError(
            queue=queue.name,
            why="whose messages get their offset only when they are read",
            instead="Pause the queue to stop reading. What is to be read again, its sender has to "
            "send again.",
        )


def _already(queue_id: int, word: str, action: str) -> QueueMismatchError:
    last = QueueChange.objects.filter(Q(queue=queue_id) & Q(action=action)).first()
    by = f" (by {last.actor} at {last.at:%H:%M:%S} UTC on {last.at:%d %B %Y})" if last else ""
    return QueueMismatchError(f"The queue is already {word}{by}.")
