"""The example's configuration: the store with its queues, its service and its channel."""

from collections.abc import Iterator
from typing import Any, Final, NamedTuple

from console.setup.channels import ChannelForm
from console.setup.providers import ProviderForm
from console.setup.services import ServiceForm
from console.setup.systems import SystemForm
from console.setup.targets import TargetForm
from integration.actions import configuration
from integration.actions.configuration import Author
from integration.models import (
    ChannelTarget,
    EnterpriseService,
    ExternalSystem,
    Provider,
    PublishChannel,
    Queue,
)
from payments import names
from sample.entering import entered, entered_cluster, entered_queue

AUTHOR: Final = Author("seed_payments", "The payment example")
# What every queue of requests has. Each message of a batch locks its payment: smaller batches keep
# the database's table of locks small.
READING: Final[dict[str, Any]] = {
    "kind": Queue.Kind.CONTINUOUS,
    "dedupe": True,
    "batch_size": 200,
    "max_retries": 5,
    "retry_delay_seconds": 5,
}


class Broker(NamedTuple):
    """Where a JMS broker is, and who may consume there."""

    server: str
    user: str
    password: str


def plant(broker: Broker | None = None) -> list[str]:
    """Make what is missing and return its names. Raises IntegrationError, ValidationError."""
    provider, done = entered_cluster(names.PROVIDER, AUTHOR)
    made = [done] if done else []
    made += _records()
    made += _inbound(provider)
    made += _outbound(provider)
    if broker is not None:
        made += _at_broker(broker)
    return made


def _records() -> Iterator[str]:
    if not ExternalSystem.objects.filter(name=names.SYSTEM).exists():
        about = "An online store: asks for payments, reads notices of them"
        row = entered(SystemForm, AUTHOR, name=names.SYSTEM, description=about)
        yield f"the external system {row}"
    if not EnterpriseService.objects.filter(interface=names.REQUEST).exists():
        fields = {
            "interface": names.REQUEST,
            "description": "Requests to charge a payment",
            "external_id_path": "$.payment",
        }
        row = entered(ServiceForm, AUTHOR, **fields)
        yield f"the enterprise service {row}"


def _inbound(provider: Provider) -> Iterator[str]:
    if Queue.objects.filter(name=names.REQUESTS).exists():
        return
    fields = {
        "name": names.REQUESTS,
        "description": "Payment requests of the store: each is charged once",
        "partitions": names.PARTITIONS,
        "create_error_queue": True,
    }
    yield _queue(provider, names.TOPICS[names.REQUESTS], **READING, **fields, **_taken())


def _outbound(provider: Provider) -> Iterator[str]:
    """The queue whose topic the store reads, and the channel that publishes to it."""
    system = ExternalSystem.objects.get(name=names.SYSTEM)
    if not Queue.objects.filter(name=names.NOTICES).exists():
        yield _queue(
            provider,
            names.TOPICS[names.NOTICES],
            name=names.NOTICES,
            description="Notices of charged payments; the store reads their topic",
            direction=Queue.Direction.OUTBOUND,
            kind=Queue.Kind.CONTINUOUS,
            partitions=names.PARTITIONS,
            system=system,
        )
    channel = PublishChannel.objects.filter(name=names.NOTICE).first()
    if channel is None:
        channel = entered(
            ChannelForm,
            AUTHOR,
            name=names.NOTICE,
            description="Says that a payment was charged",
            envelope=False,
            key_path="$.payment",
            external_id_path="$.payment",
        )
        yield f"the channel {channel}"
    if not ChannelTarget.objects.filter(channel=channel, system=system).exists():
        queue = Queue.objects.get(name=names.NOTICES)
        entered(TargetForm, AUTHOR, channel=channel, system=system, queue=queue)
        yield f"the target {system} of {channel}"


def _at_broker(broker: Broker) -> Iterator[str]:
    """A provider for the broker, and the queue that has the same requests charged."""
    provider = Provider.objects.filter(name=names.JMS_PROVIDER).first()
    if provider is None:
        provider = entered(
            ProviderForm,
            AUTHOR,
            name=names.JMS_PROVIDER,
            kind=Provider.Kind.JMS,
            bootstrap_servers=broker.server,
            security_protocol=Provider.Security.SASL_PLAINTEXT,
            username=broker.user,
            password=broker.password,
        )
        yield f"the provider {provider}"
    elif (provider.bootstrap_servers, provider.password) != (broker.server, broker.password):
        # The broker of `make run` has taken another port.
        provider.bootstrap_servers, provider.password = broker.server, broker.password
        configuration.save(provider, AUTHOR)
        yield f"the provider {provider} point at {broker.server}"
    if not Queue.objects.filter(name=names.JMS_REQUESTS).exists():
        fields = {
            "name": names.JMS_REQUESTS,
            "description": "Payment requests of older applications, by JMS",
        }
        yield _queue(provider, names.JMS_ADDRESS, **READING, **fields, **_taken())


def _taken() -> dict[str, Any]:
    """Who sends the requests, and what takes them."""
    return {
        "system": ExternalSystem.objects.get(name=names.SYSTEM),
        "default_service": EnterpriseService.objects.get(interface=names.REQUEST),
    }


def _queue(provider: Provider, topic: str, **fields: Any) -> str:
    queue = entered_queue(provider, topic, AUTHOR, **fields)
    place = "at the address" if provider.is_jms else "on the topic"
    return f"the queue {queue} {place} {queue.topic}"
