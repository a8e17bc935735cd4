"""`manage.py check_flow QUEUE`: walks from the provider to the position, names what is broken."""

import sys
from typing import Any

from django.core.management.base import BaseCommand, CommandError, CommandParser

from crontasks.flow import check_flow
from crontasks.links import lines
from integration.models import Queue


class Command(BaseCommand):
    """Exit code 1 when a link is broken, 2 when there is no such queue."""

    help = "Why does nothing flow? Looks at every link of a queue and names the broken one."

    def add_arguments(self, parser: CommandParser) -> None:
        parser.add_argument("queue", help="the queue's name")

    def handle(self, *args: Any, **options: Any) -> None:  # noqa: ANN401, ARG002 - Django's signature
        name = options["queue"]
        queue = (
            Queue.objects.select_related("provider", "system", "default_service__structure")
            .filter(name=name)
            .first()
        )
        if queue is None:
            known = ", ".join(Queue.objects.values_list("name", flat=True)[:20]) or "none"
            message = f"There is no queue {name!r}. Queues are: {known}."
            raise CommandError(message, returncode=2)
        links = check_flow(queue)
        for line in lines(links):
            self.stdout.write(line)
        first = next((link for link in links if not link.ok), None)
        if first is not None:
            self.stdout.write(f"\nMend first: {first.name}. {first.next_step}")
            sys.exit(1)
        self.stdout.write(f"\n{name}: nothing is broken.")
