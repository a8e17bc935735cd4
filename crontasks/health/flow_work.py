"""The links of the flow check that do the work: workers, slots, locks they hold, the position."""

from typing import Final

from crontasks.cursor import django_cursor
from crontasks.health import live_processes, slot_words, slots
from crontasks.health.links import Link, broken, good
from crontasks.health.slots import PATIENCE, Slots, Stage, Wait
from integration.durations import rough
from integration.models import Queue
from integration.policy.states import PartitionState
from integration.selectors.queues.held_back import is_held_back, way_out
from integration.selectors.queues.status import situation
from integration.selectors.scope import EVERYTHING, Scope
from integration.store import locks

_SKEW_SECONDS: Final = 2.0
_OWNERS: Final = f"""
    SELECT p.partition, s.owner, l.held, s.lease_until < clock_timestamp() AS lapsed
    FROM integration_queuepartition p
    LEFT JOIN integration_partitionlease s ON s.partition_id = p.id AND s.released_at IS NULL
    CROSS JOIN LATERAL (SELECT {locks.is_held(locks.LockClass.PARTITION, "p.id")} AS held) l
    WHERE p.queue_id = %s ORDER BY p.partition"""


def worker(queue: Queue) -> Link:  # noqa: ARG001 - every link is asked in the same way
    hearts = live_processes.alive("worker")
    serving = live_processes.serving(hearts, live_processes.RUNS)
    if not serving:
        lack = live_processes.lack(hearts, live_processes.RUNS)
        return broken("worker", lack.why, lack.next_step)
    skewed = [heart for heart in serving if abs(heart.clock_skew_seconds) > _SKEW_SECONDS]
    if skewed:
        text = f"The clock of {skewed[0].node} is {skewed[0].clock_skew_seconds:+.1f} s off."
        return broken("worker", text, "Set the host's clock; Celery drops what seems expired.")
    if not any(heart.leads for heart in hearts):
        text = f"{len(serving)} worker(s) live, but no dispatcher leads."
        return broken("worker", text, "Wait five seconds; if it stays so, restart a worker.")
    return good(
        "worker", f"{len(serving)} alive for queues. {live_processes.slots_in_words(serving)}"
    )


def slot(queue: Queue, scope: Scope = EVERYTHING) -> Link:
    """Whether a slot is there for its start, and none of its own calls hangs.

    Of queues outside `scope` there is a number and no name.
    """
    found = slots.look()
    waits = next((one for one in found.waits if one.queue_id == queue.pk), None)
    if waits is not None and (waits in found.lacking or found.now - waits.since > PATIENCE):
        return _no_slot(found, waits, scope)
    calls = [one for one in found.runs if one.queue_id == queue.pk and one.stage != Stage.WORKS]
    for run in sorted(calls, key=lambda one: one.stage is not Stage.HANGS):
        told = slot_words.of_run(run, found.now)
        if run.stage is not Stage.HANGS:
            return good("slot", f"{told.why} {told.next_step}")
        if not run.has_lapsed(found.now):  # Else the next link says it.
            return broken("slot", told.why, told.next_step)
    taken = len(found.taking) + found.others
    return good("slot", f"{taken} of {found.total} taken.")


def _no_slot(found: Slots, waits: Wait, scope: Scope) -> Link:
    asked = f"A run was asked for {rough((found.now - waits.since).total_seconds())} ago"
    if not found.is_full:
        step = "Look at the workers' logs and at the broker of Celery."
        return broken("slot", f"{asked}, and no worker took it though slots are free.", step)
    told = slot_words.of_all(found, scope.allows)
    return broken("slot", f"{asked}. {told.why}", told.next_step)


def lock(queue: Queue) -> Link:
    with django_cursor() as cursor:
        cursor.execute(_OWNERS, (queue.pk,))
        rows = cursor.fetchall()
    for partition, owner, is_held, has_lapsed in rows:
        if is_held and has_lapsed:
            text = f"{owner} holds partition {partition} and has not renewed its lease."
            step = "It is stopped or hangs; the next run ends it. If it stays so, kill it."
            return broken("lock", text, step)
    owners = sorted({owner for _, owner, is_held, _ in rows if is_held and owner})
    return good("lock", f"Held by {', '.join(owners)}." if owners else "Free; a start takes it.")


def position(queue: Queue) -> Link:
    rows = list(queue.partitions.all())
    if not rows:
        return good("position", "No run has taken the queue yet; the first stores where it begins.")
    for row in rows:
        state = PartitionState(row.state)
        if state is PartitionState.BACKOFF:
            continue
        if state is PartitionState.RUNNING and not is_held_back(row):
            continue
        found = situation(
            state,
            row.state_code,
            row.state_text,
            topic=queue.topic,
            limit=queue.max_open_errors,
        )
        if state is PartitionState.RUNNING:
            found = way_out(queue, row, found)
        text = f"Partition {row.partition} stands still. {found.why}"
        return broken("position", text, found.next_step or "Open the queue in the console.")
    waiting = [row for row in rows if row.state == PartitionState.BACKOFF]
    if waiting:
        text = f"Partition {waiting[0].partition} waits for its next try at {waiting[0].resume_at}."
        return good("position", text)
    places = ", ".join(f"{row.partition} at {row.next_offset:,}" for row in rows[:8])
    return good("position", f"Partition {places}.")
