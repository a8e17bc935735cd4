"""The first data of a stack on one machine: somebody who can log in, and the sample."""

from typing import Any, Final

from django.apps import apps
from django.contrib.auth import get_user_model
from django.core.management import call_command
from django.core.management.base import BaseCommand, CommandError, CommandParser

from sluice import env

ADMINISTRATOR: Final = "admin"


class Command(BaseCommand):
    """`manage.py devstack_seed`; may run any number of times."""

    help = (
        "Make the user admin (password from SLUICE_ADMIN_PASSWORD) and the sample's system, "
        "topics, queues and services. What is there already stays as it is."
    )

    def add_arguments(self, parser: CommandParser) -> None:
        parser.add_argument("--no-sample", action="store_true", help="make the user only")

    def handle(self, *_: object, **options: Any) -> None:
        self._administrator(env.admin_password())
        if not options["no_sample"] and apps.is_installed("sample"):
            call_command("seed_sample", unless_removed=True, stdout=self.stdout)

    def _administrator(self, password: str) -> None:
        users = get_user_model().objects
        if users.filter(username=ADMINISTRATOR).exists():
            return
        if not password:
            raise CommandError(
                "There is no user admin yet and SLUICE_ADMIN_PASSWORD is not set. Set it, or make "
                "a user with `python manage.py createsuperuser`."
            )
        users.create_superuser(username=ADMINISTRATOR, password=password)
        self.stdout.write("Made the user admin.")
