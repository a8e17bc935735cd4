"""One partition as people see it, and the sentences about what holds it up and waits in it."""

import shlex
from dataclasses import dataclass
from datetime import datetime
from typing import Final
from uuid import UUID

from integration.counting import so_many
from integration.kafka import grants
from integration.models import Queue, QueuePartition
from integration.policy.states import PartitionState
from integration.selectors.queues.status import Situation, Status, situation
from integration.store.stable_ends import CODES, TRANSACTION_HANGS

TOPIC_GONE: Final = "TOPIC_GONE"
# States that end by themselves at `resume_at`, if a worker lives.
TIMED: Final = frozenset({Status.OUTAGE, Status.BACKOFF})
# What a JMS broker calls otherwise, or has no word for.
NO_ADDRESS: Final = Situation(
    "The JMS broker does not know the address {topic}.",
    "Have it made at the broker, then continue here; or pause the queue.",
)
NOT_TOLD: Final = Situation(
    "It is read whenever a run of the queue begins. How much waits is counted once a minute, where "
    "the broker lets us look."
)
AT_STOP: Final = Situation(
    "It stands where it was told to stop; the queue is paused once every partition that was told "
    "to has come to its stop.",
    "Nothing yet; cancel the stop to let it continue.",
)


@dataclass(frozen=True, slots=True, kw_only=True)
class PartitionRow:
    """One partition as people see it. `lag` counts messages as the broker said last.

    More may wait than were counted where it `is_least`.
    The position may be newer than that: the end is never shown below it, and where nothing waits
    nothing is the oldest. `stop_at` is where a person wants it to stop, by the decision numbered
    `stop_request`. It `is_early` as long as producers may not know of a partition that was added.
    """

    number: int
    status: Status
    situation: Situation
    code: str
    state_text: str
    since: datetime | None
    resume_at: datetime | None
    failure: UUID | None
    next_offset: int
    high_watermark: int | None
    lag: int | None
    is_least: bool
    oldest_waiting_at: datetime | None
    seen_at: datetime | None
    owner: str
    is_owned: bool
    stop_at: int | None = None
    stop_request: int | None = None
    rescued_to: int | None = None
    rescue_code: str = ""
    rescue_text: str = ""
    is_early: bool = False

    @property
    def may_have_rescued(self) -> bool:
        """Return whether anything of it was ever rescued, or would have been."""
        return self.rescued_to is not None or bool(self.rescue_code)

    @property
    def is_at_stop(self) -> bool:
        """Return whether it has come to where a person wants it to stop."""
        return self.stop_at is not None and self.next_offset >= self.stop_at


def partition_row(queue: Queue, partition: QueuePartition) -> PartitionRow:
    lease = getattr(partition, "lease", None)
    is_owned: bool = getattr(partition, "is_owned", False)
    status, code = Status[partition.state], partition.state_code
    reason = situation_of(queue, partition)
    if status is Status.RUNNING:
        code = noted_transaction(partition)
        if _is_at_stop(partition):
            status, reason, code = _at_stop(queue)
        elif is_held_back(partition):
            status = Status.OUTAGE
        elif not code:
            is_jms = queue.provider.is_jms
            status, reason = _running(partition, is_owned=is_owned, is_jms=is_jms)
    elif status in TIMED and not is_owned and getattr(partition, "is_overdue", False):
        status, reason = Status.NO_READER, _overdue(reason)
    return PartitionRow(
        number=partition.partition,
        status=status,
        situation=reason,
        code=code,
        state_text=partition.state_text,
        since=partition.state_since,
        resume_at=partition.resume_at,
        failure=partition.state_error,
        next_offset=partition.next_offset,
        high_watermark=_end(partition),
        lag=partition.lag,
        is_least=partition.more_waiting and partition.lag is not None,
        oldest_waiting_at=None if partition.lag == 0 else partition.oldest_waiting_at,
        seen_at=partition.seen_at,
        owner=lease.owner if lease is not None and is_owned else "",
        is_owned=is_owned,
        stop_at=partition.stop_at,
        stop_request=partition.stop_request,
        rescued_to=partition.rescued_to,
        rescue_code=partition.rescue_code,
        rescue_text=partition.rescue_text,
        is_early=getattr(partition, "is_early", False),
    )


def situation_of(queue: Queue, partition: QueuePartition) -> Situation:
    """Tell what the engine found there, with the commands that end a transaction which hangs.

    The client library does not ask for producers and transactions; Kafka's own tool does.
    """
    if queue.provider.is_jms and partition.state_code == TOPIC_GONE:
        return Situation(NO_ADDRESS.why.replace("{topic}", queue.topic), NO_ADDRESS.next_step)
    reason = situation(
        PartitionState(partition.state),
        partition.state_code,
        partition.state_text,
        topic=queue.topic,
        limit=queue.max_open_errors,
        in_order=queue.is_sequential,
    )
    if not is_held_back(partition):
        return reason
    begin = grants.as_administrator(queue.provider, "kafka-transactions.sh")
    place = ["--topic", queue.topic, "--partition", str(partition.partition)]
    start = ["--start-offset", str(partition.next_offset)]
    producers = shlex.join([*begin, "describe-producers", *place])
    ids = shlex.join([*begin, "list"])
    abort = shlex.join([*begin, "abort", *place, *start])
    step = (
        f"See whose it is: `{producers}` shows the producer id and `{ids}` its transactional id. "
        "Start that application again: that ends the transaction. Where it will not come back: "
        f"`{abort}`; what it wrote in the transaction is then never read."
    )
    return Situation(reason.why, step)


def noted_transaction(partition: QueuePartition) -> str:
    """The code of the open transaction at which the position stands; empty when there is none.

    As soon as the position or the topic's stable end moves, what was noted counts no more.
    """
    if partition.state != PartitionState.RUNNING or partition.state_code not in CODES:
        return ""
    return partition.state_code if partition.next_offset == partition.high_watermark else ""


def is_held_back(partition: QueuePartition) -> bool:
    """Return whether such a transaction has lasted longer than the lag monitor waits to tell."""
    return noted_transaction(partition) == TRANSACTION_HANGS


def _at_stop(queue: Queue) -> tuple[Status, Situation, str]:
    if queue.paused:
        return Status.PAUSED, Situation("It stands where it was told to stop."), ""
    return Status.WAITING, AT_STOP, ""


def _is_at_stop(partition: QueuePartition) -> bool:
    return partition.stop_at is not None and partition.next_offset >= partition.stop_at


def _end(partition: QueuePartition) -> int | None:
    """Return where the partition ends at least: the broker's last word, or the position after."""
    if partition.high_watermark is None:
        return None
    return max(partition.high_watermark, partition.next_offset)


def _running(
    partition: QueuePartition, *, is_owned: bool, is_jms: bool
) -> tuple[Status, Situation]:
    lag = partition.lag
    if not is_owned and lag != 0 and getattr(partition, "is_unread", False):
        return Status.NO_READER, unread(lag or 0, is_least=partition.more_waiting)
    if lag is None and is_jms:
        return Status.RUNNING, NOT_TOLD
    if lag is None:
        why = "The lag monitor has not looked yet, so it is not known what waits."
        return Status.RUNNING, Situation(why, "")
    return Status.RUNNING, up_to_date(lag, is_jms=is_jms, is_least=partition.more_waiting)


def _overdue(reason: Situation) -> Situation:
    why = f"Its next try is minutes overdue, and no worker has made it. Last found: {reason.why}"
    return Situation(why, "Check the flow: it names the broken link.")


def unread(lag: int, *, is_least: bool = False) -> Situation:
    waiting = _messages(lag, is_least=is_least) if lag else "Messages may wait"
    why = f"{waiting}, and no worker has taken one for minutes."
    return Situation(why, "Check the flow: it names the broken link.")


def up_to_date(lag: int, *, is_jms: bool = False, is_least: bool = False) -> Situation:
    """Say what waits in the topic alone: what was put on hold left it, and waits for a person."""
    if not lag:
        return Situation(f"Nothing waits {'at the broker' if is_jms else 'in the topic'}.", "")
    is_one = lag == 1 and not is_least
    turn = "its" if is_one else "their"
    return Situation(f"{_messages(lag, is_least=is_least)} for {turn} turn.", "")


def _messages(count: int, *, is_least: bool) -> str:
    if count == 1 and not is_least:
        return "One message waits"
    least = "At least " if is_least else ""
    return f"{least}{so_many(count, 'message waits', 'messages wait')}"
