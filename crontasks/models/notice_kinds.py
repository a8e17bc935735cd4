"""What a rule may say about each kind of notice, and what holds where no rule says anything."""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Final

from crontasks.models.notice import NoticeKind

# Their subject is the name of a schedule, which may be called like a queue.
OF_SCHEDULES: Final = frozenset({NoticeKind.CRON_FAILED, NoticeKind.CRON_LATE})
MINUTE: Final = 60
HOUR: Final = 3_600


@dataclass(frozen=True, slots=True, kw_only=True)
class KindFacts:
    """One kind: when it is noticed, in words, and its thresholds; None where it has none.

    `counts` says what is counted, and `count` from how many on; `measures` and `seconds` are the
    same of a time, `bound` on which side of it. With `counts` and without `count` nothing is
    noticed unless a rule gives a number. `window_seconds` is the time in which is counted.
    `after_seconds` is how long it has to last before people are told. Urgent ones come in quiet
    hours, too.
    """

    when: str
    is_of_queue: bool = True
    is_urgent: bool = False
    counts: str = ""
    count: int | None = None
    measures: str = ""
    seconds: int | None = None
    bound: str = "longer than"
    window_seconds: int | None = None
    after_seconds: int = 0


FACTS: Final[Mapping[NoticeKind, KindFacts]] = {
    NoticeKind.BLOCKED: KindFacts(when="a person has to decide before the queue goes on"),
    NoticeKind.BRAKED: KindFacts(when="the queue stopped reading at one of its limits"),
    NoticeKind.OUTAGE: KindFacts(
        when="what every message needs has been down for 30 seconds, or a provider is away"
    ),
    NoticeKind.WAITING: KindFacts(
        when="the next message has needed for 30 seconds what is switched off or not installed"
    ),
    NoticeKind.HOLD_BURST: KindFacts(
        when="many messages of a queue were held in a short time",
        counts="messages held",
        count=20,
        window_seconds=10 * MINUTE,
    ),
    NoticeKind.FAILURES: KindFacts(
        when="many messages of a queue failed for the first time in a short time, whatever became "
        "of them",
        counts="messages that failed",
        count=100,
        window_seconds=10 * MINUTE,
    ),
    NoticeKind.LAG: KindFacts(
        when="many messages wait for a queue; only where a rule says how many are too many",
        counts="messages waiting",
    ),
    NoticeKind.OLDEST: KindFacts(
        when="the oldest message of a queue has waited for long, although its schedule came around",
        measures="the age of the oldest that waits",
        seconds=HOUR,
    ),
    NoticeKind.EXPIRING: KindFacts(
        when="messages that nobody has tried leave Kafka soon; no sooner than in the last quarter "
        "of what the topic keeps",
        is_urgent=True,
        measures="the time that is left",
        seconds=6 * HOUR,
        bound="less than",
    ),
    NoticeKind.RESCUED: KindFacts(when="untried messages stand copied in the database"),
    NoticeKind.RESCUE_STOPPED: KindFacts(
        when="a rescue ended before all was copied that is in danger", is_urgent=True
    ),
    NoticeKind.GAP: KindFacts(when="messages expired unread, until somebody acknowledges it"),
    NoticeKind.NO_CONSUMER: KindFacts(
        when="messages wait and nothing reads the queue, although its schedule came around",
        measures="the time without a reader",
        seconds=2 * MINUTE,
    ),
    NoticeKind.HUNG: KindFacts(when="a call of the queue hangs"),
    NoticeKind.CRON_FAILED: KindFacts(
        when="the last runs of a cron task's schedule ended badly",
        counts="bad runs in a row",
        count=1,
    ),
    NoticeKind.CRON_LATE: KindFacts(
        when="a scheduled time of a cron task has passed and no run began",
        measures="the time since then",
        seconds=5 * MINUTE,
    ),
    NoticeKind.NO_WORKER: KindFacts(
        when="no worker has reported for 15 seconds", is_of_queue=False, is_urgent=True
    ),
    NoticeKind.NO_BEAT: KindFacts(
        when="no beat has reported for 15 seconds", is_of_queue=False, is_urgent=True
    ),
    NoticeKind.NO_SLOT: KindFacts(
        when="every slot is taken and a queue has waited for one for 30 seconds", is_of_queue=False
    ),
    NoticeKind.NO_RELAY: KindFacts(
        when="outgoing messages are due, and no relay is at work or Kafka does not take them",
        is_of_queue=False,
        is_urgent=True,
        measures="the time since they were due",
        seconds=MINUTE,
    ),
    NoticeKind.NO_BROKER: KindFacts(
        when="the Celery broker failed to answer twice", is_of_queue=False, is_urgent=True
    ),
    # Connections are asked every minute: what only one look met is nobody's mail.
    NoticeKind.BRANCHES: KindFacts(
        when="prepared transactions of a connection should have been over",
        is_of_queue=False,
        after_seconds=90,
    ),
    NoticeKind.COPY: KindFacts(
        when="the database names another environment; nothing is started",
        is_of_queue=False,
        is_urgent=True,
    ),
}
# A broker that restarts is nobody's mail: so long a provider has to be away.
PROVIDER_AFTER_SECONDS: Final = 30
