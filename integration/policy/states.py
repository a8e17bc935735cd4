"""Every state a message, a partition or an outgoing row can be in, and the moves between them.

These enums are the only lists. A test compares them with the database's CHECK constraints, with
the models' choices and with the drawings of docs/states.md; of a partition's drawing only which
states there are.
"""

from collections.abc import Collection, Mapping
from enum import StrEnum
from typing import Final


class ErrorState(StrEnum):
    """The state of a row of the error table."""

    RETRY = "RETRY"  # the engine will try again by itself
    HOLD = "HOLD"  # waits for a person
    READY = "READY"  # released by a person, not yet tried
    PARKED = "PARKED"  # behind an earlier message of its key, which is open: its turn comes
    PROCESSING = "PROCESSING"  # a crash suspect's committed marker, never an ordinary attempt
    RESOLVED = "RESOLVED"  # ended well (applied, superseded or a duplicate)
    DELETED = "DELETED"  # a person decided that it is not to be applied


OPEN: Final = frozenset(
    {
        ErrorState.RETRY,
        ErrorState.HOLD,
        ErrorState.READY,
        ErrorState.PARKED,
        ErrorState.PROCESSING,
    }
)
CLOSED: Final = frozenset({ErrorState.RESOLVED, ErrorState.DELETED})
# States of the rows that the engine tries next.
DUE: Final = frozenset({ErrorState.RETRY, ErrorState.READY})


def in_order(states: Collection[ErrorState]) -> list[str]:
    """Their values in the order of the enum, as constraints and indexes list them."""
    return [state.value for state in ErrorState if state in states]


def listed(states: Collection[ErrorState]) -> str:
    """The same for statements.

    >>> listed(CLOSED)
    "('RESOLVED', 'DELETED')"
    """
    return f"({', '.join(map(repr, in_order(states)))})"


# For `state IN …`.
OPEN_SQL: Final = listed(OPEN)
CLOSED_SQL: Final = listed(CLOSED)
DUE_SQL: Final = listed(DUE)

# "Closed stays closed" has exceptions. To RETRY, HOLD and PARKED by the engine: a rewind that
# meets a failing offset with a closed row reopens that row. DELETED -> HOLD by a person.
# RESOLVED -> READY by a replay, which gives the message back to the engine.
TRANSITIONS: Final[Mapping[ErrorState, frozenset[ErrorState]]] = {
    ErrorState.RETRY: frozenset(
        {
            ErrorState.RESOLVED,
            ErrorState.RETRY,
            ErrorState.HOLD,
            ErrorState.PARKED,
            ErrorState.DELETED,
            ErrorState.PROCESSING,
        }
    ),
    ErrorState.HOLD: frozenset({ErrorState.READY, ErrorState.DELETED, ErrorState.RESOLVED}),
    ErrorState.READY: frozenset(
        {
            ErrorState.RESOLVED,
            ErrorState.RETRY,
            ErrorState.HOLD,
            ErrorState.PARKED,
            ErrorState.DELETED,
            ErrorState.PROCESSING,
        }
    ),
    # To RETRY when nothing of its key is open before it any more; tried behind a due one of its
    # key it may end as any other.
    ErrorState.PARKED: frozenset(
        {ErrorState.RETRY, ErrorState.RESOLVED, ErrorState.HOLD, ErrorState.DELETED}
    ),
    ErrorState.PROCESSING: frozenset(
        {
            ErrorState.RESOLVED,
            ErrorState.RETRY,
            ErrorState.HOLD,
            ErrorState.READY,
            ErrorState.PARKED,
        }
    ),
    ErrorState.RESOLVED: frozenset(
        {ErrorState.RETRY, ErrorState.HOLD, ErrorState.READY, ErrorState.PARKED}
    ),
    ErrorState.DELETED: frozenset({ErrorState.HOLD, ErrorState.RETRY, ErrorState.PARKED}),
}


def may_move(old: ErrorState, new: ErrorState) -> bool:
    """Return whether an error row may go from `old` to `new`."""
    return new in TRANSITIONS[old]


class PartitionState(StrEnum):
    """The engine's finding on a partition; what people want is on the queue."""

    RUNNING = "RUNNING"  # nothing stands in the way
    BACKOFF = "BACKOFF"  # the head waits for its next try, until resume_at
    BLOCKED = "BLOCKED"  # a person must act: a held head, a gap, another topic
    BRAKED = "BRAKED"  # too many failures: Kafka is not read, released rows still run
    OUTAGE = "OUTAGE"  # something everybody needs is down: a probe at resume_at
    WAITING = "WAITING"  # a service, system or handler is switched off or missing


# How the codes of an outage begin whose cause is the broker that is read from.
BROKER_DOWN: Final = ("KAFKA_", "JMS_")


class OutboxState(StrEnum):
    """The state of an outgoing row."""

    PENDING = "PENDING"  # written with the business transaction, not yet taken
    STAMPED = "STAMPED"  # in the relay's current batch
    PUBLISHED = "PUBLISHED"  # in Kafka, once
    DEAD = "DEAD"  # Kafka refuses it for good; a person decides
    CANCELLED = "CANCELLED"  # given up by a person, or a retry marker that is not needed any more


class OutboxKind(StrEnum):
    """The contents of an outgoing row."""

    MESSAGE = "MESSAGE"  # written by publish()
    RETRY_MARKER = "TICKET"  # a marker that a retry is due; never a payload
    COPY = "MIRROR"  # the copy of a held message for the error queue


class DeliveryState(StrEnum):
    """The state of one try to deliver to an endpoint."""

    SENDING = "SENDING"  # committed before the call; after a crash: it may have happened
    DELIVERED = "DELIVERED"  # the endpoint took it, or a person says so
    FAILED = "FAILED"  # the endpoint did not take it
    UNKNOWN = "UNKNOWN"  # it may have arrived: a person decides, or it is sent again


class CircuitState(StrEnum):
    """The state of an endpoint's circuit."""

    CLOSED = "CLOSED"  # messages flow
    OPEN = "OPEN"  # it is down: nothing is sent until resume_at
    HALF_OPEN = "HALF_OPEN"  # one message is on its way to find out


class OperationState(StrEnum):
    """The state of an operation over many failures."""

    PLANNED = "PLANNED"  # its messages are chosen and frozen; nobody has started it yet
    RUNNING = "RUNNING"  # a worker goes through its messages, or will within a second
    PAUSED = "PAUSED"  # waits for a person: what is done stays done
    DONE = "DONE"  # every message had its turn
    CANCELLED = "CANCELLED"  # a person ended it: what is done stays done, the rest is untouched


class BulkState(StrEnum):
    """The state of a run of a bulk job."""

    ASKED = "ASKED"  # waits for the Spark driver
    RUNNING = "RUNNING"  # a driver has it
    DONE = "DONE"  # all of it counts
    FAILED = "FAILED"  # its problem tells why, and what to do
    CANCELLED = "CANCELLED"  # a person ended it

    @property
    def label(self) -> str:
        return "Waits for the Spark driver" if self is BulkState.ASKED else self.capitalize()


BULK_MOVES: Final[Mapping[BulkState, frozenset[BulkState]]] = {
    BulkState.ASKED: frozenset({BulkState.RUNNING, BulkState.CANCELLED}),
    BulkState.RUNNING: frozenset(
        {
            BulkState.RUNNING,
            BulkState.DONE,
            BulkState.FAILED,
            BulkState.CANCELLED,
            BulkState.ASKED,
        }
    ),
    BulkState.DONE: frozenset(),
    BulkState.FAILED: frozenset({BulkState.ASKED}),
    BulkState.CANCELLED: frozenset({BulkState.ASKED}),
}


class Ended(StrEnum):
    """The ending of an attempt on one message; stored with tracking and attempts."""

    APPLIED = "APPLIED"  # its effects are in this commit
    DELIVERED = "DELIVERED"  # its endpoint took it
    SUPERSEDED = "SUPERSEDED"  # its key already has newer data; nothing was written
    DUPLICATE = "DUPLICATE"  # same id, same content as one already seen
    STALE = "STALE"  # a retry marker whose row has moved on; nothing to do
    PASSED = "PASSED"  # not ours to apply: a foreign retry marker, a copy without a row
    RETRY = "RETRY"  # failed, will be tried again
    HOLD = "HOLD"  # failed, waits for a person
    PARKED = "PARKED"  # not tried: an earlier message of its key is open
    DELETED = "DELETED"  # passed over because a person deleted it
    RETURNED = "RETURNED"  # a dead letter that was sent back to the topic it came from
    REFUSED = "REFUSED"  # run at once for its sender, failed, and the sender was told
    EXPIRED = "EXPIRED"  # gone from Kafka before it could be applied


class BranchState(StrEnum):
    """Where a branch of a transaction over several resources stands in the log of transactions."""

    STARTED = "STARTED"  # the application has ended it: its messages are in the side topic
    PREPARED = "PREPARED"  # it can be committed, whatever happens meanwhile
    DELIVERING = "DELIVERING"  # in a log in the database alone: a transaction of Kafka has begun
    COMMITTED = "COMMITTED"  # by a person, until its coordinator has heard of it
    ROLLED_BACK = "ROLLED_BACK"  # by a person, until its coordinator has heard of it


# One that is over is in no log. From DELIVERING back to where it was: that transaction of Kafka
# was not committed. A log in a topic has the same moves without DELIVERING.
BRANCH_MOVES: Final[Mapping[BranchState, frozenset[BranchState]]] = {
    BranchState.STARTED: frozenset({BranchState.PREPARED, BranchState.DELIVERING}),
    BranchState.PREPARED: frozenset({BranchState.DELIVERING, BranchState.ROLLED_BACK}),
    BranchState.DELIVERING: frozenset(
        {BranchState.STARTED, BranchState.PREPARED, BranchState.COMMITTED}
    ),
    BranchState.COMMITTED: frozenset(),
    BranchState.ROLLED_BACK: frozenset(),
}
