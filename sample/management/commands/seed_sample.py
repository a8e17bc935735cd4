"""Makes the sample's configuration."""

from typing import Any

from django.core.exceptions import ValidationError
from django.core.management.base import BaseCommand, CommandError

from integration.errors import IntegrationError
from sample import seed


class Command(BaseCommand):
    """`manage.py seed_sample`; may run any number of times."""

    help = "Make the sample's system, topics, queues and services; what is there stays as it is."

    def handle(self, *_: object, **__: Any) -> None:  # noqa: ANN401 - Django's signature
        try:
            made = seed.plant()
        except IntegrationError as e:
            raise CommandError(str(e)) from e
        except ValidationError as e:
            raise CommandError(f"The sample cannot be made: {' '.join(e.messages)}") from e
        for name in made:
            self.stdout.write(f"Made {name}.")
