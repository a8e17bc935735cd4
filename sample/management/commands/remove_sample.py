"""Takes the sample away."""

import getpass
from typing import Any

from django.core.management.base import BaseCommand, CommandError, CommandParser

from integration.actions.configuration import Author
from integration.errors import IntegrationError
from sample import removal


class Command(BaseCommand):
    """`manage.py remove_sample`; may run any number of times."""

    help = (
        "Remove the sample's systems, queues, topics, failures and documents, and end its traffic. "
        "`seed_sample` makes it again."
    )

    def add_arguments(self, parser: CommandParser) -> None:
        parser.add_argument("--reason", default="by command", help="for the history of changes")

    def handle(self, *_: object, **options: Any) -> None:
        if not removal.is_there():
            self.stdout.write("The sample is not there.")
            return
        author = Author(f"remove_sample ({getpass.getuser()})", options["reason"])
        try:
            done = removal.remove(author)
        except IntegrationError as problem:
            raise CommandError(f"{problem.code}: {problem}") from problem
        self.stdout.write("The sample is gone:")
        for line in done:
            self.stdout.write(f"  {line}")
