"""The page of an endpoint: its settings in words, what uses it, what tests found."""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Final

from integration.counting import so_many
from integration.endpoints.declared import Shape, counts, declarations, default_of
from integration.endpoints.properties import ENDPOINT_TYPES, forwards, read_secrets
from integration.models import Endpoint, EndpointTest, ExternalSystem, Provider, Queue
from integration.models.fields import SecretUnreadableError
from integration.selectors.scope import Scope
from integration.selectors.setup.nouns import Use
from integration.selectors.setup.queues import is_foreign

SHOWN_TESTS: Final = 10
NOT_YOUR_TOPIC: Final = (
    "topic must be one of the external systems you look after: a topic of their queues, or one "
    "whose name begins with that of the system."
)


@dataclass(frozen=True, slots=True)
class Setting:
    """One property as people read it. `is_default`: nobody chose it."""

    label: str
    value: Any
    is_default: bool = False
    is_long: bool = False


def about(endpoint: Endpoint) -> Mapping[str, object]:
    """Everything its page shows beyond the row itself."""
    return {
        "settings": settings_of(endpoint),
        "secrets": secrets_of(endpoint),
        "forwards": forwards(endpoint.endpoint_type),
        "tests": list(EndpointTest.objects.filter(endpoint=endpoint)[:SHOWN_TESTS]),
    }


def provider_names() -> list[str]:
    """The clusters that an endpoint can forward to."""
    clusters = Provider.objects.filter(kind=Provider.Kind.KAFKA)
    return list(clusters.order_by("name").values_list("name", flat=True))


def topic_mistakes(
    provider: str, topic: str, system: ExternalSystem | None, scope: Scope
) -> dict[str, str]:
    """Why an endpoint of this system may not forward there, by property.

    People whom a scope limits forward to topics of their own systems only.
    """
    cluster = Provider.objects.filter(name=provider, kind=Provider.Kind.KAFKA).first()
    if cluster is None:
        return {"provider": "provider is none that is set up: choose one."}
    there = Queue(provider=cluster, topic=topic, system=system)
    return {"topic": NOT_YOUR_TOPIC} if is_foreign(there, scope, is_made=False) else {}


def settings_of(endpoint: Endpoint) -> list[Setting]:
    """The properties that count, with the values that hold where nothing is stored."""
    properties_class = ENDPOINT_TYPES.get(endpoint.endpoint_type)
    if properties_class is None or not isinstance(endpoint.properties, dict):
        return []
    settings = []
    for name, declared in declarations(properties_class).items():
        if declared.is_secret or not counts(declared, properties_class, endpoint.properties):
            continue
        value = endpoint.properties.get(name, default_of(properties_class, name))
        is_default = name not in endpoint.properties
        if value in ("", None, [], {}):
            continue
        if declared.shape is Shape.CHOICE:
            value = dict(declared.choices).get(value, value)
        elif declared.shape is Shape.NUMBER:
            value = f"{value:g}"
        is_long = declared.shape in {Shape.PEM, Shape.PAIRS}
        settings.append(Setting(declared.label, value, is_default, is_long))
    return settings


def secrets_of(endpoint: Endpoint) -> list[Setting]:
    """Name the secrets that are stored, of those that count; never their values."""
    properties_class = ENDPOINT_TYPES.get(endpoint.endpoint_type)
    if properties_class is None:
        return []
    try:
        stored: Mapping[str, str] = read_secrets(endpoint.secrets)
    except (ValueError, SecretUnreadableError):
        return [Setting("Secrets", "cannot be read; enter them again")]
    return [
        Setting(declared.label, "set" if stored.get(name) else "not set")
        for name, declared in declarations(properties_class).items()
        if declared.is_secret and counts(declared, properties_class, endpoint.properties)
    ]


def uses_of_endpoint(endpoint: Endpoint, scope: Scope) -> list[Use]:
    """The queues and targets that deliver to it."""
    queues = endpoint.queues.filter(scope.within("system"))
    targets = endpoint.targets.select_related("channel", "system")
    return [
        *(Use("queue", queue.pk, queue.name, "delivers its messages here") for queue in queues),
        *(Use("channeltarget", target.pk, str(target), "delivers here") for target in targets),
    ]


def stopped_with_endpoint(endpoint: Endpoint) -> str:
    """Say what switching it off stops, as a sentence with counts."""
    queues, targets = endpoint.queues.count(), endpoint.targets.count()
    if not queues + targets:
        return "nothing. Nothing delivers to it yet."
    return (
        f"Deliveries of {so_many(queues, 'queue')} and {so_many(targets, 'target')} of channels "
        "wait. No retry is spent, nothing is lost, and they continue when it is switched on."
    )
