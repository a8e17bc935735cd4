"""Sentences about slots that calls take: why, and what to do at each stage. Pure."""

from collections.abc import Callable, Sequence
from datetime import datetime, timedelta
from typing import Final

from crontasks.health.slots import Run, Slots, Stage, Wait
from integration.counting import listed, so_many
from integration.durations import rough
from integration.selectors.queues.status import Situation
from integration.selectors.scope import EVERYTHING
from integration.selectors.starting import celery

# The queues a person may know of: those of their own external systems.
Known = Callable[[int | None], bool]
# More names than this say no more.
NAMED: Final = 5

HELD: Final = (
    "If it hangs again and again, it goes on hold as HANDLER_TIMEOUT: then fix the handler, or "
    "give calls of {queue} more time under Set up, and release it."
)
ALONE: Final = "The message runs alone already, and does so again; you need not restart anything. "
AFTERWARDS: Final = (
    "Then the message is tried again, alone if that does not help; you need not restart anything. "
)
MORE: Final = (
    f"Give the worker more slots (-c) or start another one: {celery('worker -Q celery -c {n}')}"
)


def of_run(run: Run, now: datetime) -> Situation:
    """Say of a call that hangs or hung where it stands, and what becomes of its message."""
    held = HELD.format(queue=run.queue)
    if run.stage is Stage.ENDED:
        why = f"Its process was ended because a call hung, at {_place(run)}."
        return Situation(why, f"A worker that has a free slot tries it again. {held}")
    if run.stage is Stage.AGAIN:
        since = "" if run.since is None else f", the call since {_clock(run.since)}"
        how = "runs alone" if run.alone is not None else "is tried again"
        why = f"A call hung and its process was ended. Now {_place(run)} {how}{since}."
        return Situation(why, f"Wait for it. {held}")
    then = AFTERWARDS if run.alone is None else ALONE
    return Situation(_hanging(run), f"{_end(run, now)} {then}{held}")


def _hanging(run: Run) -> str:
    most = rough(run.most_seconds)
    if run.is_silent:
        return (
            f"Its run has given no sign since {_clock(run.since)}: a call at {_place(run)} lets "
            "no other thread run, or its process is stopped."
        )
    since = "" if run.since is None else f" since {_clock(run.since)}"
    return f"A call at {_place(run)} has been under way{since}, and it may take {most}."


def _end(run: Run, now: datetime) -> str:
    if run.ends_by is None or now <= run.ends_by:
        by = "" if run.ends_by is None else f" by {_clock(run.ends_by)} at the latest"
        return f"Its process ends itself{by}."
    return (
        f"Its process should have ended itself by {_clock(run.ends_by)}; the next run takes its "
        f"partitions. If the slot stays taken, kill {run.owner.partition('/')[0]}."
    )


def of_all(slots: Slots, known: Known = EVERYTHING.allows) -> Situation:
    """Say of slots that are all taken by which queues, who waits, and what to do."""
    hung = slots.hung
    parts = [_takers("calls of {} hang", "a call of {} hangs", hung, known)]
    busy = [run for run in slots.taking.values() if run not in hung]
    parts.append(_takers("{} are at work", "{} is at work", busy, known))
    if slots.others:
        parts.append(so_many(slots.others, "other task runs", "other tasks run"))
    all_of_them = "The only slot is" if slots.total == 1 else f"All {slots.total} slots are"
    why = f"{all_of_them} taken: {'; '.join(part for part in parts if part)}."
    if slots.lacking:
        why += f" {_waiting(slots, known)}"
    return Situation(why, step(slots))


def step(slots: Slots) -> str:
    """Say what to do while all slots are taken."""
    more = MORE.format(n=slots.total + max(1, len(slots.waits)))
    if not slots.hung:
        return more
    ends = [run.ends_by for run in slots.hung if run.ends_by is not None]
    if ends and min(ends) < slots.now:
        return "Look at the queues whose calls hang: a process has not ended itself in time."
    by = f" by {_clock(min(ends))} at the latest" if ends else ""
    return (
        f"A slot comes free by itself{by}. If calls may take so long, {more[0].lower()}{more[1:]}"
    )


def _waiting(slots: Slots, known: Known) -> str:
    named = [wait for wait in slots.lacking if known(wait.system_id)]
    longest: Wait = slots.lacking[0]
    age = rough(max(timedelta(), slots.now - longest.since).total_seconds())
    who = f", {listed([wait.queue for wait in named], NAMED)}" if named else ""
    waits = so_many(len(slots.lacking), "queue waits", "queues wait")
    return f"{waits} for a slot{who}, the longest for {age}."


def _takers(many: str, one: str, runs: Sequence[Run], known: Known) -> str:
    if not runs:
        return ""
    names = list(dict.fromkeys(run.queue for run in runs if known(run.system_id)))
    hidden = sum(not known(run.system_id) for run in runs)
    if hidden:
        names.append(so_many(hidden, "other run", "other runs"))
    return (one if len(names) == 1 and hidden < 2 else many).format(listed(names, NAMED))


def _place(run: Run) -> str:
    if run.alone is not None:
        return f"offset {run.alone} of partition {run.partition}"
    return f"partition {run.partition}, at or after offset {run.next_offset}"


def _clock(at: datetime | None) -> str:
    return "" if at is None else f"{at:%H:%M:%S} UTC"
