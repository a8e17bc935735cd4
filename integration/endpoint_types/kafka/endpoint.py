"""Another topic of Kafka as an endpoint that is tested: can it be written to, and a sample."""

from collections.abc import Sequence
from typing import Final

from django.conf import settings
from django.db import DatabaseError, transaction

from integration.endpoint_types.kafka.properties import KafkaProperties
from integration.endpoints.codes import EndpointCode
from integration.endpoints.port import Accepted, Answer, Later, OutboundMessage, Unreachable
from integration.handlers.outgoing import MESSAGE_ID
from integration.kafka import admin
from integration.kafka.errors import ProviderError
from integration.kafka.rights import Wanted, missing
from integration.kafka.watermark import RELAY_TOPIC
from integration.models import Provider
from integration.store import outbox
from integration.store.sessions import alias
from integration.values import Outgoing

# The beginning of the transactional ids that the provider's relay writes by (runs.relay).
_IDS: Final = "sluice.{deployment}.{provider}."


class KafkaEndpoint:
    """One opened endpoint that is a topic; see integration.endpoints.port.Deliverer.

    A queue that forwards does not call it: what it forwards is in its own transaction
    (endpoint_types.kafka.forwarding).
    """

    at_once = 1
    within_seconds: float | None = None

    def __init__(self, properties: KafkaProperties) -> None:
        self._properties = properties

    def deliver(self, messages: Sequence[OutboundMessage]) -> Sequence[Answer]:
        return [self._one(message) for message in messages]

    def connect(self) -> Answer:
        """Ask the cluster for the topic, and for our rights to write to it; nothing is written."""
        provider, topic = self._provider(), self._properties.topic
        if provider is None:
            return self._nowhere()
        try:
            facts = admin.topic_facts(provider, topic)
        except ProviderError as problem:
            return Unreachable(code=problem.code, text=str(problem))
        if facts is None:
            text = f"There is no topic {topic} at {provider.name}. Create it, or correct its name."
            return Unreachable(code=EndpointCode.TOPIC_MISSING, text=text)
        refused = missing(provider, _wanted(provider, topic))
        if refused:
            first = refused[0]
            text = f"{first.title}: {', '.join(first.refused)} is refused. {first.command}".strip()
            return Unreachable(code="BROKER_RIGHTS", text=text)
        return Accepted(text=f"{topic} is there, with {facts.partitions} partitions.")

    def close(self) -> None:
        """Hold nothing open."""

    def _one(self, message: OutboundMessage) -> Answer:
        try:
            provider = self._provider()
            if provider is None:
                return self._nowhere()
            with transaction.atomic(using=alias()):
                outbox.insert([self._record(message, provider)])
        except DatabaseError as problem:
            text = f"The outbox did not take it: {problem}".strip().rstrip(".")
            return Later(code=EndpointCode.DATABASE_BUSY, text=f"{text}.", may_quote=True)
        text = f"It is in the outbox; the relay of {provider.name} writes it to Kafka."
        return Accepted(text=text)

    def _record(self, message: OutboundMessage, provider: Provider) -> Outgoing:
        return Outgoing(
            topic=self._properties.topic,
            value=message.body,
            key=message.key.encode() or None,
            headers=[(MESSAGE_ID, message.message_id.encode())],
            provider_id=provider.pk,
            message_id=message.message_id,
        )

    def _provider(self) -> Provider | None:
        named = Provider.objects.using(alias()).filter(name=self._properties.provider)
        return named.filter(kind=Provider.Kind.KAFKA).first()

    def _nowhere(self) -> Unreachable:
        text = f"There is no Kafka cluster {self._properties.provider}. Correct it in the endpoint."
        return Unreachable(code=EndpointCode.PROVIDER_MISSING, text=text)


def _wanted(provider: Provider, topic: str) -> Wanted:
    return Wanted(
        reads=[],
        writes=[topic],
        ids=_IDS.format(deployment=settings.SLUICE_DEPLOYMENT, provider=provider.pk),
        relay_topic=RELAY_TOPIC,
        lag_groups=f"{settings.SLUICE_DEPLOYMENT}-",
    )
