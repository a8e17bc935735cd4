"""Configures the queues of a benchmark through the models, as the forms of the console do."""

import json
import sys
from typing import Any

from django.conf import settings
from django.core.management.base import BaseCommand

from integration import registration
from integration.models import EnterpriseService, ExternalSystem, Provider, Queue


class Command(BaseCommand):
    """Reads a JSON list of queues (fields of the model, `interface` for its default service)."""

    help = "Configure the queues of a benchmark from a JSON list on standard input."

    def handle(self, *_: Any, **__: Any) -> None:  # noqa: ANN401 - Django's signature
        provider, _made = Provider.objects.get_or_create(
            name="bench", defaults={"bootstrap_servers": settings.SLUICE_KAFKA_BOOTSTRAP}
        )
        system, _made = ExternalSystem.objects.get_or_create(name="benchmarks")
        ids = {}
        for wanted in json.load(sys.stdin):
            interface = wanted.pop("interface")
            service, _made = EnterpriseService.objects.get_or_create(interface=interface)
            queue = Queue(
                provider=provider,
                system=system,
                default_service=service,
                start_from=Queue.StartFrom.BEGINNING,
                **wanted,
            )
            queue.full_clean()
            registration.check(queue)
            queue.save()
            registration.register(queue)
            ids[queue.name] = queue.pk
        self.stdout.write(json.dumps(ids))
