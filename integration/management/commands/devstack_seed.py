"""The first data of a stack on one machine: somebody who can log in, and the sample."""

from typing import Any, Final

from django.apps import apps
from django.contrib.auth import get_user_model
from django.core.management import call_command
from django.core.management.base import BaseCommand, CommandError

from config import env

ADMINISTRATOR: Final = "admin"


class Command(BaseCommand):
    """`manage.py devstack_seed`; may run any number of times."""

    help = (
        "Make the user admin (password from SLUICE_ADMIN_PASSWORD) and, unless SAMPLE=0, the "
        "sample's system, topics, queues and services. What is there already stays as it is."
    )

    def handle(self, *_: object, **__: Any) -> None:  # noqa: ANN401 - Django's signature
        told = env.first_data()
        self._administrator(told.admin_password)
        if told.with_sample and apps.is_installed("sample"):
            call_command("seed_sample", stdout=self.stdout)

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
