"""Refusals of the HTTP API: a stable code, a sentence, and what to change."""

from datetime import timedelta
from typing import ClassVar, Final

from integration.envelope import Flaw
from integration.errors import IntegrationError
from integration.handlers.failures import HandlerError
from integration.policy.failure import Failure, FailureClass

_CORRECT: Final = "Correct the body and send it again."
_CAPITALS: Final = "Correct the last part of the address; capital letters count."
# The database did not say what became of the commit.
MAY_BE_STORED: Final = "It is not known whether the request was stored."
AGAIN_BY_ITS_KEY: Final = (
    "Send it again later, with the same Idempotency-Key: then it counts once. Without a key it may "
    "be stored twice, so find out first whether it arrived."
)


class HttpApiError(IntegrationError):
    """A request that is not answered as asked, and the HTTP `status` that says so.

    `says` and `advice` are the sentence and the next step; what stands in braces there is given
    by name. `retry_after` is given where the very same request may succeed later; `reason` is the
    code that the sender gets. Nothing was stored.
    """

    status: int = 400
    says: ClassVar[str]
    advice: ClassVar[str]
    retry_after: timedelta | None = None

    def __init__(self, **named: object) -> None:
        super().__init__(self.says.format(**named), next_step=self.advice.format(**named))
        self.reason = self.code


class NotAuthenticatedError(HttpApiError):
    """No usable credentials came with the request."""

    code = "NOT_AUTHENTICATED"
    status = 401
    says = "The request carries no valid token."
    advice = (
        "Send the token as “Authorization: Bearer …”, or as the password of Basic authentication "
        "with the token's or the system's name as the user. Tokens in the address are never read."
    )


class TokenOverError(HttpApiError):
    """The token was the right one, until it expired or was revoked."""

    code = "TOKEN_OVER"
    status = 401
    says = "The token {over}."
    advice = "Ask an administrator of this installation for a new one."


class WrongSystemError(HttpApiError):
    """The token belongs to another external system than the address names."""

    code = "WRONG_SYSTEM"
    status = 403
    says = "This token does not belong to the external system {system!r:.62}."
    advice = "Use the address with your own system's name, or the token of that system."


class NotInScopeError(HttpApiError):
    """The token does not allow this."""

    code = "NOT_IN_SCOPE"
    status = 403
    says = "This token may not {wanted}."
    advice = "Ask an administrator of this installation for a token that may."


class LegacyAddressOffError(HttpApiError):
    """The incumbent's addresses and header are switched off for this system."""

    code = "LEGACY_DOOR_OFF"
    status = 403
    says = "Addresses under /meaweb and the MAXAUTH header are switched off for this system."
    advice = (
        "Use /esqueue/… or /es/… with “Authorization: Bearer …”, or have them switched on in the "
        "system's form."
    )


class NoSuchAddressError(HttpApiError):
    """Nothing is at this address."""

    code = "NO_SUCH_ADDRESS"
    status = 404
    says = "There is nothing at this address."
    advice = (
        "Post to /esqueue/SYSTEM/SERVICE or /es/SYSTEM/SERVICE; /openapi.json lists every address."
    )


class WrongMethodError(HttpApiError):
    """The address is right, the method is not."""

    code = "WRONG_METHOD"
    status = 405
    says = "This address takes {allowed} only."
    advice = "Use {allowed}."

    def __init__(self, allowed: str) -> None:
        super().__init__(allowed=allowed)
        self.allowed = allowed


class NoSuchServiceError(HttpApiError):
    """The address names an enterprise service that is not registered."""

    code = "NO_SUCH_SERVICE"
    status = 404
    says = "There is no enterprise service named {service!r:.102}."
    advice = _CAPITALS


class JmsQueueError(HttpApiError):
    """The system's messages are read from a JMS broker, where nothing is written."""

    code = "READS_FROM_JMS"
    status = 409
    says = "The queue {queue} of {system} reads from a JMS broker, which takes no posts."
    advice = (
        "Send the message to that broker, or let an administrator of this installation add an "
        "inbound queue at Kafka for the system."
    )


class NoSuchChannelError(HttpApiError):
    """The address names a publish channel that is not there."""

    code = "NO_SUCH_CHANNEL"
    status = 404
    says = "There is no publish channel named {channel!r:.102}."
    advice = _CAPITALS


class NoQueueError(HttpApiError):
    """The system has no inbound queue, so its messages could go nowhere."""

    code = "NO_QUEUE"
    status = 503
    retry_after = timedelta(minutes=5)
    says = "The external system {system} has no inbound queue yet; nothing was stored."
    advice = (
        "Send it again later. An administrator of this installation gives the system an inbound "
        "queue."
    )


class AmbiguousQueueError(HttpApiError):
    """Several inbound queues of the system could take the message."""

    code = "AMBIGUOUS_QUEUE"
    status = 503
    retry_after = timedelta(minutes=5)
    says = "Several inbound queues of {system} could take {service}: {queues}. Nothing was stored."
    advice = (
        "Send it again later. An administrator of this installation makes {service} the default "
        "service of exactly one of them, or leaves exactly one without a default service."
    )


class SwitchedOffError(HttpApiError):
    """Run at once, a message cannot wait until its service or system is switched on."""

    code = "SWITCHED_OFF"
    status = 503
    retry_after = timedelta(minutes=1)
    says = "{sentence}"
    advice = "Send it again later, or to /esqueue/…, where it waits until then."


class BadHeaderError(HttpApiError):
    """A header of the request cannot be used."""

    code = "BAD_HEADER"
    says = "The header {name} must be {wanted}."
    advice = "Correct the header."


class TooManyMessagesError(HttpApiError):
    """The body holds more messages than one transaction should store."""

    code = "TOO_MANY_MESSAGES"
    status = 413
    says = "The body holds {count:,} messages; one request may hold {most:,}."
    advice = "Send them in several requests."


class NotAcceptedTypeError(HttpApiError):
    """The body is said to be something else than JSON or XML."""

    code = "NOT_JSON_OR_XML"
    status = 415
    says = "{sentence}"
    advice = (
        "Send JSON as application/json or XML as application/xml, in UTF-8 and without a "
        "Content-Encoding."
    )


class UnreadableBodyError(HttpApiError):
    """The body breaks the grammar or the limits of its format; `reason` is the flaw's code."""

    status = 422
    says = "{where}{flaw.message}"
    advice = _CORRECT

    def __init__(self, flaw: Flaw, where: str = "") -> None:
        super().__init__(flaw=flaw, where=where)
        self.reason = flaw.code.value


class OtherServiceError(HttpApiError):
    """The body is an envelope that names another service than the address."""

    code = "OTHER_SERVICE"
    status = 422
    says = "The envelope's INTERFACE is {named!r:.102}, the address says {service!r}."
    advice = "Post to the address of that service, or send the payload alone."


class NestedEnvelopeError(HttpApiError):
    """An envelope is the payload of an envelope, or stands in a retry wrapper."""

    code = "NESTED_ENVELOPE"
    status = 422
    says = "There is an envelope inside of an envelope or of a retry wrapper."
    advice = "Send one envelope, or the payload alone."


class NotPublishedError(HttpApiError):
    """The channel does not publish this payload; `reason` is its refusal's code."""

    status = 422
    says = "{refused}"
    advice = _CORRECT

    def __init__(self, refused: HandlerError) -> None:
        super().__init__(refused=refused)
        self.reason = refused.failure_code


class OtherContentError(HttpApiError):
    """The sender's own id was used before, for something else."""

    code = "SENDER_ID_REUSED"
    status = 409
    says = (
        "The id {sender_id!r} was used before for another service or body. Nothing was stored; "
        "what was accepted then stands."
    )
    advice = "Give each message an id of its own; use the same one only to repeat it."


class TooManyRequestsError(HttpApiError):
    """The system posts more often than it may."""

    code = "TOO_MANY_REQUESTS"
    status = 429
    says = "This system may post {per_minute:,} times a minute."
    advice = "Send it again after the seconds that Retry-After names."

    def __init__(self, per_minute: int, seconds_left: int) -> None:
        super().__init__(per_minute=per_minute)
        self.retry_after = timedelta(seconds=seconds_left)


class NoSuchMessageError(HttpApiError):
    """No accepted message of this system has the id."""

    code = "NO_SUCH_MESSAGE"
    status = 404
    says = "No message of this system is known by that id, or not any more."
    advice = (
        "Use the message_id of the answer, or the id you sent yourself. A post with an id of its "
        "own is known for the days set for idempotency keys, others as long as the queue keeps "
        "its failures."
    )


class CallFailedError(HttpApiError):
    """The service ran at once and failed; all that it did is undone.

    Unless `may_be_stored`: then it was done, and its commit has no answer, or what a handler had
    put off until after it failed. `reason` is the failure's code.
    """

    status = 503
    says = "{where}{failure.text}"
    advice = "{stored} {step}"

    def __init__(self, failure: Failure, where: str = "", *, may_be_stored: bool = False) -> None:
        later = (503, "Send it again later.")
        status, step = later if may_be_stored else _FINAL.get(failure.kind, later)
        stored = "Nothing was stored."
        if may_be_stored:
            stored, step = MAY_BE_STORED, AGAIN_BY_ITS_KEY
        super().__init__(failure=failure, where=where, stored=stored, step=step)
        self.status, self.reason, self.failure = status, failure.code, failure
        self.retry_after = timedelta(seconds=30) if status == 503 else None


# Problems that a repetition does not mend: their status, and what to do instead.
_FINAL: Final = {
    FailureClass.PERMANENT: (422, "Correct the message and send it again."),
    FailureClass.DEPENDENCY: (409, "Send what it needs first, then send it again."),
}
