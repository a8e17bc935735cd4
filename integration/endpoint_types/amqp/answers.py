"""The answers that endings and conditions of AMQP 1.0 come to."""

from collections.abc import Callable, Mapping
from typing import Final

from integration.amqp.connection import EndedError
from integration.amqp.errors import NO_RIGHTS, UNAUTHORIZED, is_lack_of_rights
from integration.amqp.sending import NO_ANSWER, TOO_LARGE, Ending, Outcome
from integration.endpoints.codes import EndpointCode
from integration.endpoints.port import Accepted, Answer, Later, Refused, Unknown, Unreachable

NOT_FOUND: Final = "amqp:not-found"
NOT_ALLOWED: Final = "amqp:not-allowed"
FULL: Final = "amqp:resource-limit-exceeded"
# What concerns every message: the broker says it of the link, or of each message alike.
_OF_ALL: Final[Mapping[str, EndpointCode]] = {
    **dict.fromkeys(NO_RIGHTS, EndpointCode.AMQP_RIGHTS),
    NOT_FOUND: EndpointCode.AMQP_ADDRESS,
    NOT_ALLOWED: EndpointCode.AMQP_ADDRESS,
    FULL: EndpointCode.AMQP_FULL,
}
# Artemis answers "failed" for whatever it did not expect, a disk that failed among it.
_ITS_OWN_FAULT: Final = frozenset(
    {"amqp:internal-error", "amqp:illegal-state", "amqp:connection:forced", "failed"}
)

_KEPT: Final = Accepted(text="The broker keeps it.")


def answer_of(outcome: Outcome) -> Answer:
    """The answer to one message."""
    return _ANSWERS[outcome.ending](outcome)


def not_open(problem: EndedError | TimeoutError) -> Unreachable:
    """The answer when there is no link: nothing was sent."""
    if isinstance(problem, TimeoutError):
        text = "The broker did not answer in time; perhaps its port is not one for AMQP 1.0."
        return Unreachable(code=EndpointCode.CONNECT_TIMEOUT, text=text)
    code = _OF_ALL.get(problem.condition, EndpointCode.AMQP_ENDED)
    if is_lack_of_rights(problem.condition, str(problem)):
        code = EndpointCode.AMQP_RIGHTS
    return Unreachable(code=code, text=f"The broker refused: {_words(str(problem))}")


def not_connected(problem: EndedError | TimeoutError) -> Unreachable:
    """The answer when there is no connection: the broker may not know us."""
    if isinstance(problem, EndedError) and problem.condition == UNAUTHORIZED:
        text = f"The broker refused the login: {_words(str(problem))}"
        return Unreachable(code=EndpointCode.AMQP_LOGIN_REFUSED, text=text)
    return not_open(problem)


def _accepted(_: Outcome) -> Answer:
    return _KEPT


def _rejected(outcome: Outcome) -> Answer:
    if outcome.condition == TOO_LARGE:
        text = f"The broker takes no message so large: {_words(outcome.text)}"
        return Refused(code=EndpointCode.AMQP_TOO_LARGE, text=text)
    said = _words(outcome.text or outcome.condition or "it gave no reason")
    code = _OF_ALL.get(outcome.condition)
    if code is not None:
        return Unreachable(code=code, text=f"The broker takes none of these: {said}")
    if outcome.condition in _ITS_OWN_FAULT:
        text = f"The broker had a fault of its own: {said}"
        return Later(code=EndpointCode.AMQP_FAILED, text=text)
    return Refused(code=EndpointCode.AMQP_REJECTED, text=f"The broker rejected it: {said}")


def _released(outcome: Outcome) -> Answer:
    said = _words(outcome.text or "it gave no reason")
    return Later(code=EndpointCode.AMQP_RELEASED, text=f"The broker gave it back: {said}")


def _not_sent(outcome: Outcome) -> Answer:
    if outcome.condition == NO_ANSWER:
        text = "It was not sent: the broker lets us send nothing at the moment."
        return Unreachable(code=EndpointCode.AMQP_FULL, text=text)
    text = f"It was not sent: {_words(outcome.text)}"
    code = _OF_ALL.get(outcome.condition, EndpointCode.AMQP_ENDED)
    return Unreachable(code=code, text=text)


def _unknown(outcome: Outcome) -> Answer:
    text = f"It was sent, and the broker did not say what it did: {_words(outcome.text)}"
    return Unknown(code=EndpointCode.AMQP_NO_ANSWER, text=f"{text} It may have arrived.")


_ANSWERS: Final[Mapping[Ending, Callable[[Outcome], Answer]]] = {
    Ending.ACCEPTED: _accepted,
    Ending.REJECTED: _rejected,
    Ending.RELEASED: _released,
    Ending.MODIFIED: _released,
    Ending.NOT_SENT: _not_sent,
    Ending.UNKNOWN: _unknown,
}


def _words(text: str) -> str:
    """The broker's own words as the end of a sentence."""
    said = " ".join(text.split())[:500].rstrip(".")
    return f"{said}."
