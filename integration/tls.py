"""What is wrong with the certificates between a port and us, asked by a handshake of our own.

Where TLS fails, client libraries say so in OpenSSL's words, or tell of a broken connection only.
Here the port's certificate is judged as they judge it, by the same authorities and for the same
name, and ours is shown to the port. Nothing secret is sent.
"""

import contextlib
import socket
import ssl
import time
from collections.abc import Sequence
from dataclasses import dataclass, field
from enum import StrEnum
from typing import Final

from cryptography import x509
from django.utils import timezone

from integration.certificates import tls_context
from integration.resolving import connected

# For all of it, names included.
ASK_SECONDS: Final = 3.0
# So long after the handshake a port may still say that it does not want our certificate.
REFUSAL_SECONDS: Final = 1.0
# OpenSSL's own numbers.
_DATES: Final = frozenset({9, 10})
_NAMES: Final = frozenset({62, 63, 64})
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


class FaultKind(StrEnum):
    """Whose certificate it is, and what is wrong with it."""

    EXPIRED = "EXPIRED"  # the port's is not valid any more, or not yet
    UNTRUSTED = "UNTRUSTED"  # nobody whom we trust vouches for the port's
    NAME = "NAME"  # the port's is for other hosts
    MISSING = "MISSING"  # the port asks for ours, and there is none
    REFUSED = "REFUSED"  # the port does not take ours


@dataclass(frozen=True, slots=True, kw_only=True)
class Fault:
    """A fault; `says` is the end of a sentence, `names` and `issuer` stand in the port's one."""

    kind: FaultKind
    says: str = ""
    names: Sequence[str] = ()
    issuer: str = ""


def fault(host: str, number: int, certificates: Certificates, deadline: float) -> Fault | None:
    """Find what keeps us from a TLS connection with this port; None where nothing does.

    `deadline` is by the monotonic clock. Raises OSError, TimeoutError among them, and ValueError
    for texts that are no PEM.
    """
    return _Port(host, number, certificates, deadline).fault()


class _Port:
    """One port that is asked; its connections share one deadline."""

    def __init__(self, host: str, number: int, certificates: Certificates, deadline: float) -> None:
        self._host, self._number = host, number
        self._certificates, self._deadline = certificates, deadline

    def fault(self) -> Fault | None:
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

    def _not_trusted(self, problem: ssl.SSLCertVerificationError) -> Fault:
        shown, says = self._shown(), problem.verify_message
        if problem.verify_code in _NAMES:
            return Fault(kind=FaultKind.NAME, names=_names(shown) if shown else ())
        if problem.verify_code in _DATES:
            return Fault(kind=FaultKind.EXPIRED, says=_out_of_date(shown) or says)
        issuer = "" if shown is None else shown.issuer.rfc4514_string()
        return Fault(kind=FaultKind.UNTRUSTED, says=says, issuer=issuer)

    def _shown(self) -> x509.Certificate | None:
        """The certificate that the port shows to anybody; None where it does not."""
        context = ssl.create_default_context()
        context.check_hostname, context.verify_mode = False, ssl.CERT_NONE
        try:
            with self._line() as bare, context.wrap_socket(bare, server_hostname=self._host) as tls:
                return x509.load_der_x509_certificate(tls.getpeercert(binary_form=True) or b"")
        except (OSError, ValueError):
            return None

    def _ours_not_taken(self, alert: str) -> Fault | None:
        if not any(word in alert for word in _ABOUT_OURS):
            return None
        own = self._certificates.own
        if not own:
            return Fault(kind=FaultKind.MISSING)
        says = alert.rpartition("ALERT_")[2].lower().replace("_", " ")
        return Fault(
            kind=FaultKind.REFUSED, says=_out_of_date(_read(own)) or f"it answers “{says}”"
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
