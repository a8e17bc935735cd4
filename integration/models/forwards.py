"""Forwards between topics as they are set up: none may lead a topic back into itself."""

from collections import defaultdict
from collections.abc import Iterable, Sequence
from typing import Any

from integration.endpoints import properties
from integration.models.provider import Provider
from integration.policy.forwards import Place, circle


def target_of(endpoint: Any) -> tuple[str, str]:
    """Return the names of provider and topic that an endpoint forwards to, as they are stored."""
    stored = endpoint.properties if isinstance(endpoint.properties, dict) else {}
    return str(stored.get("provider", "")), str(stored.get("topic", ""))


def circle_through(queues: Sequence[Any], others: Iterable[Any]) -> str:
    """Return why one of these queues would feed itself, with all others' help, or nothing.

    All of them forward, each to its `endpoint`. Clusters are the same that have the same addresses.
    """
    clusters = dict(Provider.objects.values_list("name", "bootstrap_servers"))
    forwards: dict[Place, list[tuple[str, Place]]] = defaultdict(list)
    for queue in [*queues, *others]:
        provider, topic = target_of(queue.endpoint)
        target = clusters.get(provider, provider), topic
        forwards[queue.provider.bootstrap_servers, queue.topic].append((queue.name, target))
    for queue in queues:
        way = circle(forwards, (queue.provider.bootstrap_servers, queue.topic))
        if way:
            return (
                f"Messages of {queue.topic} would go round for ever: {' → '.join(way)} forwards "
                "them back to it. Choose another topic."
            )
    return ""


def forwarding(queues: Any) -> Any:
    """Of a query of queues those that forward, with what `circle_through` asks of them."""
    types = [name for name in properties.ENDPOINT_TYPES if properties.forwards(name)]
    chosen = queues.filter(direction="outbound", endpoint__endpoint_type__in=types)
    return chosen.select_related("provider", "endpoint")
