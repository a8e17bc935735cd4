"""Configures the queues of a benchmark through the models, as the forms of the console do."""

import json
import sys
from typing import Any

from django.conf import settings
from django.core.management.base import BaseCommand

from integration import registration
from integration.models import (
    ChannelTarget,
    Endpoint,
    EnterpriseService,
    ExternalSystem,
    Provider,
    PublishChannel,
    Queue,
)


class Command(BaseCommand):
    """Reads a JSON list of queues: fields of the model, and `interface` for its default service.

    An outbound queue has `address` instead: where its messages are posted to; with neither,
    partners read its topic. With `channel` it takes the messages of a channel of that name,
    `idempotent` tells that repeats are dropped there; `system` is a system of its own. With `jms`
    (port, user and password of a JMS broker) it reads there, and `forwards_to` is its topic.
    """

    help = "Configure the queues of a benchmark from a JSON list on standard input."

    def handle(self, *_: Any, **__: Any) -> None:
        provider, _made = Provider.objects.get_or_create(
            name="bench", defaults={"bootstrap_servers": settings.SLUICE_KAFKA_BOOTSTRAP}
        )
        ids = {}
        for request in json.load(sys.stdin):
            named = request.pop("system", "benchmarks")
            system, _made = ExternalSystem.objects.get_or_create(name=named)
            channel = request.pop("channel", None)
            jms = request.pop("jms", None)
            queue = Queue(
                provider=provider if jms is None else self._broker(jms),
                system=system,
                **self._taker(request, system),
                start_from=Queue.StartFrom.BEGINNING,
                **request,
            )
            queue.full_clean()
            registration.check(queue)
            queue.save()
            registration.register(queue)
            if channel is not None:
                made = PublishChannel.objects.create(name=channel)
                ChannelTarget.objects.create(channel=made, system=system, queue=queue)
            ids[queue.name] = queue.pk
        self.stdout.write(json.dumps(ids))

    def _taker(self, request: dict[str, Any], system: ExternalSystem) -> dict[str, Any]:
        """Return what takes the queue's messages: a handler, an endpoint over HTTP, or a reader."""
        address = request.pop("address", None)
        interface = request.pop("interface", None)
        forwards_to = request.pop("forwards_to", None)
        if forwards_to is not None:
            properties = {"provider": "bench", "topic": forwards_to}
            return self._endpoint(request, system, "kafka", properties)
        if interface is not None:
            service, _made = EnterpriseService.objects.get_or_create(interface=interface)
            return {"default_service": service}
        if address is None:
            return {"direction": Queue.Direction.OUTBOUND}
        properties = {"url": address, "private_network": True}
        return self._endpoint(request, system, "http", properties)

    def _endpoint(
        self,
        request: dict[str, Any],
        system: ExternalSystem,
        endpoint_type: str,
        properties: dict[str, Any],
    ) -> dict[str, Any]:
        """Return the endpoint of an outbound queue."""
        endpoint = Endpoint(
            name=request["name"],
            system=system,
            endpoint_type=endpoint_type,
            properties=properties,
            idempotent=request.pop("idempotent", False),
        )
        endpoint.full_clean()
        endpoint.save()
        return {"endpoint": endpoint, "direction": Queue.Direction.OUTBOUND}

    def _broker(self, jms: dict[str, Any]) -> Provider:
        """Return the provider of a JMS broker on this machine."""
        provider, _made = Provider.objects.get_or_create(
            name="bench-jms",
            defaults={
                "kind": Provider.Kind.JMS,
                "bootstrap_servers": f"127.0.0.1:{jms['port']}",
                "security_protocol": Provider.Security.SASL_PLAINTEXT,
                "username": jms["user"],
                "password": jms["password"],
            },
        )
        return provider
