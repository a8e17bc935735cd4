"""A stored secret is only ever sent where it was stored for, whoever changes what it belongs to.

Forms ask for it again, and a configuration file over HTTP is refused.
"""

from collections.abc import Iterator, Mapping
from typing import Any, Final
from urllib.parse import urlsplit

from django.db import models

from integration.endpoints.properties import ENDPOINT_TYPES, read_secrets
from integration.models import Endpoint, Provider
from integration.policy.client_properties import PRODUCER

# What decides of a provider where its secrets go, beside its properties.
DESTINATION: Final = frozenset({"kind", "bootstrap_servers", "security_protocol", "sasl_mechanism"})
CLUSTER_SECRETS: Final = frozenset({"password", "client_key"})
REGISTRY_SECRETS: Final = frozenset({"registry_password", "registry_client_key"})
# Every column of a provider that decides it.
LEADING: Final = DESTINATION | {"properties", "registry_url"}


def redirected(was: models.Model, row: models.Model) -> Iterator[str]:
    """Yield the secrets that are as they were stored, and would be sent elsewhere by what differs.

    Each is named as a configuration file has it: `password`, `secrets.password`.
    """
    if isinstance(was, Provider):
        before, after = ({name: getattr(one, name) for name in LEADING} for one in (was, row))
        for name in sorted(redirected_of_provider(before, after)):
            if getattr(was, name) and getattr(was, name) == getattr(row, name):
                yield name
    if isinstance(was, Endpoint) and isinstance(row, Endpoint) and _is_moved(was, row):
        present = read_secrets(row.secrets)
        for name, value in sorted(read_secrets(was.secrets).items()):
            if value and present.get(name) == value:
                yield f"secrets.{name}"


def redirected_of_provider(before: Mapping[str, Any], after: Mapping[str, Any]) -> frozenset[str]:
    """Return the secrets of a provider that these values of LEADING would send elsewhere."""
    is_moved = any(before.get(name) != after.get(name) for name in DESTINATION)
    is_moved = is_moved or _leading(before.get("properties")) != _leading(after.get("properties"))
    is_registry_moved = before.get("registry_url") != after.get("registry_url")
    none: frozenset[str] = frozenset()
    return (CLUSTER_SECRETS if is_moved else none) | (
        REGISTRY_SECRETS if is_registry_moved else none
    )


def leads_elsewhere(endpoint_type: str, before: object, after: object) -> bool:
    """Return whether an endpoint of the type sends its secrets elsewhere by the later properties.

    Another path of the same host is no other destination.
    """
    properties_class = ENDPOINT_TYPES.get(endpoint_type)
    old, new = _members(before), _members(after)
    if properties_class is None:
        return old != new
    names = properties_class.secrets_go_by
    return any(_place(old.get(name)) != _place(new.get(name)) for name in names)


def _is_moved(was: Endpoint, row: Endpoint) -> bool:
    is_another = was.endpoint_type != row.endpoint_type
    return is_another or leads_elsewhere(was.endpoint_type, was.properties, row.properties)


def _members(value: object) -> Mapping[str, Any]:
    return value if isinstance(value, Mapping) else {}


def _leading(properties: object) -> dict[str, object]:
    """All properties but those of producers, which say nothing of where anything is sent."""
    return {name: value for name, value in _members(properties).items() if name not in PRODUCER}


def _place(value: object) -> object:
    """Of an address its host and how that is spoken to, of another value all of it."""
    if not isinstance(value, str) or "://" not in value:
        return value
    try:
        parts = urlsplit(value)
    except ValueError:
        return value
    return parts.scheme, parts.netloc.lower()
