"""The properties and secrets of every handler type: judged, and read as its handler takes them."""

import json
from collections.abc import Mapping
from typing import Any, ClassVar, Final

from integration.endpoints.declared import Properties, counts, declarations, judged, made
from integration.errors import IntegrationError

# Handler type -> its properties; and -> where its opener is found, a function that takes them.
# Filled by `register` when Django starts.
KINDS: Final[dict[str, type[Properties]]] = {}
OPENERS: Final[dict[str, str]] = {}


class EndpointSettingsError(IntegrationError):
    """An endpoint cannot be opened, because its properties or secrets are wrong."""

    code: ClassVar[str] = "ENDPOINT_SETTINGS"

    def __init__(self, name: str, mistakes: list[str]) -> None:
        super().__init__(
            f"The endpoint {name} cannot be used: {' '.join(mistakes)}",
            next_step="Correct it under Endpoints, and test it there.",
        )
        self.mistakes = mistakes


def register(handler_type: str, kind: type[Properties], opener: str) -> None:
    """Make an endpoint type known.

    `opener` is the dotted name of what takes the properties and returns a Deliverer, or raises
    ValueError with a sentence. It is loaded where something is sent, and nowhere else.
    """
    KINDS[handler_type] = kind
    OPENERS[handler_type] = opener


def choices() -> list[tuple[str, str]]:
    """Every endpoint type with what pages call it, in the order of registration."""
    return [(name, kind.label) for name, kind in KINDS.items()]


def mistakes(handler_type: str, properties: Any) -> dict[str, str]:
    """Tell what is wrong, as a sentence for each property; empty when they can be kept."""
    kind = KINDS.get(handler_type)
    if kind is None:
        return {"": f"There is no handler type {handler_type[:80]}."}
    if not isinstance(properties, dict):
        return {"": "The properties are names with values."}
    names = {name for name, field in declarations(kind).items() if not field.is_secret}
    wrong = {name: f"{name} {mistake}." for name, mistake in judged(kind, properties).items()}
    for name in properties.keys() - names:
        wrong[name] = _unknown(str(name), kind, names)
    return wrong or kind.conflicts(properties)


def _unknown(name: str, kind: type[Properties], names: set[str]) -> str:
    if name in declarations(kind):
        return f"{name} is a secret: it is stored encrypted, among the secrets."
    return f"{name[:80]} is no property of this type; known are {', '.join(sorted(names))}."


def secret_mistakes(
    handler_type: str, properties: Mapping[str, Any], secrets: Mapping[str, str]
) -> dict[str, str]:
    """Tell which secrets are missing beside these properties, or known to nobody, as sentences."""
    kind = KINDS[handler_type]
    secret_fields = {name: field for name, field in declarations(kind).items() if field.is_secret}
    wrong = {
        name: f"{name} is missing: this login needs it."
        for name, field in secret_fields.items()
        if field.is_needed and counts(field, kind, properties) and not secrets.get(name)
    }
    for name in secrets.keys() - secret_fields.keys():
        wrong[name] = f"{name[:80]} is no secret of this type."
    if properties.get("client_certificate") and not secrets.get("client_key"):
        wrong["client_key"] = "client_key is missing: our certificate needs its private key."
    return wrong


def read_secrets(text: str) -> dict[str, str]:
    """The secrets of an endpoint by name, from the JSON object that is stored sealed.

    Raises ValueError with a sentence.
    """
    if not text:
        return {}
    rule = "The secrets are a JSON object of names and texts."
    try:
        secrets = json.loads(text)
    except ValueError:
        raise ValueError(rule) from None
    if not isinstance(secrets, dict) or not all(isinstance(v, str) for v in secrets.values()):
        raise ValueError(rule)
    return secrets


def read(handler_type: str, properties: Any, secrets: Mapping[str, str]) -> Properties:
    """The properties as their handler takes them. Raises ValueError with all that is wrong."""
    wrong = mistakes(handler_type, properties) or secret_mistakes(handler_type, properties, secrets)
    if wrong:
        raise ValueError(" ".join(wrong.values()))
    return made(KINDS[handler_type], properties, secrets)
