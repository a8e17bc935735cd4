"""Why the HTTP API refuses a request: a stable code, a sentence, and what to change."""

from datetime import timedelta
from typing import ClassVar

from integration.envelope import Flaw
from integration.errors import IntegrationError
from integration.handlers.failures import HandlerError
from integration.policy.failure import Failure, FailureClass


class HttpApiError(IntegrationError):
    """A request that is not answered as asked. `status` is the HTTP status it is told with.

    `retry_after` is given where the very same request may succeed later. Nothing was stored.
    """

    status: ClassVar[int] = 400
    retry_after: timedelta | None = None


class NotAuthenticatedError(HttpApiError):
    """No usable credentials came with the request."""

    code = "NOT_AUTHENTICATED"
    status = 401

    def __init__(self) -> None:
        super().__init__(
            "The request carries no valid token.",
            next_step="Send the token as “Authorization: Bearer …”, or as the password of Basic "
            "authentication with the token's or the system's name as the user. Tokens in the "
            "address are never read.",
        )


class TokenOverError(HttpApiError):
    """The token was the right one, until it expired or was revoked."""

    code = "TOKEN_OVER"
    status = 401

    def __init__(self, why: str) -> None:
        super().__init__(
            f"The token {why}.",
            next_step="Ask an administrator of this installation for a new one.",
        )


class WrongSystemError(HttpApiError):
    """The token belongs to another external system than the address names."""

    code = "WRONG_SYSTEM"
    status = 403

    def __init__(self, system: str) -> None:
        super().__init__(
            f"This token does not belong to the external system {system[:60]!r}.",
            next_step="Use the address with your own system's name, or the token of that system.",
        )


class NotInScopeError(HttpApiError):
    """The token does not allow this."""

    code = "NOT_IN_SCOPE"
    status = 403

    def __init__(self, what: str) -> None:
        super().__init__(
            f"This token may not {what}.",
            next_step="Ask an administrator of this installation for a token that may.",
        )


class LegacyAddressOffError(HttpApiError):
    """The incumbent's addresses and header are switched off for this system."""

    code = "LEGACY_DOOR_OFF"
    status = 403

    def __init__(self) -> None:
        super().__init__(
            "Addresses under /meaweb and the MAXAUTH header are switched off for this system.",
            next_step="Use /esqueue/… or /es/… with “Authorization: Bearer …”, or have them "
            "switched on in the system's form.",
        )


class NoSuchAddressError(HttpApiError):
    """Nothing is at this address."""

    code = "NO_SUCH_ADDRESS"
    status = 404

    def __init__(self) -> None:
        super().__init__(
            "There is nothing at this address.",
            next_step="Post to /esqueue/SYSTEM/SERVICE or /es/SYSTEM/SERVICE; /openapi.json lists "
            "every address.",
        )


class WrongMethodError(HttpApiError):
    """The address is right, the method is not."""

    code = "WRONG_METHOD"
    status = 405

    def __init__(self, allowed: str) -> None:
        super().__init__(f"This address takes {allowed} only.", next_step=f"Use {allowed}.")
        self.allowed = allowed


class NoSuchServiceError(HttpApiError):
    """The address names an enterprise service that is not registered."""

    code = "NO_SUCH_SERVICE"
    status = 404

    def __init__(self, service: str) -> None:
        super().__init__(
            f"There is no enterprise service named {service[:100]!r}.",
            next_step="Correct the last part of the address; capital letters count.",
        )


class NoQueueError(HttpApiError):
    """The system has no inbound queue, so its messages could go nowhere."""

    code = "NO_QUEUE"
    status = 503
    retry_after = timedelta(minutes=5)

    def __init__(self, system: str) -> None:
        super().__init__(
            f"The external system {system} has no inbound queue yet; nothing was stored.",
            next_step="Send it again later. An administrator of this installation gives the system "
            "an inbound queue.",
        )


class AmbiguousQueueError(HttpApiError):
    """Several inbound queues of the system could take the message."""

    code = "AMBIGUOUS_QUEUE"
    status = 503
    retry_after = timedelta(minutes=5)

    def __init__(self, system: str, service: str, queues: list[str]) -> None:
        super().__init__(
            f"Several inbound queues of {system} could take {service}: {', '.join(queues)}. "
            "Nothing was stored.",
            next_step=f"Send it again later. An administrator of this installation makes {service} "
            "the default service of exactly one of them.",
        )


class SwitchedOffError(HttpApiError):
    """Run at once, a message cannot wait until its service or system is switched on."""

    code = "SWITCHED_OFF"
    status = 503
    retry_after = timedelta(minutes=1)

    def __init__(self, sentence: str) -> None:
        super().__init__(
            sentence,
            next_step="Send it again later, or to /esqueue/…, where it waits until then.",
        )


class TooManyMessagesError(HttpApiError):
    """The body holds more messages than one transaction should store."""

    code = "TOO_MANY_MESSAGES"
    status = 413

    def __init__(self, count: int, most: int) -> None:
        super().__init__(
            f"The body holds {count:,} messages; one request may hold {most:,}.",
            next_step="Send them in several requests.",
        )


class NotAcceptedTypeError(HttpApiError):
    """The body is said to be something else than JSON or XML."""

    code = "NOT_JSON_OR_XML"
    status = 415

    def __init__(self, sentence: str) -> None:
        super().__init__(
            sentence,
            next_step="Send JSON as application/json or XML as application/xml, in UTF-8 and "
            "without a Content-Encoding.",
        )


class UnreadableBodyError(HttpApiError):
    """The body breaks the grammar or the limits of its format; `code` is the flaw's own."""

    status = 422

    def __init__(self, flaw: Flaw, where: str = "") -> None:
        super().__init__(f"{where}{flaw.message}", next_step="Correct the body and send it again.")
        self.flaw = flaw.code.value


class OtherServiceError(HttpApiError):
    """The body is an envelope that names another service than the address."""

    code = "OTHER_SERVICE"
    status = 422

    def __init__(self, named: str, service: str) -> None:
        super().__init__(
            f"The envelope's INTERFACE is {named[:100]!r}, the address says {service!r}.",
            next_step="Post to the address of that service, or send the payload alone.",
        )


class NestedEnvelopeError(HttpApiError):
    """The payload of an envelope is an envelope again."""

    code = "NESTED_ENVELOPE"
    status = 422

    def __init__(self) -> None:
        super().__init__(
            "The payload inside the envelope is an envelope again.",
            next_step="Send one envelope, or the payload alone.",
        )


class BadHeaderError(HttpApiError):
    """A header of the request cannot be used."""

    code = "BAD_HEADER"
    status = 400

    def __init__(self, name: str, wanted: str) -> None:
        super().__init__(f"The header {name} must be {wanted}.", next_step="Correct the header.")


class OtherContentError(HttpApiError):
    """The sender's own id was used before, for something else."""

    code = "SENDER_ID_REUSED"
    status = 409

    def __init__(self, sender_id: str) -> None:
        super().__init__(
            f"The id {sender_id!r} was used before for another service or body. Nothing was "
            "stored; what was accepted then stands.",
            next_step="Give each message an id of its own; use the same one only to repeat it.",
        )


class TooManyRequestsError(HttpApiError):
    """The system posts more often than it may."""

    code = "TOO_MANY_REQUESTS"
    status = 429

    def __init__(self, per_minute: int, seconds_left: int) -> None:
        super().__init__(
            f"This system may post {per_minute:,} times a minute.",
            next_step="Send it again after the seconds that Retry-After names.",
        )
        self.retry_after = timedelta(seconds=seconds_left)


class NoSuchMessageError(HttpApiError):
    """No accepted message of this system has the id."""

    code = "NO_SUCH_MESSAGE"
    status = 404

    def __init__(self) -> None:
        super().__init__(
            "No message of this system is known by that id, or not any more.",
            next_step="Use the message_id of the answer, or the id you sent yourself. Receipts are "
            "kept as long as the queue keeps its failures.",
        )


class CallFailedError(HttpApiError):
    """The service ran at once and failed; everything it did is undone. `code` is the failure's."""

    def __init__(self, failure: Failure, where: str = "") -> None:
        super().__init__(f"{where}{failure.text}", next_step=ADVICE[failure.kind])
        self.failure = failure
        self.retry_after = None if failure.kind in FINAL else timedelta(seconds=30)


class NoSuchChannelError(HttpApiError):
    """The address names a publish channel that is not there."""

    code = "NO_SUCH_CHANNEL"
    status = 404

    def __init__(self, channel: str) -> None:
        super().__init__(
            f"There is no publish channel named {channel[:100]!r}.",
            next_step="Correct the last part of the address; capital letters count.",
        )


class NotPublishedError(HttpApiError):
    """The channel does not publish this payload; `code` is its refusal's own."""

    status = 422

    def __init__(self, refused: HandlerError) -> None:
        super().__init__(str(refused), next_step="Correct the body and send it again.")
        self.refused = refused


FINAL = frozenset({FailureClass.PERMANENT, FailureClass.DEPENDENCY})
STATUSES = {FailureClass.PERMANENT: 422, FailureClass.DEPENDENCY: 409}
_LATER = "Nothing was stored. Send it again later."
ADVICE = {
    **dict.fromkeys(FailureClass, _LATER),
    FailureClass.PERMANENT: "Nothing was stored. Correct the message and send it again.",
    FailureClass.DEPENDENCY: "Nothing was stored. Send what it needs first, then send it again.",
}


def status_of(problem: HttpApiError) -> int:
    """The HTTP status to tell it with."""
    if isinstance(problem, CallFailedError):
        return STATUSES.get(problem.failure.kind, 503)
    return problem.status


def code_of(problem: HttpApiError) -> str:
    """The stable code to tell it by."""
    if isinstance(problem, CallFailedError):
        return problem.failure.code
    if isinstance(problem, NotPublishedError):
        return problem.refused.failure_code
    return problem.flaw if isinstance(problem, UnreadableBodyError) else problem.code
