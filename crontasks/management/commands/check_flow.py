"""`manage.py check_flow QUEUE`: looks at every link of a queue and names what is broken."""

import sys
from typing import Any

from django.core.management.base import BaseCommand, CommandError, CommandParser
from django.db import Error, ProgrammingError

from crontasks.health.checks import first_broken, lines, reason
from crontasks.health.flow import check_flow
from integration.models import Queue


class Command(BaseCommand):
    """Exit code 1 when a link or the database is broken, 2 when there is no such queue."""

    help = "Why does nothing flow? Looks at every link of a queue and names the broken one."
    requires_system_checks = []

    def add_arguments(self, parser: CommandParser) -> None:
        parser.add_argument("queue", help="the queue's name")

    def handle(self, *args: Any, **options: Any) -> None:  # noqa: ARG002 - Django's signature
        try:
            self._walk(options["queue"])
        except ProgrammingError as e:
            message = (
                f"The database is not that of this release ({reason(e)}), so nothing can be "
                "looked at: run `python manage.py migrate`."
            )
            raise CommandError(message) from e
        except Error as e:
            message = (
                f"The database does not answer ({reason(e)}), so no queue runs and nothing can "
                "be looked at: start PostgreSQL, or correct SLUICE_DATABASE_URL."
            )
            raise CommandError(message) from e

    def _walk(self, name: str) -> None:
        queue = (
            Queue.objects.select_related("provider", "system", "default_service__structure")
            .filter(name=name)
            .first()
        )
        if queue is None:
            names = ", ".join(Queue.objects.values_list("name", flat=True)[:20]) or "none"
            message = f"There is no queue {name!r}. Queues are: {names}."
            raise CommandError(message, returncode=2)
        links = check_flow(queue)
        for line in lines(links):
            self.stdout.write(line)
        first = first_broken(links)
        if first is not None:
            self.stdout.write(f"\nFix first: {first.name}. {first.next_step}")
            sys.exit(1)
        self.stdout.write(f"\n{name}: nothing is broken.")
