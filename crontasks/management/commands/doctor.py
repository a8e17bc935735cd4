"""`manage.py doctor`: whether this installation can keep its promises."""

import sys
from typing import Any

from django.core.management.base import BaseCommand

from crontasks.health.checks import lines
from crontasks.health.diagnosis import diagnose


class Command(BaseCommand):
    """Exit code 1 when something is broken."""

    help = "Checks the installation: database, sessions, keys, broker, providers, beat, workers."
    requires_system_checks = []

    def handle(self, *args: Any, **options: Any) -> None:  # noqa: ARG002 - Django's signature
        checks = diagnose()
        for line in lines(checks):
            self.stdout.write(line)
        bad = sum(not check.ok for check in checks)
        if bad:
            self.stdout.write(f"\n{bad} of {len(checks)} need attention.")
            sys.exit(1)
        self.stdout.write("\nEverything is in order.")
