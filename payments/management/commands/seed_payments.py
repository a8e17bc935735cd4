"""Makes the configuration of the payment example."""

import sys
from typing import Any

from django.core.exceptions import ValidationError
from django.core.management.base import BaseCommand, CommandError, CommandParser

from integration.errors import IntegrationError
from payments import seed


class Command(BaseCommand):
    """`manage.py seed_payments`; may run any number of times."""

    help = (
        "Make the store, its queues of payment requests and notices, and the channel; what is "
        "there stays as it is."
    )

    def add_arguments(self, parser: CommandParser) -> None:
        parser.add_argument(
            "--jms", metavar="HOST:PORT", help="also a queue that reads requests from a JMS broker"
        )
        parser.add_argument("--user", default="", help="who may consume there")
        parser.add_argument("--password", help="without it, it is read from standard input")

    def handle(self, *_: object, **options: Any) -> None:
        broker = None
        if options["jms"]:
            password = options["password"] or sys.stdin.readline().strip()
            broker = seed.Broker(options["jms"], options["user"], password)
        try:
            made = seed.plant(broker)
        except IntegrationError as e:
            raise CommandError(str(e)) from e
        except ValidationError as e:
            problems = " ".join(e.messages)
            raise CommandError(f"The payment example cannot be made: {problems}") from e
        for name in made:
            self.stdout.write(f"Made {name}.")
