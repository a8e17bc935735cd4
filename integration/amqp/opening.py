"""Opens a connection to the JMS broker of a provider: the first of its servers that answers."""

import ssl
import time
from collections.abc import Iterator
from typing import Final

import httpcore

from integration.amqp.connection import AmqpConnection, Caller, EndedError
from integration.amqp.errors import (
    JmsAddressRefusedError,
    JmsAddressUnknownError,
    JmsCertificateError,
    JmsError,
    JmsInUseError,
    JmsRefusedError,
    JmsRightsError,
    JmsSelectorError,
    JmsUnreachableError,
    is_lack_of_rights,
)
from integration.amqp.receiving import Address, ReceivingLink
from integration.certificates import tls_context
from integration.models.provider import Provider
from integration.policy import jms

CONNECT_SECONDS: Final = 5.0
LEAST_SECONDS: Final = 0.1
GONE_SECONDS: Final = 2.0
PAUSE_SECONDS: Final = 0.05
# AMQP 1.0, part 2.8.14 and after it; a name in use is told as an invalid field.
NOT_FOUND: Final = "amqp:not-found"
INVALID: Final = "amqp:invalid-field"
IN_USE: Final = INVALID


def open_receiver(provider: Provider, address: Address, *, name: str, credit: int) -> ReceivingLink:
    """Connect as `name`, which only one connection at a time has, and open a link to read from.

    Raises JmsError.
    """
    connection = _sole_connection(provider, name)
    try:
        return ReceivingLink(connection, address, credit=credit, seconds=CONNECT_SECONDS)
    except (EndedError, TimeoutError) as problem:
        connection.close()
        raise not_open(provider.name, address, problem) from problem
    except BaseException:
        connection.close()
        raise


def _sole_connection(provider: Provider, name: str) -> AmqpConnection:
    """Connect; a broker takes a moment to see that a connection of that name has ended.

    Raises JmsError.
    """
    ends_at = time.monotonic() + GONE_SECONDS
    while True:
        try:
            return connect(provider, name=name, is_sole=True)
        except JmsInUseError:
            if time.monotonic() > ends_at:
                raise
            time.sleep(PAUSE_SECONDS)


def connect(provider: Provider, *, name: str, is_sole: bool = False) -> AmqpConnection:
    """Connect to the first server that answers. Raises JmsError."""
    ends_at = time.monotonic() + CONNECT_SECONDS
    problems: list[JmsError] = []
    for host, port in servers(provider):
        seconds = ends_at - time.monotonic()
        if seconds <= 0:
            break
        try:
            return _connected(provider, host, port, seconds, name=name, is_sole=is_sole)
        except JmsError as problem:
            problems.append(problem)
    # Of a pair the standby refuses connections: what the other one says counts.
    said = [one for one in problems if not isinstance(one, JmsUnreachableError)]
    raise (said or problems or [JmsUnreachableError(provider.name, "no time was left")])[0]


def servers(provider: Provider) -> Iterator[tuple[str, int]]:
    """The hosts and ports of the provider, in its order."""
    return jms.servers(provider.bootstrap_servers, has_tls=uses_tls(provider))


def uses_tls(provider: Provider) -> bool:
    return provider.security_protocol.endswith("SSL")


def _connected(
    provider: Provider, host: str, port: int, seconds: float, *, name: str, is_sole: bool
) -> AmqpConnection:
    """Raises JmsError."""
    ends_at = time.monotonic() + seconds
    stream = _stream(provider, host, port, seconds)
    logs_in = provider.security_protocol.startswith("SASL")
    login = (provider.username, provider.password) if logs_in else None
    caller = Caller(name, login, bool(provider.client_certificate), is_sole)
    try:
        return AmqpConnection(
            stream, caller, host=host, seconds=max(ends_at - time.monotonic(), LEAST_SECONDS)
        )
    except (EndedError, TimeoutError) as problem:
        stream.close()
        raise _not_connected(provider.name, f"{host}:{port}", problem) from problem
    except BaseException:
        stream.close()
        raise


def _stream(provider: Provider, host: str, port: int, seconds: float) -> httpcore.NetworkStream:
    """Raises JmsError."""
    at = f"{host}:{port}"
    try:
        stream = httpcore.SyncBackend().connect_tcp(host, port, seconds)
    except (httpcore.TimeoutException, httpcore.NetworkError, OSError) as problem:
        raise JmsUnreachableError(provider.name, f"{at}: {problem}") from problem
    if not uses_tls(provider):
        return stream
    try:
        context = tls_context(
            provider.ca_certificate, provider.client_certificate, provider.client_key
        )
        return stream.start_tls(context, host, seconds)
    except ValueError as problem:
        stream.close()
        raise JmsCertificateError(provider.name, str(problem)) from problem
    except (httpcore.NetworkError, httpcore.TimeoutException, ssl.SSLError) as problem:
        stream.close()
        raise JmsCertificateError(provider.name, f"{at}: {problem}") from problem


def _not_connected(name: str, at: str, problem: Exception) -> JmsError:
    condition = problem.condition if isinstance(problem, EndedError) else ""
    text = f"{at}: {problem}"
    if condition == IN_USE:
        return JmsInUseError(name, text)
    if condition.startswith("amqp:"):
        return JmsRefusedError(name, text)
    return JmsUnreachableError(name, text)


def not_open(provider: str, address: Address, problem: Exception) -> JmsError:
    """Tell why nothing can be read there."""
    condition = problem.condition if isinstance(problem, EndedError) else ""
    if condition == NOT_FOUND:
        return JmsAddressUnknownError(provider, address.name)
    if is_lack_of_rights(condition, str(problem)):
        return JmsRightsError(provider, f"{address.name}: {problem}")
    if condition == INVALID and address.selector:
        return JmsSelectorError(provider, f"“{address.selector}”: {problem}")
    if condition.startswith("amqp:"):
        return JmsAddressRefusedError(provider, f"{address.name}: {problem}")
    return JmsUnreachableError(provider, f"{address.name}: {problem}")
