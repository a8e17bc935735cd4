"""The story of an outbox row: what happened, why, and what to do now; no query is made here."""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Final

from integration.models import OutboxRow, RelayLease
from integration.policy.states import OutboxKind, OutboxState
from integration.selectors.failures.account import Account, sentence_of
from integration.selectors.starting import celery

THEN: Final = "Then send it again; or give it up."
SIZE: Final = f"Raise max.message.bytes of the topic, or have it published smaller. {THEN}"
CREATE: Final = f"Create the topic, or correct the queue it was published to. {THEN}"
BY_CODE: Final[Mapping[str, str]] = {
    "MSG_SIZE_TOO_LARGE": SIZE,
    "RECORD_LIST_TOO_LARGE": SIZE,
    "INVALID_MSG_SIZE": SIZE,
    "UNKNOWN_TOPIC_OR_PART": CREATE,
    "UNKNOWN_TOPIC": CREATE,
    "UNKNOWN_TOPIC_ID": CREATE,
    "TOPIC_EXCEPTION": "The topic's name is not one that Kafka allows: give it up, correct "
    "the queue and have it published again.",
    "UNKNOWN_PARTITION": f"The topic has no such partition: add partitions to it. {THEN}",
    "TOPIC_AUTHORIZATION_FAILED": f"Give our user the right to write to the topic. {THEN}",
    "POLICY_VIOLATION": f"Ask who runs the cluster which of its rules this breaks. {THEN}",
    "UNSENDABLE": "No record can be made of it, whatever is changed in Kafka: give it up, "
    "and have it published again in another form.",
}
OTHERWISE: Final = f"Remove the cause. {THEN}"
NAMES: Final[Mapping[str, str]] = {
    OutboxKind.MESSAGE: "This message",
    OutboxKind.RETRY_MARKER: "This marker of a due retry",
    OutboxKind.COPY: "This copy of a held message for the error queue",
}


@dataclass(frozen=True, slots=True)
class Place:
    """The things a row waits for: its strict queue, the dead row at its head, who relays."""

    queue: str = ""
    head: int | None = None
    lease: RelayLease | None = None
    is_later: bool = False

    @property
    def in_doubt(self) -> bool:
        return self.lease is not None and self.lease.in_doubt_since is not None

    @property
    def is_relayed(self) -> bool:
        return bool(getattr(self.lease, "is_held", False))


def account(row: OutboxRow, place: Place) -> Account:
    """The story of one row."""
    match OutboxState(row.state):
        case OutboxState.DEAD:
            return _dead(row, place)
        case OutboxState.STAMPED:
            return _stamped(place)
        case OutboxState.PENDING:
            return _pending(row, place)
        case OutboxState.PUBLISHED:
            return Account("It is in Kafka, once.", "Nothing: it is done.")
        case OutboxState.CANCELLED:
            what = "It is not sent: a person gave it up, or nobody needs it any more."
            return Account(what, "Nothing; cleanup removes it.")


def _dead(row: OutboxRow, place: Place) -> Account:
    reason = row.dead_text.strip() or row.dead_code
    what = f"{NAMES[row.kind]} was refused by Kafka, alone: {sentence_of(reason)}"
    if row.kind == OutboxKind.RETRY_MARKER:
        now = "Give it up: the failure's own row has carried the retry since; nothing is lost."
        return Account(what, now)
    now = BY_CODE.get(row.dead_code, OTHERWISE)
    if row.kind == OutboxKind.COPY:
        what += " The failure itself is kept in the error table."
    if place.queue:
        what += f" The queue {place.queue} keeps its order, so whatever follows waits."
        now += " Given up, the ones behind it continue without it."
    return Account(what, now)


def _stamped(place: Place) -> Account:
    if place.in_doubt:
        what = "It is in the batch of which nobody knows whether it is in Kafka."
        return Account(what, "Decide about the batch as a whole.")
    if place.is_relayed:
        return Account("The relay is sending it at this moment.", "Nothing.")
    what = "The relay ended while it was sending this; the next one finds out from Kafka."
    return Account(what, _start_one())


def _pending(row: OutboxRow, place: Place) -> Account:
    if place.head is not None:
        what = f"It waits behind row {place.head}, which Kafka refused: {place.queue} keeps order."
        return Account(what, f"Decide about row {place.head}; this one then goes by itself.")
    if place.in_doubt:
        what = f"The relay of {row.provider.name} is in doubt about its last batch; all wait."
        return Account(what, "Decide about that batch; this one then goes by itself.")
    if place.is_later:
        return Account("It waits for its time.", "Nothing: it is sent when it is due.")
    if place.is_relayed:
        return Account("The relay is at work; it sends in the order of the ids.", "Nothing.")
    return Account(f"Nobody relays what goes to {row.provider.name}.", _start_one())


def _start_one() -> str:
    command = celery("worker -Q relay -P solo -c 1")
    return f"Nothing, if a relay worker is running; else start one: `{command}`."
