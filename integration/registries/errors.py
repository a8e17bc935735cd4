"""Errors of asking a schema registry."""

from typing import ClassVar

from integration.errors import IntegrationError


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


class SchemaNotFoundError(RegistryError):
    """The registry has no such schema, subject or version."""

    code = "SCHEMA_NOT_FOUND"

    def __init__(self, registry: str, what: str) -> None:
        step = "Register it, or correct the name or the number."
        super().__init__(registry, what, said="does not have what was asked for", next_step=step)
        self.what = what
