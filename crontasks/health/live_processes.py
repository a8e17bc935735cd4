"""Who is alive: workers, relays and beat, by the heartbeats of the last seconds."""

from datetime import timedelta
from typing import Final

from crontasks.health.hearts import ALIVE_SECONDS
from crontasks.models import Heartbeat
from integration.clock import database_now
from integration.selectors.queues.status import TAKES_NOTHING, LiveProcesses, Situation

ALIVE: Final = timedelta(seconds=ALIVE_SECONDS)
# Names of Celery queues: the runs of queues, the relay, and bulk runs.
RUNS: Final = "celery"
RELAY: Final = "relay"
SPARK: Final = "spark"
WANTED: Final = {
    RUNS: ("worker for queues", "celery -A config worker -Q celery"),
    RELAY: ("worker for the relay", "celery -A config worker -Q relay -c 1"),
}


def alive(kind: str) -> list[Heartbeat]:
    """The processes of this kind that were seen within ALIVE."""
    return list(Heartbeat.objects.filter(kind=kind, seen_at__gt=database_now() - ALIVE))


def serving(hearts: list[Heartbeat], celery_queue: str) -> list[Heartbeat]:
    """Those of them that take Celery tasks of this queue."""
    return [heart for heart in _meant_for(hearts, celery_queue) if heart.slots]


def idle(hearts: list[Heartbeat], celery_queue: str) -> list[Heartbeat]:
    """Those that should, and take none: see `crontasks.health.consumer`."""
    return [heart for heart in _meant_for(hearts, celery_queue) if not heart.slots]


def lack(hearts: list[Heartbeat], celery_queue: str) -> Situation:
    """What to say when `serving` finds none of them."""
    who, command = WANTED[celery_queue]
    found = idle(hearts, celery_queue)
    if found:
        why = f"{found[0].node} lives but takes no Celery tasks, and there is no other {who}."
        return Situation(why, TAKES_NOTHING)
    why = f"No {who} showed a heartbeat within {ALIVE_SECONDS} seconds."
    return Situation(why, f"Start one: {command}")


def slots_in_words(hearts: list[Heartbeat]) -> str:
    """Tell what the slots are for: "3 slots for queues and 1 for the relay"."""
    both = [heart for heart in serving(hearts, RUNS) if heart in serving(hearts, RELAY)]
    runs = _slots([heart for heart in serving(hearts, RUNS) if heart not in both])
    relay = _slots([heart for heart in serving(hearts, RELAY) if heart not in both])
    parts = [
        (runs, f"{runs} for queues"),
        (relay, f"{relay} for the relay"),
        (_slots(both), f"{_slots(both)} shared by queues and the relay"),
    ]
    told = [words for count, words in parts if count]
    return f"Slots: {', '.join(told)}." if told else "No slots."


def live_processes() -> LiveProcesses:
    """How many of each live, in one query."""
    hearts = list(Heartbeat.objects.filter(seen_at__gt=database_now() - ALIVE))
    workers = [heart for heart in hearts if heart.kind == Heartbeat.Kind.WORKER]
    return LiveProcesses(
        workers=len(serving(workers, RUNS)),
        relays=len(serving(workers, RELAY)),
        drivers=len(serving(workers, SPARK)),
        idle_workers=len(idle(workers, RUNS)),
        idle_relays=len(idle(workers, RELAY)),
        beats=sum(heart.kind == Heartbeat.Kind.BEAT for heart in hearts),
    )


def _meant_for(hearts: list[Heartbeat], celery_queue: str) -> list[Heartbeat]:
    return [heart for heart in hearts if celery_queue in heart.queues.split(",")]


def _slots(hearts: list[Heartbeat]) -> int:
    return sum(heart.slots for heart in hearts)
