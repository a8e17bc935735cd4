"""The port of endpoints: what the engine asks, and what may be answered. Verdicts are values.

Each endpoint type (HTTP, file, database, Python function, Kafka topic) is one implementation; one
contract suite runs over all of them and over the in-memory fake.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from datetime import datetime
from typing import Final, Protocol

from integration.endpoints.codes import EndpointCode

EXCERPT_CHARACTERS: Final = 2_000


@dataclass(frozen=True, slots=True, kw_only=True)
class OutboundMessage:
    """One message as an endpoint gets it. `body` is the payload, out of its envelope.

    `queue` is the name of the queue that it is of, empty for a sample.
    """

    message_id: str
    interface: str
    system: str
    body: bytes
    content_type: str
    key: str = ""
    queue: str = ""
    topic: str = ""
    partition: int = 0
    offset: int = 0
    attempt: int = 1
    sent_at: datetime | None = None
    headers: Mapping[str, str] = field(default_factory=dict)


@dataclass(frozen=True, slots=True, kw_only=True)
class AnswerRecord:
    """The stored part of an answer: a code, a sentence, the status and the body's beginning.

    `may_quote`: others worded the sentence, and it may repeat values of the message. Only what is
    covered by the message's masking rules has it: never what is said of the endpoint itself.
    """

    code: str = ""
    text: str = ""
    status: int | None = None
    excerpt: str = ""
    may_quote: bool = False


@dataclass(frozen=True, slots=True, kw_only=True)
class Accepted(AnswerRecord):
    """The endpoint took the message, or had it already."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Refused(AnswerRecord):
    """It will never take this message as it is: a person has to look. No retry is made."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Later(AnswerRecord):
    """It did not take this message; a later try may go through. Spends a retry."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Unreachable(AnswerRecord):
    """It takes nothing at the moment, whatever the message: no retry is spent.

    `after_seconds` is what the endpoint asked for (Retry-After), None when it asked nothing.
    `may_be_the_message`: perhaps it takes all others, as when a gateway answers in place of a
    partner that ends at this one.
    """

    after_seconds: float | None = None
    may_be_the_message: bool = False


@dataclass(frozen=True, slots=True, kw_only=True)
class Unknown(AnswerRecord):
    """The message was sent and no answer came: it may have arrived."""


Answer = Accepted | Refused | Later | Unreachable | Unknown


class NotDeliveredError(Exception):
    """Ends a call before the other side has the message; `answer` is what the call comes to."""

    def __init__(self, answer: Answer) -> None:
        super().__init__(answer.text)
        self.answer = answer


CLOSED: Final = Unreachable(
    code=EndpointCode.ENDPOINT_CLOSED, text="The endpoint is closed already."
)


class Deliverer(Protocol):
    """One opened endpoint, used by one run. Its calls never raise: each ending is an Answer.

    `at_once` is how many messages one call takes (1, unless the endpoint type gathers them, as a
    file of many messages does). Safe for calls from several threads at a time.
    `within_seconds` is the longest that a call can take, whatever the other side does; None where
    nobody can promise it, as with other people's code or a file system that hangs.
    """

    at_once: int
    within_seconds: float | None

    def deliver(self, messages: Sequence[OutboundMessage]) -> Sequence[Answer]:
        """One answer for each outbound message, in order; at most `at_once` outbound messages.

        Returns within the endpoint's own timeouts, whatever the other side does.
        """

    def connect(self) -> Answer:
        """Check that it can be reached with these settings; send no message."""

    def close(self) -> None:
        """Give connections back; may be called twice."""
