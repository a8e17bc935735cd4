"""What is wrong with the certificates between a broker's port and us, as errors of Kafka's room."""

import contextlib
import re
import time
from collections.abc import Iterable, Mapping
from typing import Any, Final

from integration import tls
from integration.kafka.errors import (
    BrokerRefusedError,
    CertificateExpiredError,
    CertificateNameError,
    CertificateUntrustedError,
    OwnCertificateError,
)
from integration.tls import Certificates, Fault, FaultKind

_NAMED: Final = re.compile(r"(?:\b|_)ssl://([^/\s]+)/", re.IGNORECASE)


def certificates_of(properties: Mapping[str, Any]) -> Certificates:
    """Those of a client with these properties."""
    algorithm = str(properties.get("ssl.endpoint.identification.algorithm", "https"))
    return Certificates(
        authorities=str(properties.get("ssl.ca.pem", "")),
        own=str(properties.get("ssl.certificate.pem", "")),
        key=str(properties.get("ssl.key.pem", "")),
        checks_name=algorithm.lower() != "none",
    )


def refusal(
    provider: str, addresses: Iterable[str], certificates: Certificates
) -> BrokerRefusedError | None:
    """The error to raise for the first of these ports with which no TLS connection can be made.

    None where all is well or nothing can be told. Takes three seconds at most; raises nothing.
    """
    deadline = time.monotonic() + tls.ASK_SECONDS
    for address in addresses:
        with contextlib.suppress(OSError, ValueError, OverflowError):
            host, _, port = address.strip().rpartition(":")
            host = host.strip("[]")
            found = tls.fault(host, int(port), certificates, deadline)
            if found is not None:
                return _error(provider, address.strip(), host, certificates, found)
        if time.monotonic() >= deadline:
            break
    return None


def named_in(events: Iterable[object]) -> list[str]:
    """The addresses that the library names in what it says of its connections.

    >>> named_in(["ssl://b-1.example:9093/bootstrap: SSL handshake failed", "1/1 are down"])
    ['b-1.example:9093']
    """
    return [found[1] for event in events if (found := _NAMED.search(str(event)))]


def _error(
    provider: str, address: str, host: str, certificates: Certificates, found: Fault
) -> BrokerRefusedError:
    match found.kind:
        case FaultKind.NAME:
            return CertificateNameError(provider, address, host, found.names)
        case FaultKind.EXPIRED:
            return CertificateExpiredError(provider, address, found.says)
        case FaultKind.UNTRUSTED:
            return CertificateUntrustedError(
                provider,
                address,
                found.issuer,
                found.says,
                has_authorities=bool(certificates.authorities),
            )
        case FaultKind.MISSING | FaultKind.REFUSED:
            return OwnCertificateError(provider, address, found.says)
