"""Problems of single queues: blocked, stopped, left alone, about to lose messages. Pure."""

from collections.abc import Iterator
from dataclasses import replace
from datetime import timedelta
from typing import Final

from crontasks.health import slot_words
from crontasks.health.slots import Run, Stage
from crontasks.problems.facts import Facts, Problem, Way, counted, is_of_provider, is_wanted
from integration.durations import rough, spoken
from integration.selectors.queues.heads import behind, blocked_for, is_blocked_by_head
from integration.selectors.queues.rescued import stopped_as
from integration.selectors.queues.rows import QueueRow
from integration.selectors.queues.status import Situation, Status
from integration.store.stable_ends import TRANSACTION_HANGS

# What waits and expires sooner than this is a problem, whatever holds the queue up.
SOON: Final = timedelta(hours=6)
# Of a topic that keeps its messages only briefly, the last quarter of that time.
SOON_SHARE: Final = 0.25
# Named once for the endpoint, however many queues send to it.
ENDPOINT_CODES: Final = frozenset({"ENDPOINT_DOWN", "ENDPOINT_PAUSED"})
FIRST_RUN: Final = timedelta(minutes=1)


def blocked(facts: Facts) -> Iterator[Problem]:
    for row in facts.rows:
        if row.standing[0] is not Status.BLOCKED or not is_wanted(row):
            continue
        what = f"{row.name} is blocked"
        head = facts.heads.get(row.failure) if row.failure and is_blocked_by_head(row) else None
        if head is None:
            yield _of_queue(row, 21, what, Way.OUTBOX if row.is_stuck else Way.QUEUE)
            continue
        why = f"{blocked_for(row, head, facts.now)} {behind(row, facts.now)}"
        way, subject = (Way.FAILURE, str(head.id)) if head.is_held else (Way.QUEUE, row.name)
        situation = Situation(why, head.decision or row.standing[1].next_step)
        yield Problem(what, situation, way, rank=20, subject=subject)


def expiring(facts: Facts) -> Iterator[Problem]:
    """Messages nobody has tried yet that leave Kafka soon, whatever holds them up."""
    for row in facts.rows:
        if row.expires_at is None or not row.lag or row.status is Status.OFF:
            continue
        left = row.expires_at - facts.now
        if left > min(SOON, row.retention * SOON_SHARE):
            continue
        is_over = left <= timedelta()
        when = "may leave Kafka at any moment" if is_over else f"leaves Kafka in {spoken(left)}"
        situation = Situation(
            f"{counted(row.lag, 'message waits', 'messages wait')} and the first {when}: "
            f"{row.topic} keeps its messages for {rough(row.retention.total_seconds())}.",
            f"Get the queue going now, or lengthen retention.ms of {row.topic} first.",
        )
        what = f"{row.name} is about to lose messages"
        yield Problem(what, situation, Way.QUEUE, rank=15, subject=row.name)


def stopped_rescues(facts: Facts) -> Iterator[Problem]:
    """Messages that would be copied before they expire, if there were room or a topic to read."""
    for row in facts.rows:
        stopped = next((part for part in row.partitions if part.rescue_code), None)
        if stopped is not None:
            what = f"The rescue of {row.name} stopped"
            situation = stopped_as(stopped.rescue_code, stopped.rescue_text)
            yield Problem(what, situation, Way.QUEUE, rank=15, subject=row.name)


def hanging(facts: Facts) -> Iterator[Problem]:
    """Yield one for each queue whose call hangs or hung, until its message is through."""
    if facts.slots is None:
        return
    ids = {row.id for row in facts.rows}
    worst: dict[int, Run] = {}
    for run in facts.slots.runs:
        is_ours = run.queue_id in ids and run.stage is not Stage.WORKS
        if is_ours and (run.queue_id not in worst or run.stage is Stage.HANGS):
            worst[run.queue_id] = run
    for run in worst.values():
        hangs = run.stage is Stage.HANGS
        yield Problem(
            f"A call of {run.queue} {'hangs' if hangs else 'hung'}",
            slot_words.of_run(run, facts.slots.now),
            Way.QUEUE,
            rank=16 if hangs else 46,
            subject=run.queue,
            is_grave=hangs,
        )


def unknown(facts: Facts) -> Iterator[Problem]:
    """Messages that may have arrived at an endpoint, or not."""
    for row in facts.rows:
        count = facts.unknown.get(row.id, 0)
        if count:
            them = "it is" if count == 1 else "they are"
            situation = Situation(
                f"The call broke off, so nobody knows whether {them} in the partner's system.",
                "Open the queue: look there for the message id, then say which it is.",
            )
            what = f"{counted(count, 'message', 'messages')} of {row.name} may have arrived"
            yield Problem(what, situation, Way.QUEUE, rank=22, subject=row.name)


def standstill(facts: Facts) -> Iterator[Problem]:
    """Queues that stand still for a reason of their own."""
    for row in facts.rows:
        status = row.standing[0]
        if not is_wanted(row):
            continue
        if status is Status.BRAKED:
            yield _of_queue(row, 30, f"{row.name} is stopped at its failure threshold")
        elif status is Status.OUTAGE and not _is_told_elsewhere(row):
            yield _of_queue(row, 32, _outage_of(row))
        elif status is Status.WAITING and not _is_explained(row, facts):
            yield _at_service(_of_queue(row, 33, f"{row.name} {_waits_for(row)}"), row, facts)
        elif left_alone := _left_alone(row, facts):
            yield left_alone
        elif row.is_stuck and status is Status.RUNNING:
            yield _of_queue(row, 50, f"Kafka refused messages of {row.name}", Way.OUTBOX)


def _at_service(problem: Problem, row: QueueRow, facts: Facts) -> Problem:
    """Point to the service: what no handler takes is switched off there."""
    service = facts.unhandled.get(row.id)
    if service is None:
        return problem
    return replace(problem, way=Way.SERVICE, number=service.number)


def _is_told_elsewhere(row: QueueRow) -> bool:
    """Return whether a provider or an endpoint is the problem, for all its queues together."""
    return any(map(is_of_provider, row.codes)) or bool(row.codes & ENDPOINT_CODES)


def _outage_of(row: QueueRow) -> str:
    if TRANSACTION_HANGS in row.codes:
        return f"An open transaction holds back {row.name}"
    if any(code.startswith("JMS_") for code in row.codes):
        return f"The JMS broker lets {row.name} read nothing"
    return f"{row.name} waits for an outage to end"


def _waits_for(row: QueueRow) -> str:
    if "HANDLER_MISSING" in row.codes:
        return "waits for a handler"
    if "KEYS_MOVED" in row.codes:
        return "waits with a partition that was added"
    return "waits for what is switched off"


def _is_explained(row: QueueRow, facts: Facts) -> bool:
    """Return whether another problem, of a system, service or endpoint, says why it waits."""
    if "ENDPOINT_DISABLED" in row.codes:
        return True
    by_service = {name for taker in facts.services_off for name in taker.queues}
    is_by_service = "SERVICE_DISABLED" in row.codes and row.name in by_service
    return row.is_system_off or is_by_service


def _left_alone(row: QueueRow, facts: Facts) -> Problem | None:
    if row.id in facts.hindered:
        why = Situation(facts.hindered[row.id], row.standing[1].next_step)
        return replace(_of_queue(row, 31, f"{row.name} cannot begin"), situation=why)
    if _is_left_alone(row, facts):
        return _of_queue(row, 31, f"Nobody reads {row.name}")
    return None


def _is_left_alone(row: QueueRow, facts: Facts) -> bool:
    """Nobody reads it although everybody lives who should: what is down is named by itself."""
    if row.standing[0] is Status.NO_READER:
        return bool(facts.live_processes.workers)
    # A queue that was just saved gets its first run within seconds.
    is_overdue = row.standing[0] is Status.NOT_STARTED and facts.now - row.changed_at > FIRST_RUN
    return is_overdue and bool(facts.live_processes.workers and facts.live_processes.beats)


def _of_queue(row: QueueRow, rank: int, what: str, way: Way = Way.QUEUE) -> Problem:
    return Problem(what, row.standing[1], way, rank=rank, subject=row.name, is_grave=rank < 50)
