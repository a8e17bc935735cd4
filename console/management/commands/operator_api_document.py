"""`manage.py operator_api_document`: write the operator API's document for its command line."""

import json
from typing import Any

from django.core.management.base import BaseCommand

from console.api.urls import document
from sluice_cli.operations import DOCUMENT


class Command(BaseCommand):
    """Needed after a change of the API; a test tells when."""

    help = "Write the OpenAPI document of the operator API to the file that `sluice` is built from."
    requires_system_checks = ()

    def handle(self, *_: Any, **__: Any) -> None:
        DOCUMENT.write_text(f"{json.dumps(document(), indent=1)}\n", encoding="utf-8")
        self.stdout.write(f"{DOCUMENT} was written.")
