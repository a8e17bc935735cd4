"""Makes the sample's configuration."""

from typing import Any

from django.core.exceptions import ValidationError
from django.core.management.base import BaseCommand, CommandError, CommandParser

from integration.errors import IntegrationError
from sample import seed
from sample.removal import was_removed


class Command(BaseCommand):
    """`manage.py seed_sample`; may run any number of times."""

    help = "Make the sample's system, topics, queues and services; what is there stays as it is."

    def add_arguments(self, parser: CommandParser) -> None:
        parser.add_argument(
            "--unless-removed", action="store_true", help="not where a person removed it"
        )

    def handle(self, *_: object, **options: Any) -> None:
        if options["unless_removed"] and was_removed():
            self.stdout.write("The sample was removed; `seed_sample` makes it again.")
            return
        try:
            made = seed.plant()
        except IntegrationError as e:
            raise CommandError(str(e)) from e
        except ValidationError as e:
            raise CommandError(f"The sample cannot be made: {' '.join(e.messages)}") from e
        for name in made:
            self.stdout.write(f"Made {name}.")
