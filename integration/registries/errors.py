"""Errors of asking a schema registry."""

from collections.abc import Mapping
from typing import ClassVar, Final

from integration.errors import IntegrationError
from integration.tls import Fault, FaultKind


class RegistryError(IntegrationError):
    """The registry was asked in vain; `why` says what happened."""

    code: ClassVar[str] = "REGISTRY_ERROR"

    def __init__(self, registry: str, why: str, *, said: str, next_step: str) -> None:
        super().__init__(f"The schema registry {registry} {said}: {why}", next_step=next_step)
        self.registry = registry
        self.why = why


class RegistryAwayError(RegistryError):
    """Nobody answers, or with an error of the registry's own, or too slowly."""

    code = "REGISTRY_AWAY"

    def __init__(self, registry: str, why: str) -> None:
        step = "Wait until it is back, or correct its address on the provider's page."
        super().__init__(registry, why, said="does not answer", next_step=step)


class RegistryRefusedError(RegistryError):
    """The registry does not let us in."""

    code = "REGISTRY_REFUSED"

    def __init__(self, registry: str, why: str) -> None:
        step = "Correct the login or the certificates on the provider's page."
        super().__init__(registry, why, said="does not let us in", next_step=step)


class RegistryCertificateError(RegistryRefusedError):
    """Its certificate is not accepted by us, or ours by the registry."""

    code = "REGISTRY_CERTIFICATE"

    def __init__(self, registry: str, host: str, fault: Fault) -> None:
        why, step = _told(host, fault), _STEPS[fault.kind]
        RegistryError.__init__(self, registry, why, said="cannot be asked securely", next_step=step)


_MOST_NAMES: Final = 5
_STEPS: Final[Mapping[FaultKind, str]] = {
    FaultKind.EXPIRED: "Let its administrator renew the certificate. If its dates are right, "
    "correct the clock of this machine.",
    FaultKind.UNTRUSTED: "Enter the certificate of the registry's own authority on the "
    "provider's page.",
    FaultKind.NAME: "Write a name of the certificate in the registry's address on the provider's "
    "page, or have one issued for this host.",
    FaultKind.MISSING: "Enter our certificate and its private key for the registry on the "
    "provider's page.",
    FaultKind.REFUSED: "Enter one that is valid and issued by an authority that the registry "
    "trusts, with its private key, on the provider's page.",
}


def _told(host: str, fault: Fault) -> str:
    """Say what is wrong with whose certificate."""
    match fault.kind:
        case FaultKind.EXPIRED:
            return f"its certificate is not valid now: {fault.says}."
        case FaultKind.UNTRUSTED:
            issued = f" It is issued by {fault.issuer}." if fault.issuer else ""
            return f"nobody whom we trust vouches for its certificate ({fault.says}).{issued}"
        case FaultKind.NAME:
            named = f" It is for {', '.join(fault.names[:_MOST_NAMES])}." if fault.names else ""
            return f"its certificate is not for the host {host}.{named}"
        case FaultKind.MISSING:
            return "it asks for a client certificate, and the provider has none."
        case FaultKind.REFUSED:
            return f"it does not accept our certificate: {fault.says}."


class SchemaNotFoundError(RegistryError):
    """The registry has no such schema, subject or version."""

    code = "SCHEMA_NOT_FOUND"

    def __init__(self, registry: str, what: str) -> None:
        step = "Register it, or correct the name or the number."
        super().__init__(registry, what, said="does not have what was asked for", next_step=step)
        self.what = what
