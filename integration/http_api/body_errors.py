"""Refusals of a body before anybody looks into it: how it came, or did not come."""

from datetime import timedelta

from integration.http_api.errors import HttpApiError


class BodyTooLargeError(HttpApiError):
    """The body is larger than this system may post."""

    code = "BODY_TOO_LARGE"
    status = 413
    says = "The body is larger than {most_bytes:,} bytes, the most this system may post."
    advice = "Send fewer messages in one request, or have the limit raised."


class CutShortError(HttpApiError):
    """The connection ended before the whole body had come."""

    code = "BODY_CUT_SHORT"
    says = "The body ended before its announced length. Nothing was stored."
    advice = "Send the request again."


class TooSlowError(HttpApiError):
    """The body did not come within the time that a body has."""

    code = "BODY_TOO_SLOW"
    status = 408
    says = "The body had not come whole after {seconds:.0f} seconds. Nothing was stored."
    advice = "Send the request again: whole, or in several smaller ones."


class NoRoomError(HttpApiError):
    """So many large bodies are arriving at once that there is no room to wait for this one."""

    code = "TOO_MANY_LARGE_BODIES"
    status = 503
    retry_after = timedelta(seconds=60)
    says = "Too many large bodies are arriving at once. Nothing was stored."
    advice = "Send the request again in a minute, or in several smaller ones."


class BadFramingError(HttpApiError):
    """The body's chunks or trailer fields are not what HTTP/1.1 prescribes."""

    code = "BAD_FRAMING"
    says = "The body is not sent in chunks as HTTP/1.1 prescribes. Nothing was stored."
    advice = (
        "Have the sender's HTTP library or the proxy in between corrected, or send the body with "
        "a Content-Length."
    )
