"""The properties and secrets of every endpoint type: judged, and read as its opener takes them."""

import json
from collections.abc import Callable, Mapping
from typing import Any, ClassVar, Final

from integration.endpoints.declared import (
    Ledger,
    Properties,
    counts,
    declarations,
    judged,
    made,
)
from integration.errors import IntegrationError

# Endpoint type -> its properties; and -> where its opener is found, a function that takes them.
# Filled by `register` when Django starts.
ENDPOINT_TYPES: Final[dict[str, type[Properties]]] = {}
OPENERS: Final[dict[str, str]] = {}
# Endpoint type -> what takes (endpoint, queue) and returns what forwards the queue's messages; of
# types that are called there is none.
FORWARDS: Final[dict[str, Callable[[Any, Any], Any]]] = {}


class EndpointSettingsError(IntegrationError):
    """An endpoint cannot be opened, because its properties or secrets are wrong."""

    code: ClassVar[str] = "ENDPOINT_SETTINGS"

    def __init__(self, name: str, mistakes: list[str]) -> None:
        super().__init__(
            f"The endpoint {name} cannot be used: {' '.join(mistakes)}",
            next_step="Correct it under Endpoints, and test it there.",
        )
        self.mistakes = mistakes


def register(
    endpoint_type: str,
    properties_class: type[Properties],
    opener: str,
    forward: Callable[[Any, Any], Any] | None = None,
) -> None:
    """Make an endpoint type known; `forward` is that of one whose messages are forwarded.

    `opener` is the dotted name of what takes the properties and returns a Deliverer, or raises
    ValueError with a sentence. It is loaded where something is sent, and nowhere else.
    """
    ENDPOINT_TYPES[endpoint_type] = properties_class
    OPENERS[endpoint_type] = opener
    if forward is not None:
        FORWARDS[endpoint_type] = forward


def forwards(endpoint_type: str) -> bool:
    """Return whether endpoints of this type are other topics, to which queues forward."""
    properties_class = ENDPOINT_TYPES.get(endpoint_type)
    return properties_class is not None and properties_class.forwards


def leads_on() -> list[str]:
    """Return the endpoint types whose messages queues can read again: a circle may lead there."""
    return [name for name, known in ENDPOINT_TYPES.items() if known.forwards or known.is_at_jms]


def sends_as_it_is(endpoint_type: str, properties: Mapping[str, Any]) -> bool:
    """Return whether an endpoint with these properties sends payloads whatever is in them."""
    properties_class = ENDPOINT_TYPES.get(endpoint_type)
    return properties_class is not None and bool(properties.get(properties_class.as_it_is))


def depends_on_company(endpoint_type: str, properties: Mapping[str, Any]) -> bool:
    """Return whether repeats are dropped only where each message has a call of its own."""
    properties_class = ENDPOINT_TYPES.get(endpoint_type)
    return properties_class is not None and properties_class.depends_on_company(properties)


def ledger_of(endpoint_type: str, properties: Any) -> Ledger | None:
    """Return where such an endpoint keeps the ids of what it has delivered, and for which place."""
    properties_class = ENDPOINT_TYPES.get(endpoint_type)
    if properties_class is None or not isinstance(properties, dict):
        return None
    return properties_class.ledger_of(properties)


def choices() -> list[tuple[str, str]]:
    """Every endpoint type with what pages call it, in the order of registration."""
    return [(name, properties_class.label) for name, properties_class in ENDPOINT_TYPES.items()]


def mistakes(endpoint_type: str, properties: Any) -> dict[str, str]:
    """Tell what is wrong, as a sentence for each property; empty when they can be kept."""
    properties_class = ENDPOINT_TYPES.get(endpoint_type)
    if properties_class is None:
        return {"": f"There is no endpoint type {endpoint_type[:80]}."}
    if not isinstance(properties, dict):
        return {"": "The properties are names with values."}
    names = {name for name, field in declarations(properties_class).items() if not field.is_secret}
    wrong = {
        name: f"{name} {mistake}." for name, mistake in judged(properties_class, properties).items()
    }
    for name in properties.keys() - names:
        wrong[name] = _unknown(str(name), properties_class, names)
    return wrong or properties_class.conflicts(properties)


def _unknown(name: str, properties_class: type[Properties], names: set[str]) -> str:
    if name in declarations(properties_class):
        return f"{name} is a secret: it is stored encrypted, among the secrets."
    return f"{name[:80]} is no property of this type; known are {', '.join(sorted(names))}."


def secret_mistakes(
    endpoint_type: str, properties: Mapping[str, Any], secrets: Mapping[str, str]
) -> dict[str, str]:
    """Tell which secrets are missing beside these properties, or known to nobody, as sentences."""
    properties_class = ENDPOINT_TYPES[endpoint_type]
    secret_fields = {
        name: field for name, field in declarations(properties_class).items() if field.is_secret
    }
    wrong = {
        name: f"{name} is missing: this login needs it."
        for name, field in secret_fields.items()
        if field.is_needed and counts(field, properties_class, properties) and not secrets.get(name)
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


def read(endpoint_type: str, properties: Any, secrets: Mapping[str, str]) -> Properties:
    """The properties as their opener takes them. Raises ValueError with all that is wrong."""
    wrong = mistakes(endpoint_type, properties) or secret_mistakes(
        endpoint_type, properties, secrets
    )
    if wrong:
        raise ValueError(" ".join(wrong.values()))
    return made(ENDPOINT_TYPES[endpoint_type], properties, secrets)
