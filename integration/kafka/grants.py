"""Rights on a cluster in Kafka's words: whose they are, and the command that grants them."""

import shlex
from collections.abc import Iterable
from dataclasses import dataclass
from typing import Final

from cryptography import x509

from integration.models.provider import Provider

ANONYMOUS: Final = "User:ANONYMOUS"
TOKEN: Final = "User:SUBJECT-OF-THE-TOKEN"  # noqa: S105 - a place to be filled in, no token
KERBEROS: Final = "User:NAME-OF-THE-KERBEROS-PRINCIPAL"
CERTIFICATE: Final = "User:SUBJECT-OF-THE-CERTIFICATE"


@dataclass(frozen=True, slots=True)
class Resource:
    """The object of a right: `option` of kafka-acls.sh, and a name or the beginning of names."""

    option: str
    name: str = ""
    is_prefix: bool = False

    @property
    def words(self) -> str:
        kind = {
            "--topic": "Topic",
            "--group": "Consumer group",
            "--transactional-id": "Transactional id",
            "--cluster": "Cluster",
        }[self.option]
        return f"{kind} {self.name}{'*' if self.is_prefix else ''}".strip()


CLUSTER: Final = Resource("--cluster")


def principal_of(provider: Provider) -> str:
    """Whom the cluster takes us for, unless it renames principals by rules of its own."""
    if provider.security_protocol.startswith("SASL"):
        by_mechanism = {
            Provider.Mechanism.OAUTHBEARER.value: TOKEN,
            Provider.Mechanism.GSSAPI.value: KERBEROS,
        }
        return by_mechanism.get(provider.sasl_mechanism, f"User:{provider.username}")
    if provider.security_protocol == Provider.Security.SSL and provider.client_certificate:
        return _subject(provider.client_certificate)
    return ANONYMOUS


def _subject(pem: str) -> str:
    try:
        return f"User:{x509.load_pem_x509_certificate(pem.encode()).subject.rfc4514_string()}"
    except ValueError:
        return CERTIFICATE


def command(provider: Provider, resource: Resource, operations: Iterable[str]) -> str:
    """Return the command by which the administrator grants these operations to our principal."""
    words = as_administrator(provider, "kafka-acls.sh")
    words += ["--add", "--allow-principal", principal_of(provider)]
    for operation in operations:
        words += ["--operation", operation]
    words.append(resource.option)
    if resource.name:
        words.append(resource.name)
    if resource.is_prefix:
        words += ["--resource-pattern-type", "prefixed"]
    return shlex.join(words)


def as_administrator(provider: Provider, tool: str) -> list[str]:
    """Return the beginning of a command of the cluster's administrator, word by word."""
    first = next(iter(addresses(provider)), "HOST:PORT")
    words = [tool, "--bootstrap-server", first]
    if provider.security_protocol != Provider.Security.PLAINTEXT:
        words += ["--command-config", "admin.properties"]
    return words


def addresses(provider: Provider) -> list[str]:
    """The bootstrap servers one by one."""
    return [part.strip() for part in provider.bootstrap_servers.split(",") if part.strip()]
