"""Forwards as they are set up: none may lead a topic, or a JMS address, back into itself."""

from collections import defaultdict
from collections.abc import Iterable, Mapping, Sequence
from typing import Any

from integration.endpoints import properties
from integration.endpoints.declared import default_of
from integration.models.provider import Provider
from integration.policy import jms
from integration.policy.forwards import Place, circle, jms_place


def target_of(endpoint: Any) -> tuple[str, str]:
    """Return the names of provider and topic that an endpoint forwards to, as they are stored."""
    stored = _stored(endpoint)
    return str(stored.get("provider", "")), str(stored.get("topic", ""))


def circle_through(queues: Sequence[Any], others: Iterable[Any]) -> str:
    """Return why one of these queues would feed itself, with all others' help, or nothing.

    Each of them leads to its `endpoint`. Clusters are the same that have the same addresses; a JMS
    broker is known by each of its servers.
    """
    clusters = dict(Provider.objects.values_list("name", "bootstrap_servers"))
    forwards: dict[Place, list[tuple[str, Place]]] = defaultdict(list)
    for queue in [*queues, *others]:
        for source in _sources(queue):
            forwards[source].append((queue.name, _end(queue.endpoint, clusters)))
    for queue in queues:
        way = next(filter(None, (circle(forwards, source) for source in _sources(queue))), None)
        if way:
            return (
                f"Messages of {queue.topic} would go round for ever: {' → '.join(way)} forwards "
                "them back to it. Choose another destination."
            )
    return ""


def forwarding(queues: Any) -> Any:
    """Of a query of queues those that lead on, with what `circle_through` asks of them."""
    types = properties.leads_on()
    chosen = queues.filter(direction="outbound", endpoint__endpoint_type__in=types)
    return chosen.select_related("provider", "endpoint")


def leads_on(queue: Any) -> bool:
    """Return whether another queue can read again what becomes of its messages."""
    is_outbound = queue.direction == queue.Direction.OUTBOUND
    return queue.endpoint is not None and is_outbound and queue.endpoint.leads_on


def _sources(queue: Any) -> list[Place]:
    """What a queue reads; of a JMS broker as each of its servers has it."""
    provider = queue.provider
    if not provider.is_jms:
        return [(provider.bootstrap_servers, queue.topic)]
    kind = "topic" if queue.subscription else "queue"
    has_tls = provider.security_protocol.endswith("SSL")
    servers = jms.servers(provider.bootstrap_servers, has_tls=has_tls)
    return [jms_place(host, port, kind, queue.topic) for host, port in servers]


def _end(endpoint: Any, clusters: Mapping[str, str]) -> Place:
    """Where the messages of an endpoint that leads on can be read again."""
    known = properties.ENDPOINT_TYPES[endpoint.endpoint_type]
    if known.forwards:
        provider, topic = target_of(endpoint)
        return clusters.get(provider, provider), topic
    stored = _stored(endpoint)
    host, port, kind, address = (
        stored.get(name) or default_of(known, name)
        for name in ("host", "port", "address_kind", "address")
    )
    return jms_place(str(host).strip("[]"), port, kind, str(address))


def _stored(endpoint: Any) -> Mapping[str, Any]:
    return endpoint.properties if isinstance(endpoint.properties, dict) else {}
