"""Gives an endpoint of a benchmark other properties, as its form does."""

import json
import sys
from typing import Any

from django.core.management.base import BaseCommand

from integration.models import Endpoint


class Command(BaseCommand):
    """Reads a JSON object: the endpoint's name, its type, properties, and secrets by name."""

    help = "Change an endpoint as a JSON object on standard input says."

    def handle(self, *_: Any, **__: Any) -> None:
        wanted = json.load(sys.stdin)
        endpoint = Endpoint.objects.get(name=wanted["name"])
        endpoint.endpoint_type = wanted["endpoint_type"]
        endpoint.properties = wanted["properties"]
        endpoint.secrets = json.dumps(wanted["secrets"])
        endpoint.full_clean()
        endpoint.save()
