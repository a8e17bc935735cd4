"""The meaning of a status of HTTP for a message. Pure: values in, answer out."""

import math
import re
from collections.abc import Iterable, Mapping, Sequence
from datetime import UTC, datetime
from email.utils import parsedate_to_datetime
from typing import Final

from integration.endpoints.codes import EndpointCode
from integration.endpoints.port import (
    EXCERPT_CHARACTERS,
    Accepted,
    Answer,
    Later,
    Refused,
    Unknown,
    Unreachable,
)

MAX_AFTER_SECONDS: Final = 3_600.0
BAD_GATEWAY: Final = 502
GATEWAY_TIMEOUT: Final = 504
OUTAGES: Final = frozenset({BAD_GATEWAY, 503, GATEWAY_TIMEOUT})
TOO_MANY: Final = 429
LATER: Final = frozenset({408, 425})
PROXY_LOGIN: Final = 407
LOGINS: Final = frozenset({401, PROXY_LOGIN})
FORBIDDEN: Final = 403
# What a proxy answers after it handed a request on and got no answer, or a broken one.
UNANSWERED: Final = frozenset({BAD_GATEWAY, GATEWAY_TIMEOUT})
# Squid's own words, and those of Proxy-Status, for what it never handed on.
NEVER_SENT: Final = frozenset(
    {
        "ERR_ACCESS_DENIED",
        "ERR_CONNECT_FAIL",
        "ERR_DNS_FAIL",
        "connection_refused",
        "destination_ip_prohibited",
        "destination_ip_unroutable",
        "dns_error",
        "dns_timeout",
    }
)
# As Envoy begins a 503 of its own, also where the request had been sent.
MAYBE_SENT: Final = "upstream connect error or disconnect/reset before headers"
REDIRECTS: Final = frozenset({301, 302, 307, 308})
HIDDEN: Final = b"[hidden]"
# A secret that is shorter stands in any text by chance.
LEAST_CHARACTERS: Final = 4
_PROXY_ERROR: Final = re.compile(r';\s*error\s*=\s*"?([a-z_]+)')


def answer_to(
    status: int,
    headers: Mapping[str, str],
    excerpt: str,
    *,
    success: Sequence[range],
    now: datetime,
) -> Answer:
    """The answer that an HTTP status comes to. `now` is what a date in Retry-After counts from."""
    if any(status in span for span in success):
        return Accepted(text=f"It answered {status}.", status=status, excerpt=excerpt)
    was_handed_on = _error_of_proxy(headers) not in NEVER_SENT
    if status == GATEWAY_TIMEOUT and was_handed_on:
        # Sent again without end, a message that takes longer than its gateway waits would arrive
        # each time.
        return Unknown(
            code=EndpointCode.HTTP_NO_ANSWER,
            text="A gateway on the way answered 504: it got no answer in time, and may have "
            "handed the message on.",
            status=status,
            excerpt=excerpt,
        )
    if status in OUTAGES or status == TOO_MANY:
        after = after_seconds(headers.get("retry-after", ""), now)
        is_full = status == TOO_MANY
        return Unreachable(
            code=EndpointCode.HTTP_TOO_MANY if is_full else EndpointCode.HTTP_UNAVAILABLE,
            text=_asked(f"It answered {status}{': too many requests' if is_full else ''}", after),
            status=status,
            excerpt=excerpt,
            after_seconds=after,
            may_be_the_message=status == BAD_GATEWAY and was_handed_on,
        )
    verdict: type[Unreachable | Later | Refused] = Refused
    code, text = EndpointCode.HTTP_REFUSED, f"It answered {status}: it does not take this message."
    if status in LOGINS:
        # Every message would meet the same: the login is wrong, not the message.
        verdict, code = Unreachable, EndpointCode.HTTP_LOGIN_REFUSED
        text = f"It answered {status}: it does not accept our login. Correct it in the endpoint."
        if status == PROXY_LOGIN:
            code = EndpointCode.PROXY_REFUSED
            text = "A proxy on the way answered 407: it wants another login."
    elif status in LATER or status >= 500:
        verdict, code, text = Later, EndpointCode.HTTP_FAILED, f"It answered {status}."
    return verdict(code=code, text=text, status=status, excerpt=excerpt)


def by_proxy(answer: Answer, headers: Mapping[str, str]) -> Answer:
    """What an answer means where a proxy hands requests on: it may be the proxy's own.

    With 502 and 504 the message may have arrived, unless the proxy says that nothing was sent.
    """
    if isinstance(answer, Accepted):
        return answer
    own = _error_of_proxy(headers)
    if answer.status == FORBIDDEN and own:
        return Unreachable(
            code=EndpointCode.PROXY_REFUSED,
            text=f"A proxy on the way answered {answer.status}: it does not let us through.",
            status=answer.status,
            excerpt=answer.excerpt,
        )
    is_unanswered = answer.status in UNANSWERED or answer.excerpt.startswith(MAYBE_SENT)
    if is_unanswered and own not in NEVER_SENT:
        return Unknown(
            code=EndpointCode.HTTP_NO_ANSWER,
            text=f"By way of a proxy came {answer.status}: it may have handed the message on.",
            status=answer.status,
            excerpt=answer.excerpt,
        )
    return answer


def _error_of_proxy(headers: Mapping[str, str]) -> str:
    """What a proxy says went wrong with itself; empty where nothing shows that it was the proxy.

    Via and the like are no sign: a proxy adds them to the partner's answers, too.

    >>> _error_of_proxy({"x-squid-error": "ERR_CONNECT_FAIL 111"})
    'ERR_CONNECT_FAIL'
    >>> _error_of_proxy({"proxy-status": 'edge; error="dns_error"', "via": "1.1 edge"})
    'dns_error'
    """
    squid = headers.get("x-squid-error", "").split()
    if squid:
        return squid[0]
    found = _PROXY_ERROR.findall(headers.get("proxy-status", ""))
    # Each proxy on the way adds itself at the end: one error alone says what became of it.
    return found[0] if len(found) == 1 else ""


def after_seconds(value: str, now: datetime) -> float | None:
    """Return the seconds of Retry-After, at most an hour; None when it asks nothing readable.

    >>> after_seconds("120", datetime(2026, 1, 1, tzinfo=UTC))
    120.0
    >>> after_seconds("Thu, 01 Jan 2026 00:00:30 GMT", datetime(2026, 1, 1, tzinfo=UTC))
    30.0
    """
    text = value.strip()
    if text.isascii() and text.isdecimal():
        seconds = float(text[:9])
    else:
        try:
            at = parsedate_to_datetime(text)
        except (ValueError, IndexError, OverflowError):
            return None
        aware = at if at.tzinfo is not None else at.replace(tzinfo=UTC)
        seconds = (aware - now).total_seconds()
    return min(max(seconds, 0.0), MAX_AFTER_SECONDS) if math.isfinite(seconds) else None


def without(text: bytes, secrets: Iterable[str]) -> bytes:
    """Replace each of our secrets in what a partner sends back, the longest first.

    >>> without(b"you sent Basic dTpwdw==", ["dTpwdw==", ""])
    b'you sent Basic [hidden]'
    """
    for secret in sorted(filter(None, secrets), key=len, reverse=True):
        if len(secret) >= LEAST_CHARACTERS:
            text = text.replace(secret.encode(), HIDDEN)
    return text


def excerpt_of(body: bytes) -> str:
    """The beginning of an answer as text that a page can show and PostgreSQL can store."""
    text = body[: EXCERPT_CHARACTERS * 4].decode("utf-8", "replace")[:EXCERPT_CHARACTERS]
    return "".join(c if c.isprintable() or c in "\n\t" else "\ufffd" for c in text)


def _asked(text: str, after: float | None) -> str:
    return f"{text}." if after is None else f"{text}, and asks for {after:g} seconds of pause."
