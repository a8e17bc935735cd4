"""The way from an endpoint's answer to the outcome of its message. Pure."""

from typing import Final, assert_never

from integration.delivery.outcome import DELIVERED, Failed, Outcome
from integration.endpoints.port import Accepted, Answer, Later, Refused, Unknown, Unreachable
from integration.policy.failure import Failure, FailureClass
from integration.policy.states import DeliveryState

MAY_HAVE_ARRIVED: Final = (
    "The message may have arrived. Look for it in the partner's system: if it is there, say that "
    "it arrived; if not, release it."
)
# The failure of a message whose process died during the call.
IN_DOUBT: Final = Failure(
    FailureClass.PERMANENT,
    "DELIVERY_UNKNOWN",
    f"The run ended while it was sending this message. {MAY_HAVE_ARRIVED}",
)


def read(
    answer: Answer, *, is_idempotent: bool, is_free: bool, is_charged: bool = False
) -> tuple[Outcome, DeliveryState]:
    """Return what an answer means: for the message, and for the row of its call.

    `is_free`: a failed probe, which is held against the endpoint and not the message.
    `is_charged`: one that counts for the message where that may be what the endpoint fails at.
    """
    not_now = FailureClass.OUTAGE if is_free else FailureClass.TRANSIENT
    match answer:
        case Accepted():
            return DELIVERED, DeliveryState.DELIVERED
        case Refused():
            return _untaken(answer, FailureClass.PERMANENT, "REFUSED")
        case Unreachable():
            is_the_message = answer.may_be_the_message and is_charged
            kind = FailureClass.TRANSIENT if is_the_message else FailureClass.OUTAGE
            return _untaken(answer, kind, "UNREACHABLE")
        case Later():
            return _untaken(answer, not_now, "NOT_NOW")
        case Unknown() if is_idempotent:
            return _untaken(answer, not_now, "NO_ANSWER")
        case Unknown():
            reason = f" {answer.text}" if answer.text else ""
            text = f"The message was sent and no answer came.{reason} {MAY_HAVE_ARRIVED}"
            failure = Failure(FailureClass.PERMANENT, "DELIVERY_UNKNOWN", text, answer.excerpt)
            return Failed(failure), DeliveryState.UNKNOWN
        case _:
            assert_never(answer)


def _untaken(answer: Answer, kind: FailureClass, code: str) -> tuple[Outcome, DeliveryState]:
    text = answer.text or f"The endpoint answered {answer.status or 'nothing that says why'}."
    failure = Failure(kind, answer.code or code, text, answer.excerpt)
    return Failed(failure), DeliveryState.FAILED
