"""Plays the example of fault-tolerant messaging: people register while the database is away."""

from typing import Any

from django.core.exceptions import ValidationError
from django.core.management.base import BaseCommand, CommandError, CommandParser

from integration.errors import IntegrationError
from integration.models import Provider
from sample import registration


class Command(BaseCommand):
    """`manage.py sample_registration`."""

    help = (
        "Let people register on a website whose database goes away for ten seconds: nobody is "
        "turned away, and each is registered once. Only the example's own worker loses the "
        "database. Needs the sample (manage.py seed_sample)."
    )

    def add_arguments(self, parser: CommandParser) -> None:
        parser.add_argument(
            "--seconds", type=float, default=10.0, help="how long it is away (default 10)"
        )
        parser.add_argument(
            "--work", nargs=2, metavar=("PORT", "DATABASE"), help="be the example's worker"
        )

    def handle(self, *_: object, **options: Any) -> None:
        if options["work"]:
            port, database = options["work"]
            registration.work(int(port), database)
        try:
            account = registration.play(options["seconds"])
        except Provider.DoesNotExist as e:
            raise CommandError("The sample is not set up; run `manage.py seed_sample`.") from e
        except (IntegrationError, ValidationError) as e:
            raise CommandError(str(e)) from e
        self.stdout.write(str(account))
        if not account.is_right:
            raise CommandError("Not everybody is registered once.")
