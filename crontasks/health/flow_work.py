"""The links of the flow check that work: schedule, beat, workers, slots, locks, the position."""

from datetime import timedelta
from typing import Final

from django.conf import settings
from django.utils import timezone

from crontasks.health import flow_set_up, live_processes, slot_words, slots
from crontasks.health.checks import Finding
from crontasks.health.slots import PATIENCE, Slots, Stage, Wait
from crontasks.models import CronInstance
from crontasks.schedule.moments import upcoming
from integration.durations import rough, spoken
from integration.models import Queue, QueuePartition
from integration.policy.states import PartitionState
from integration.selectors.delivering.senders import sends
from integration.selectors.masking.partitions import cover_places
from integration.selectors.queues.partitions import is_held_back, situation_of
from integration.selectors.queues.rescued import rescued
from integration.selectors.queues.status import Situation
from integration.selectors.scope import EVERYTHING, Scope
from integration.store import locks
from integration.store.sessions import fetch_all

# A tick this late means that beat does not work on the instance.
_LATE: Final = timedelta(seconds=30)
_GOES_ON: Final = frozenset({PartitionState.RUNNING, PartitionState.BACKOFF})
_OWNERS: Final = f"""
    SELECT p.partition, s.owner, l.held, s.lease_until < clock_timestamp() AS lapsed
    FROM integration_queuepartition p
    LEFT JOIN integration_partitionlease s ON s.partition_id = p.id AND s.released_at IS NULL
    CROSS JOIN LATERAL (SELECT {locks.is_held(locks.LockClass.PARTITION, "p.id")} AS held) l
    WHERE p.queue_id = %s ORDER BY p.partition"""


def instance(queue: Queue) -> Finding:
    """The schedule that starts what works for the queue."""
    row = _instance_of(queue)
    if row is None and _is_relayed(queue):
        why = "There is no cron instance of the relay, so no schedule starts it."
        return Situation(why, "Run `python manage.py migrate`; that creates one.")
    if row is None:
        why = "The queue has no cron instance, so no schedule starts it."
        return Situation(why, "Save the queue again; that creates one.")
    if not row.active:
        return Situation(f"{row.name} is not active.", "Activate the instance.")
    if row.periodic_task is None or not (settings.SLUICE_IS_GUEST or row.periodic_task.enabled):
        why = f"Beat does not know {row.name}: its periodic task is missing or switched off."
        return Situation(why, "Save the instance again; that fixes it.")
    return f"{row.name}, {row.schedule_words}."


def _instance_of(queue: Queue) -> CronInstance | None:
    """Return the instance of its consumer, or of the relay."""
    instances = CronInstance.objects.select_related("periodic_task")
    if _is_relayed(queue):
        return instances.filter(task="relay").order_by("-active", "pk").first()
    return instances.filter(queue=queue).first()


def _is_relayed(queue: Queue) -> bool:
    """Return whether the relay alone works for it: nothing is delivered from here."""
    return queue.direction == Queue.Direction.OUTBOUND and not sends(queue)


def beat(queue: Queue) -> Finding:
    """Check that one leads, and that it ticks for this queue."""
    found = live_processes.beat()
    overdue = None if isinstance(found, Situation) else _overdue(queue)
    if overdue is None:
        return found
    return Situation(overdue, "Check beat's log; restart it if it says nothing.")


def _overdue(queue: Queue) -> str | None:
    row = _instance_of(queue)
    if row is None or not row.active or row.last_scheduled_at is None:
        return None
    missed = upcoming(row.schedule(), row.last_scheduled_at, 1)
    if not missed or timezone.now() - missed[0] < _LATE:
        return None
    return f"{row.name} was due at {missed[0]:%H:%M:%S} UTC and nothing ticked."


def slot(queue: Queue, scope: Scope = EVERYTHING) -> Finding:
    """Check that a slot is there for its start, and that none of its own calls hangs.

    Of queues outside `scope` there is a number and no name.
    """
    usage = slots.look()
    waits = next((wait for wait in usage.waits if wait.queue_id == queue.pk), None)
    if waits is not None and (waits in usage.lacking or usage.now - waits.since > PATIENCE):
        if not usage.is_full and _cannot_begin(queue):
            # Whoever takes it gives it back, so that it is asked for for ever.
            return "A run was requested, and cannot begin before the queue has a position."
        return _no_slot(usage, waits, scope)
    calls = [run for run in usage.runs if run.queue_id == queue.pk and run.stage != Stage.WORKS]
    for run in sorted(calls, key=lambda call: call.stage is not Stage.HANGS):
        situation = slot_words.of_run(run, usage.now)
        if run.stage is not Stage.HANGS:
            return situation.text
        if not run.has_lapsed(usage.now):  # Else the next link says it.
            return situation
    taken = len(usage.taking) + usage.others
    return f"{taken} of {usage.total} taken."


def _cannot_begin(queue: Queue) -> bool:
    return flow_set_up.awaits_group(queue) and isinstance(flow_set_up.start(queue), Situation)


def _no_slot(usage: Slots, waits: Wait, scope: Scope) -> Situation:
    request = f"A run was requested {rough((usage.now - waits.since).total_seconds())} ago"
    if not usage.is_full:
        step = "Check the workers' logs and the broker of Celery."
        return Situation(f"{request}, and no worker took it though slots are free.", step)
    situation = slot_words.of_all(usage, scope.allows)
    return Situation(f"{request}. {situation.why}", situation.next_step)


def lock(queue: Queue) -> Finding:
    rows = fetch_all(_OWNERS, (queue.pk,))
    for partition, owner, is_held, has_lapsed in rows:
        if is_held and has_lapsed:
            why = f"{owner} holds partition {partition} and has not renewed its lease."
            step = "It is stopped or hangs; the next run ends it. If it stays so, kill it."
            return Situation(why, step)
    owners = sorted({owner for _, owner, is_held, _ in rows if is_held and owner})
    return f"Held by {', '.join(owners)}." if owners else "Free; a start takes it."


def position(queue: Queue) -> Finding:
    rows = list(queue.partitions.all())
    if not rows:
        return "No run has taken the queue yet; the first stores where it begins."
    cover_places(rows)
    for row in rows:
        if row.state not in _GOES_ON or is_held_back(row):
            found = situation_of(queue, row)
            code = f" ({row.state_code})" if row.state_code else ""
            why = f"{_place(queue, row)} {_stands_still(row)}{code}. {found.why}"
            return Situation(why, found.next_step or "Open the queue in the console.")
    waiting = [row for row in rows if row.state == PartitionState.BACKOFF]
    if waiting:
        return f"{_place(queue, waiting[0])} waits for its next try at {waiting[0].resume_at}."
    if queue.provider.is_jms:
        return f"The next message gets the number {rows[0].next_offset:,}."
    places = ", ".join(f"{row.partition} at {row.next_offset:,}" for row in rows[:8])
    return f"Partition {places}."


def _place(queue: Queue, row: QueuePartition) -> str:
    """What stands there; an address of a JMS broker has no partitions."""
    return "It" if queue.provider.is_jms else f"Partition {row.partition}"


def _stands_still(row: QueuePartition) -> str:
    """What was found then may have been put right since: the next try finds out."""
    if row.state_since is None:
        return "stands still"
    since = f"has stood still for {spoken(timezone.now() - row.state_since)}"
    again = f", is tried again at {row.resume_at:%H:%M:%S} UTC" if row.resume_at else ""
    return since + again


def rescue(queue: Queue) -> Finding:
    """What was copied because it would have expired, and whether more of it would be."""
    saved = rescued(queue)
    if saved is not None and saved.stopped:
        return saved.stopped[0].situation
    if saved is not None:
        return f"{saved.text} They are read first."
    if not queue.rescue:
        return "Off: what waits until the topic forgets it is recorded as a gap."
    return "Nothing had to be copied; what waits is still safe in the topic."
