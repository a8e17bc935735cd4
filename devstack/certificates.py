"""Certificates for servers and clients of this machine, by an authority that nobody else trusts.

Needs the package `cryptography`, which the product has: import this only once it is set up.
"""

import time
from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta
from ipaddress import ip_address

from cryptography import x509
from cryptography.hazmat.primitives import hashes, serialization
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.x509.oid import ExtendedKeyUsageOID, NameOID

# A clock that is a little behind takes them, too.
BEFORE = timedelta(days=1)
LASTING = timedelta(days=365)


@dataclass(frozen=True)
class Issued:
    """A certificate with its key, both as PEM."""

    certificate: str
    key: str = field(repr=False)


class Authority:
    """Issues certificates that whoever has its own one trusts."""

    def __init__(self, name: str = "devstack") -> None:
        self._key = ec.generate_private_key(ec.SECP256R1())
        self._name = _named(name)
        constraints = x509.BasicConstraints(ca=True, path_length=None)
        builder = _builder(self._name, self._name, self._key.public_key(), LASTING)
        made = builder.add_extension(constraints, critical=True).sign(self._key, hashes.SHA256())
        self.certificate = _pem(made)

    def server(self, *hosts: str, lasting: timedelta = LASTING) -> Issued:
        """Issue one for these names and addresses; a negative time makes one that has expired."""
        return self._issue("server", _hosts(hosts), ExtendedKeyUsageOID.SERVER_AUTH, lasting)

    def client(self, name: str, lasting: timedelta = LASTING) -> Issued:
        """Issue one whose owner Kafka knows as `User:CN=name`."""
        return self._issue(name, None, ExtendedKeyUsageOID.CLIENT_AUTH, lasting)

    def _issue(
        self,
        name: str,
        hosts: x509.SubjectAlternativeName | None,
        purpose: x509.ObjectIdentifier,
        lasting: timedelta,
    ) -> Issued:
        key = ec.generate_private_key(ec.SECP256R1())
        builder = _builder(_named(name), self._name, key.public_key(), lasting)
        builder = builder.add_extension(x509.ExtendedKeyUsage([purpose]), critical=False)
        if hosts is not None:
            builder = builder.add_extension(hosts, critical=False)
        secret = key.private_bytes(
            serialization.Encoding.PEM,
            serialization.PrivateFormat.PKCS8,
            serialization.NoEncryption(),
        )
        return Issued(_pem(builder.sign(self._key, hashes.SHA256())), secret.decode())


def _builder(
    subject: x509.Name, issuer: x509.Name, key: ec.EllipticCurvePublicKey, lasting: timedelta
) -> x509.CertificateBuilder:
    # By this machine's clock, as they are judged.
    now = datetime.fromtimestamp(time.time(), UTC)
    return (
        x509.CertificateBuilder()
        .subject_name(subject)
        .issuer_name(issuer)
        .public_key(key)
        .serial_number(x509.random_serial_number())
        .not_valid_before(now - BEFORE)
        .not_valid_after(now + lasting)
    )


def _named(name: str) -> x509.Name:
    return x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, name)])


def _hosts(names: tuple[str, ...]) -> x509.SubjectAlternativeName:
    return x509.SubjectAlternativeName([_host(name) for name in names])


def _host(name: str) -> x509.GeneralName:
    try:
        return x509.IPAddress(ip_address(name))
    except ValueError:
        return x509.DNSName(name)


def _pem(certificate: x509.Certificate) -> str:
    return certificate.public_bytes(serialization.Encoding.PEM).decode()
