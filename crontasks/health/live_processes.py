"""The processes that live: workers, relays, drivers and beat, by their latest heartbeats.

And how many bulk runs wait for a driver.
"""

from datetime import timedelta
from typing import Final, NamedTuple

from crontasks.health.checks import Finding
from crontasks.hearts import ALIVE_SECONDS
from crontasks.models import Heartbeat
from integration.counting import so_many
from integration.selectors.queues.status import (
    IDLE_RELAY,
    IDLE_WORKER,
    NO_BEAT,
    NO_DRIVER,
    NO_RELAY,
    NO_WORKER,
    LiveProcesses,
    Situation,
)
from integration.store.sessions import database_now, fetch_all

ALIVE: Final = timedelta(seconds=ALIVE_SECONDS)
# Names of Celery queues: the runs of queues, the relay, and bulk runs.
RUNS: Final = "celery"
RELAY: Final = "relay"
SPARK: Final = "spark"
# Where nobody takes their tasks, and where only idle ones are there.
_LACKS: Final = {RUNS: (NO_WORKER, IDLE_WORKER), RELAY: (NO_RELAY, IDLE_RELAY)}
MOST_SKEW_SECONDS: Final = 2.0
_OPEN_RUNS: Final = """
    SELECT count(*) FILTER (WHERE state = 'ASKED'), count(*) FILTER (WHERE state = 'RUNNING'),
           coalesce(extract(epoch FROM clock_timestamp()
               - min(asked_at) FILTER (WHERE state = 'ASKED')), 0)::float
    FROM integration_bulkrun
    WHERE state IN ('ASKED', 'RUNNING') AND (state = 'RUNNING' OR lease_until IS NULL
        OR lease_until < clock_timestamp())"""


class OpenRuns(NamedTuple):
    """Bulk runs that have not ended. What a command has just asked for itself does not wait."""

    waiting: int
    running: int
    oldest_seconds: float


def open_runs() -> OpenRuns:
    """Counted in one statement. Raises DatabaseError."""
    return OpenRuns(*fetch_all(_OPEN_RUNS)[0])


def alive(*kinds: str) -> list[Heartbeat]:
    """The processes of these kinds that were seen within ALIVE, in one query."""
    return list(Heartbeat.objects.filter(kind__in=kinds, seen_at__gt=database_now() - ALIVE))


def serving(hearts: list[Heartbeat], celery_queue: str) -> list[Heartbeat]:
    """Those of them that take Celery tasks of this queue."""
    return [heart for heart in _meant_for(hearts, celery_queue) if heart.slots]


def live_processes() -> LiveProcesses:
    """Count those of each kind that live, in one query."""
    hearts = alive("worker", "beat")
    workers = [heart for heart in hearts if heart.kind == Heartbeat.Kind.WORKER]
    return LiveProcesses(
        workers=len(serving(workers, RUNS)),
        relays=len(serving(workers, RELAY)),
        drivers=len(serving(workers, SPARK)),
        beats=len(hearts) - len(workers),
        no_worker=_lack(workers, RUNS),
        no_relay=_lack(workers, RELAY),
    )


def worker() -> Finding:
    """Check that a worker takes the runs of queues, its clock is right, and a dispatcher leads."""
    hearts = alive("worker")
    serves = serving(hearts, RUNS)
    if not serves:
        return _lacking(hearts, RUNS)
    skewed = [heart for heart in serves if abs(heart.clock_skew_seconds) > MOST_SKEW_SECONDS]
    if skewed:
        why = f"The clock of {skewed[0].node} is {skewed[0].clock_skew_seconds:+.1f} s off."
        return Situation(why, "Set the host's clock; Celery drops what seems expired.")
    if not any(heart.leads for heart in hearts):
        why = f"{len(serves)} worker(s) are alive, but no dispatcher leads."
        return Situation(why, "Wait five seconds; if it stays so, restart a worker.")
    return f"{len(serves)} alive for queues. {_slots_in_words(serves)}"


def relay() -> Finding:
    hearts = alive("worker")
    serves = serving(hearts, RELAY)
    if not serves:
        return _lacking(hearts, RELAY)
    return f"{len(serves)} alive for the relay. {_slots_in_words(serves)}"


def beat() -> Finding:
    hearts = alive("beat")
    if not hearts:
        return NO_BEAT
    leader = next((heart for heart in hearts if heart.leads), None)
    if leader is None:
        why = f"{len(hearts)} beat(s) are alive, but none leads."
        return Situation(why, "Wait five seconds; if it stays so, restart beat.")
    return f"{leader.node} leads."


def spark() -> Finding:
    """Bulk runs alone need a driver: without one nothing is wrong until one of them waits."""
    serves = serving(alive("worker"), SPARK)
    if serves:
        return f"{len(serves)} alive for bulk runs."
    waiting = open_runs().waiting
    if not waiting:
        return "No Spark driver is alive, and no bulk run waits for one."
    waits = so_many(waiting, "bulk run waits", "bulk runs wait")
    return Situation(f"{waits} and no Spark driver is alive.", NO_DRIVER.next_step)


def _lacking(hearts: list[Heartbeat], celery_queue: str) -> Situation:
    lack, idle = _lack(hearts, celery_queue), _idle(hearts, celery_queue)
    who = f" Idle: {', '.join(heart.node for heart in idle)}." if idle else ""
    return Situation(f"{lack.why}{who}", lack.next_step)


def _lack(hearts: list[Heartbeat], celery_queue: str) -> Situation:
    nobody, idle = _LACKS[celery_queue]
    return idle if _idle(hearts, celery_queue) else nobody


def _idle(hearts: list[Heartbeat], celery_queue: str) -> list[Heartbeat]:
    return [heart for heart in _meant_for(hearts, celery_queue) if not heart.slots]


def _meant_for(hearts: list[Heartbeat], celery_queue: str) -> list[Heartbeat]:
    return [heart for heart in hearts if celery_queue in heart.queues.split(",")]


def _slots_in_words(hearts: list[Heartbeat]) -> str:
    """Tell what the slots are for: "3 slots for queues and 1 for the relay"."""
    runs, relays = serving(hearts, RUNS), serving(hearts, RELAY)
    parts = [
        (_slots([heart for heart in runs if heart not in relays]), "for queues"),
        (_slots([heart for heart in relays if heart not in runs]), "for the relay"),
        (_slots([heart for heart in runs if heart in relays]), "shared by queues and the relay"),
    ]
    named = [f"{count} {purpose}" for count, purpose in parts if count]
    return f"Slots: {', '.join(named)}." if named else "No slots."


def _slots(hearts: list[Heartbeat]) -> int:
    return sum(heart.slots for heart in hearts)
