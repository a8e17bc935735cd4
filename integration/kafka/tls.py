"""What is wrong with the certificates between a broker's port and us, asked without the library.

Where TLS fails, the client library says so in OpenSSL's words, or tells of a broken connection
only. Here the port's certificate is judged as the library judges it, by the same authorities and
for the same name, and ours is shown to the port. Nothing secret is sent.
"""

import contextlib
import re
import socket
import ssl
import time
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Final

from cryptography import x509
from django.utils import timezone

from integration.certificates import tls_context
from integration.kafka.errors import (
    BrokerRefusedError,
    CertificateExpiredError,
    CertificateNameError,
    CertificateUntrustedError,
    OwnCertificateError,
)
from integration.resolving import connected

# For all of it, names included.
ASK_SECONDS: Final = 3.0
# So long after the handshake a port may still say that it does not want our certificate.
REFUSAL_SECONDS: Final = 1.0
# OpenSSL's own numbers.
_DATES: Final = frozenset({9, 10})
_NAMES: Final = frozenset({62, 63, 64})
_NAMED: Final = re.compile(r"(?:\b|_)ssl://([^/\s]+)/", re.IGNORECASE)
# What a port answers to a certificate that it misses or does not take.
_ABOUT_OURS: Final = (
    "CERTIFICATE_REQUIRED",
    "BAD_CERTIFICATE",
    "CERTIFICATE_UNKNOWN",
    "CERTIFICATE_EXPIRED",
    "CERTIFICATE_REVOKED",
    "UNSUPPORTED_CERTIFICATE",
    "UNKNOWN_CA",
    "ACCESS_DENIED",
)


@dataclass(frozen=True, slots=True)
class Certificates:
    """Whom we trust, and what we show; as PEM. Left out of its repr: the key is secret."""

    authorities: str = field(default="", repr=False)
    own: str = field(default="", repr=False)
    key: str = field(default="", repr=False)
    checks_name: bool = True

    @classmethod
    def of(cls, properties: Mapping[str, Any]) -> "Certificates":
        """Those of a client with these properties."""
        algorithm = str(properties.get("ssl.endpoint.identification.algorithm", "https"))
        return cls(
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
    deadline = time.monotonic() + ASK_SECONDS
    for address in addresses:
        with contextlib.suppress(OSError, ValueError, OverflowError):
            found = _Port(provider, address.strip(), certificates, deadline).refusal()
            if found is not None:
                return found
        if time.monotonic() >= deadline:
            break
    return None


def named_in(events: Iterable[object]) -> list[str]:
    """The addresses that the library names in what it says of its connections.

    >>> named_in(["ssl://b-1.example:9093/bootstrap: SSL handshake failed", "1/1 are down"])
    ['b-1.example:9093']
    """
    return [found[1] for event in events if (found := _NAMED.search(str(event)))]


class _Port:
    """One port that is asked; its connections share one deadline."""

    def __init__(
        self, provider: str, address: str, certificates: Certificates, deadline: float
    ) -> None:
        host, _, port = address.rpartition(":")
        self._provider, self._address = provider, address
        self._host, self._number = host.strip("[]"), int(port)
        self._certificates, self._deadline = certificates, deadline

    def refusal(self) -> BrokerRefusedError | None:
        """Raises OSError, TimeoutError among them, and ValueError for texts that are no PEM."""
        ours = self._certificates
        context = tls_context(ours.authorities, ours.own if ours.key else "", ours.key)
        context.check_hostname = ours.checks_name
        try:
            self._shake_hands(context)
        except ssl.SSLCertVerificationError as problem:
            return self._not_trusted(problem)
        except ssl.SSLError as problem:
            return self._ours_not_taken(problem.reason or "")
        return None

    def _shake_hands(self, context: ssl.SSLContext) -> None:
        """Raises SSLError; with TLS 1.3 a port refuses our certificate after the handshake."""
        with self._line() as bare, context.wrap_socket(bare, server_hostname=self._host) as line:
            line.settimeout(min(REFUSAL_SECONDS, self._left()))
            with contextlib.suppress(TimeoutError):
                line.recv(1)

    def _line(self) -> socket.socket:
        line = connected(self._host, self._number, self._left())
        line.settimeout(self._left())
        return line

    def _left(self) -> float:
        left = self._deadline - time.monotonic()
        if left <= 0:
            raise TimeoutError
        return left

    def _not_trusted(self, problem: ssl.SSLCertVerificationError) -> BrokerRefusedError:
        shown = self._shown()
        if problem.verify_code in _NAMES:
            return CertificateNameError(
                self._provider, self._address, self._host, _names(shown) if shown else ()
            )
        if problem.verify_code in _DATES:
            return CertificateExpiredError(
                self._provider, self._address, _out_of_date(shown) or problem.verify_message
            )
        issuer = "" if shown is None else shown.issuer.rfc4514_string()
        return CertificateUntrustedError(
            self._provider,
            self._address,
            issuer,
            problem.verify_message,
            has_authorities=bool(self._certificates.authorities),
        )

    def _shown(self) -> x509.Certificate | None:
        """The certificate that the port shows to anybody; None where it does not."""
        context = ssl.create_default_context()
        context.check_hostname, context.verify_mode = False, ssl.CERT_NONE
        try:
            with self._line() as bare, context.wrap_socket(bare, server_hostname=self._host) as tls:
                return x509.load_der_x509_certificate(tls.getpeercert(binary_form=True) or b"")
        except (OSError, ValueError):
            return None

    def _ours_not_taken(self, alert: str) -> OwnCertificateError | None:
        if not any(word in alert for word in _ABOUT_OURS):
            return None
        says = alert.rpartition("ALERT_")[2].lower().replace("_", " ")
        own = self._certificates.own
        return OwnCertificateError(
            self._provider, self._address, says, _out_of_date(_read(own)), is_there=bool(own)
        )


def _read(pem: str) -> x509.Certificate | None:
    try:
        return x509.load_pem_x509_certificate(pem.encode())
    except ValueError:
        return None


def _out_of_date(certificate: x509.Certificate | None) -> str:
    """Say since when it is not valid any more, or when it will be; "" where it is valid now."""
    now = timezone.now()
    if certificate is None:
        return ""
    if certificate.not_valid_after_utc < now:
        return f"it expired on {certificate.not_valid_after_utc:%d %B %Y, %H:%M} UTC"
    if certificate.not_valid_before_utc > now:
        return f"it is valid from {certificate.not_valid_before_utc:%d %B %Y, %H:%M} UTC only"
    return ""


def _names(certificate: x509.Certificate) -> Sequence[str]:
    """The hosts that a certificate is for."""
    try:
        found = certificate.extensions.get_extension_for_class(x509.SubjectAlternativeName).value
    except (x509.ExtensionNotFound, ValueError):
        return [certificate.subject.rfc4514_string()]
    addresses = map(str, found.get_values_for_type(x509.IPAddress))
    return [*found.get_values_for_type(x509.DNSName), *addresses]
