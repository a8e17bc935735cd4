"""What people are told about without asking."""

from collections.abc import Mapping
from enum import StrEnum
from typing import Final

# A notice about a provider has this and its name as subject; queues' names have no blanks.
PROVIDER: Final = "provider "


class NoticeKind(StrEnum):
    """A condition worth a mail."""

    BLOCKED = "BLOCKED"  # a person must act before a queue goes on
    BRAKED = "BRAKED"  # a queue stopped reading by itself
    OUTAGE = "OUTAGE"  # something a queue needs is down
    WAITING = "WAITING"  # something a queue needs is switched off or not installed
    HOLD_BURST = "HOLD_BURST"  # many messages were held in a short time
    EXPIRING = "EXPIRING"  # messages that nobody has tried yet are about to expire
    GAP = "GAP"  # messages expired before they were read
    NO_CONSUMER = "NO_CONSUMER"  # messages wait and nothing reads them
    NO_WORKER = "NO_WORKER"  # no worker's heart beats
    NO_BEAT = "NO_BEAT"  # beat's heart does not beat
    HUNG = "HUNG"  # a call hangs, or is tried again after it did
    NO_SLOT = "NO_SLOT"  # every worker slot is taken and a queue waits for one
    NO_RELAY = "NO_RELAY"  # outgoing messages are due and nothing sends them
    NO_BROKER = "NO_BROKER"  # the broker of Celery does not answer: nothing new is started
    COPY = "COPY"  # the database names another environment: nothing may act


TITLES: Final[Mapping[NoticeKind, str]] = {
    NoticeKind.BLOCKED: "Queue blocked",
    NoticeKind.BRAKED: "Queue braked",
    NoticeKind.OUTAGE: "Queue waits for an outage to end",
    NoticeKind.WAITING: "Queue waits for something switched off",
    NoticeKind.HOLD_BURST: "Many messages held",
    NoticeKind.EXPIRING: "Messages are about to expire unread",
    NoticeKind.GAP: "Messages expired unread",
    NoticeKind.NO_CONSUMER: "Nothing consumes the queue",
    NoticeKind.NO_WORKER: "No worker is alive",
    NoticeKind.NO_BEAT: "Beat is not alive",
    NoticeKind.HUNG: "A call hangs",
    NoticeKind.NO_SLOT: "All worker slots are taken",
    NoticeKind.NO_RELAY: "Outgoing messages are not sent",
    NoticeKind.NO_BROKER: "The Celery broker does not answer",
    NoticeKind.COPY: "This database belongs to another environment",
}
