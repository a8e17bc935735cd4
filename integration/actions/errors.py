"""Reasons why a person's request was not carried out, in words that say what to do now."""

from datetime import datetime
from typing import ClassVar

from django.db.models import Model

from integration.errors import IntegrationError
from integration.models import Operation
from integration.policy.states import ErrorState, OperationState

STATE_WORDS = {
    ErrorState.RETRY: "waiting for its next try",
    ErrorState.HOLD: "on hold",
    ErrorState.READY: "released and about to be tried",
    ErrorState.PARKED: "parked behind an earlier message of its key",
    ErrorState.PROCESSING: "being tried alone after a crash",
    ErrorState.RESOLVED: "resolved",
    ErrorState.DELETED: "deleted",
}
OPERATION_WORDS = {
    OperationState.PLANNED: "planned and not started",
    OperationState.RUNNING: "running",
    OperationState.PAUSED: "paused",
    OperationState.DONE: "done",
    OperationState.CANCELLED: "cancelled",
}


class StateMismatchError(IntegrationError):
    """The failure has moved on since the person looked at it; nothing was changed.

    `already_done` is true when the same person already did the same thing: a second click.
    """

    code: ClassVar[str] = "STATE_MISMATCH"

    def __init__(
        self,
        *,
        state: ErrorState | None,
        mover: str,
        moved_at: datetime | None,
        already_done: bool = False,
    ) -> None:
        at = f" at {moved_at:%H:%M:%S} UTC on {moved_at:%d %B %Y}" if moved_at else ""
        if state is None:
            sentence = "This failure is not in the error table any more: it was cleaned up."
        elif already_done:
            sentence = f"You already did this{at}: the message is {STATE_WORDS[state]}."
        else:
            sentence = f"It has moved on: {mover} changed it{at}. Now it is {STATE_WORDS[state]}."
        step = "" if already_done else "This was not done; check it again."
        super().__init__(sentence, next_step=step)
        self.state = state
        self.mover = mover
        self.already_done = already_done


class LateReleaseError(IntegrationError):
    """Releasing it would apply an old message after newer ones; that needs a confirmation."""

    code: ClassVar[str] = "LATE_RELEASE"

    def __init__(self, *, why: str) -> None:
        super().__init__(
            f"This message would be applied late. {why}",
            next_step="Confirm that it may be applied late, or delete it.",
        )
        self.why = why


class ReturnRefusedError(IntegrationError):
    """A failure cannot be sent back to where it came from; `why` is a sentence."""

    code: ClassVar[str] = "RETURN_REFUSED"

    def __init__(self, why: str) -> None:
        super().__init__(
            why, next_step="Nothing was sent. Release it to have it applied here, or delete it."
        )


class ReasonMissingError(IntegrationError):
    """The request needs a reason, for those who will read the history."""

    code: ClassVar[str] = "REASON_MISSING"

    def __init__(self, *, action: str) -> None:
        super().__init__(f"To {action}, a reason is needed.", next_step="Write one sentence.")


class RowBusyError(IntegrationError):
    """The engine works on the row at this moment. An earlier step may be done nevertheless."""

    code: ClassVar[str] = "ROW_BUSY"

    def __init__(self) -> None:
        super().__init__(
            "The engine is working on this at the moment, so this was not done.",
            next_step="Try again in a few seconds.",
        )


class NotHeadError(IntegrationError):
    """Only the message that a sequential queue stops at can be parked by a person."""

    code: ClassVar[str] = "NOT_THE_HEAD"

    def __init__(self) -> None:
        super().__init__(
            "No queue stops at this message, so there is nothing to let past it.",
            next_step="Nothing was changed; release or delete it.",
        )


class PayloadTooLargeError(IntegrationError):
    """The edited payload is larger than the engine would read."""

    code: ClassVar[str] = "EDIT_TOO_LARGE"

    def __init__(self, *, size: int, limit: int) -> None:
        super().__init__(
            f"The edited message has {size:,} bytes; the engine reads at most {limit:,}.",
            next_step="Shorten it.",
        )


class OperationMovedError(IntegrationError):
    """The operation is not in the state, or not as, the person saw it; nothing was changed."""

    code: ClassVar[str] = "OPERATION_MOVED"

    def __init__(self, operation: Operation | None) -> None:
        if operation is None:
            sentence = "This operation does not exist any more: it was cleaned up."
        else:
            sentence = (
                "The operation has been changed since this page was made; "
                f"now it is {OPERATION_WORDS[OperationState(operation.state)]}."
            )
        super().__init__(sentence, next_step="Nothing was changed; check it again.")


class NothingChosenError(IntegrationError):
    """No message is left in the selection, so there is nothing to plan."""

    code: ClassVar[str] = "NOTHING_CHOSEN"

    def __init__(self) -> None:
        super().__init__(
            "Nothing was selected, or nothing matches any more.",
            next_step="Tick the failures you mean first.",
        )


class BadRecipeError(IntegrationError):
    """The change to be made in each message cannot be understood."""

    code: ClassVar[str] = "BAD_RECIPE"

    def __init__(self, why: str) -> None:
        super().__init__(
            f"The change cannot be used: {why}.",
            next_step='Write a path like $.asset.siteid or /asset/siteid, or a JSON Patch: [{"op": '
            '"replace", "path": "/asset/siteid", "value": "NORTH"}].',
        )


class RecipeUntriedError(IntegrationError):
    """An edit of many messages starts only after it was tried on all of them."""

    code: ClassVar[str] = "RECIPE_UNTRIED"

    def __init__(self) -> None:
        super().__init__(
            "The change has not been tried on all messages yet.",
            next_step="Let the dry run come to its end; it changes nothing.",
        )


class QueueMismatchError(IntegrationError):
    """The queue, partition or gap is not in the state the request was made for."""

    code: ClassVar[str] = "QUEUE_MISMATCH"

    def __init__(self, sentence: str) -> None:
        super().__init__(sentence, next_step="Nothing was changed.")


class PauseEndError(IntegrationError):
    """The pause would end before it begins, or later than any pause may."""

    code: ClassVar[str] = "PAUSE_END_OUTSIDE"

    def __init__(self, *, most_days: int) -> None:
        super().__init__(
            f"The end of the pause is not in the future, or more than {most_days} days ahead. "
            "Nothing was changed.",
            next_step=f"Choose a time within the next {most_days} days. To stop the queue for "
            "longer, pause it without an end.",
        )


class StopPassedError(IntegrationError):
    """The queue was told to stop where it has been already."""

    code: ClassVar[str] = "STOP_PASSED"

    def __init__(self, *, partition: int, offset: int, earliest: int) -> None:
        super().__init__(
            f"Partition {partition} cannot stop at offset {offset:,} any more: what comes before "
            f"{earliest:,} is applied, or on its way.",
            next_step=f"Choose {earliest:,} or a later offset; to go back, move the position.",
        )


class PositionMovedError(IntegrationError):
    """The position, or its owner, is another one than the person saw; nothing was changed."""

    code: ClassVar[str] = "POSITION_MOVED"

    def __init__(self, *, partition: int) -> None:
        super().__init__(
            f"The position of partition {partition} has moved, or a worker has taken it, since "
            "this table was made. Nothing was changed.",
            next_step="Look at the table again.",
        )


class NotPausedError(IntegrationError):
    """Only the position of a queue that stands still is moved by a person."""

    code: ClassVar[str] = "QUEUE_NOT_PAUSED"

    def __init__(self, *, queue: str) -> None:
        super().__init__(
            f"The queue {queue} is neither paused nor switched off, so its position moves by "
            "itself. Nothing was changed.",
            next_step="Pause it first.",
        )


class OffsetOutsideError(IntegrationError):
    """The topic has no such offset."""

    code: ClassVar[str] = "OFFSET_OUTSIDE"

    def __init__(self, *, partition: int, offset: int, low: int, high: int) -> None:
        super().__init__(
            f"Offset {offset:,} is not in partition {partition} of the topic: it has {low:,} to "
            f"{high:,}, its end.",
            next_step="Choose an offset that it has.",
        )


class StillSendingError(IntegrationError):
    """A call, or a try of a failure, is under way whose end the position has to wait for."""

    code: ClassVar[str] = "STILL_SENDING"

    def __init__(self, *, partition: int) -> None:
        super().__init__(
            f"Whoever works on partition {partition} is sending or trying a message at the moment, "
            "and nobody would know how that ended. Nothing was changed.",
            next_step="Try again in a few seconds. While the queue is paused, nothing new begins.",
        )


class OutboundQueueError(IntegrationError):
    """Only reading can be paused or switched off, and an outbound queue is not read."""

    code: ClassVar[str] = "OUTBOUND_QUEUE"

    def __init__(self, *, queue: str) -> None:
        super().__init__(
            f"The queue {queue} is outbound: nothing is read from it, so there is nothing to "
            "pause, resume or switch, and nothing was changed.",
            next_step="What is sent is decided where handlers publish. Pause the queue whose "
            "messages lead to it, or switch their service off.",
        )


class QueueAtJmsError(IntegrationError):
    """Only Kafka can do what was asked for; the queue reads from a JMS broker.

    `why` begins after the queue's name; `instead` is a sentence.
    """

    code: ClassVar[str] = "QUEUE_AT_JMS"

    def __init__(self, *, queue: str, why: str, instead: str) -> None:
        super().__init__(
            f"The queue {queue} reads from a JMS broker, {why}. Nothing was changed.",
            next_step=instead,
        )


class TopicAbsentError(IntegrationError):
    """The topic a queue shall go on with does not exist."""

    code: ClassVar[str] = "TOPIC_ABSENT"

    def __init__(self, *, topic: str) -> None:
        super().__init__(
            f"The topic {topic} does not exist, so nothing can be adopted.",
            next_step="Create the topic first, or pause the queue.",
        )


class InUseError(IntegrationError):
    """The thing to be removed is still needed by something else.

    The sentence names `NAMED` of these, and says where there are more.
    """

    code: ClassVar[str] = "IN_USE"
    NAMED: ClassVar[int] = 5

    def __init__(self, name: str, needed_by: list[str]) -> None:
        shown = ", ".join(needed_by[: self.NAMED])
        more = " and more" if len(needed_by) > self.NAMED else ""
        super().__init__(
            f"{name} is still needed by {shown}{more}, so nothing was removed.",
            next_step="Remove or change those first, or switch it off instead.",
        )


class UnderWayError(InUseError):
    """What is to be removed is needed to end what is under way; `why` says what and until when."""

    def __init__(self, name: str, why: str) -> None:
        IntegrationError.__init__(self, f"{name} was not removed.", next_step=why)


class ChangedMeanwhileError(IntegrationError):
    """Somebody else changed the same thing since the form was opened; nothing was written.

    `stored` is the row as it is now, None when it is gone.
    """

    code: ClassVar[str] = "CHANGED_MEANWHILE"

    def __init__(self, name: str, stored: Model | None) -> None:
        what = "changed" if stored is not None else "deleted"
        super().__init__(
            f"{name} was {what} by somebody else since you opened this form. Nothing was written.",
            next_step="Compare both below, keep what is right, and save again.",
        )
        self.stored = stored
