"""What it means for a queue that nobody is alive to work on it or to send it."""

from typing import Final

from integration.selectors.queues.status import (
    NO_BEAT,
    LiveProcesses,
    Situation,
    Status,
)

Standing = tuple[Status, Situation]
# These need a person all the same, so their word stays.
DECIDED: Final = frozenset({Status.BLOCKED, Status.BRAKED})
# Only a tick of beat begins these; the workers themselves start whatever else is due.
NEED_BEAT: Final = frozenset({Status.NO_READER, Status.NOT_STARTED})


def manned(live_processes: LiveProcesses | None, found: Standing) -> Standing:
    """The same standing, or first that nobody is alive: all else was found before that."""
    status, reason = found
    lack = _lack(live_processes, status)
    if lack is None:
        return found
    if status in DECIDED:
        why = f"{lack.why} Besides, it is {status.label.lower()}: {reason.why}"
        return status, Situation(why, f"{lack.next_step} Then: {reason.next_step}")
    if status is Status.NO_READER:
        return status, Situation(f"{lack.why} {reason.why}", lack.next_step)
    if status is Status.NOT_STARTED:
        return Status.NO_READER, lack
    return Status.NO_READER, Situation(f"{lack.why} Last found: {reason.why}", lack.next_step)


def relayed(live_processes: LiveProcesses | None, stuck: Standing | None = None) -> Standing:
    """How the way of an outbound queue into Kafka stands: what is published leaves by the relay.

    `stuck` is what waits for a person, whether a relay lives or not.
    """
    if live_processes is not None and not live_processes.relays:
        if stuck is None:
            return Status.NO_SENDER, live_processes.no_relay
        why = f"{live_processes.no_relay.why} Besides: {stuck[1].why}"
        status = max(stuck[0], Status.NO_SENDER, key=_urgency)
        return status, Situation(
            why, f"{live_processes.no_relay.next_step} Then: {stuck[1].next_step}"
        )
    if stuck is not None:
        return stuck
    return Status.RUNNING, Situation("What handlers publish to it is sent by the relay.", "")


def _urgency(status: Status) -> int:
    return -status.rank


def _lack(live_processes: LiveProcesses | None, status: Status) -> Situation | None:
    if live_processes is None:
        return None
    if not live_processes.workers:
        return live_processes.no_worker
    return NO_BEAT if not live_processes.beats and status in NEED_BEAT else None
