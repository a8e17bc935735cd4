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
    `idempotent` tells that repeats are dropped there; `system` is a system of its own.
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
            queue = Queue(
                provider=provider,
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
        if interface is not None:
            service, _made = EnterpriseService.objects.get_or_create(interface=interface)
            return {"default_service": service}
        if address is None:
            return {"direction": Queue.Direction.OUTBOUND}
        endpoint = Endpoint(
            name=request["name"],
            system=system,
            endpoint_type="http",
            properties={"url": address, "private_network": True},
            idempotent=request.pop("idempotent", False),
        )
        endpoint.full_clean()
        endpoint.save()
        return {"endpoint": endpoint, "direction": Queue.Direction.OUTBOUND}
