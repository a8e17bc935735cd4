"""`manage.py begin BOOTSTRAP TOPIC`: tables, users, a queue; prints what the project has become."""

import json
from typing import Any

from celery import current_app
from django.conf import settings
from django.contrib.auth import get_user_model
from django.core.management import call_command
from django.core.management.base import BaseCommand, CommandParser
from django.db import connection
from django_celery_beat.models import PeriodicTask

from integration.models import EnterpriseService, ExternalSystem, Provider, Queue

OURS = ("integration", "crontasks", "console")


class Command(BaseCommand):
    """Sets up."""

    def add_arguments(self, parser: CommandParser) -> None:
        parser.add_argument("bootstrap")
        parser.add_argument("topic")

    def handle(self, *_: object, **options: Any) -> None:
        call_command("migrate", verbosity=0)
        # The project's own way with keys leaves Sluice's tables as they are.
        call_command("makemigrations", *OURS, check_changes=True, verbosity=0)
        get_user_model().objects.create_superuser("ada@shop.example", "engine", country="GB")
        get_user_model().objects.create_superuser("bob@shop.example", "engine", country="GB")
        Queue.objects.create(
            name="parts",
            provider=Provider.objects.create(name="main", bootstrap_servers=options["bootstrap"]),
            topic=options["topic"],
            kind="continuous",
            system=ExternalSystem.objects.create(name="plant"),
            default_service=EnterpriseService.objects.create(interface="PART"),
            start_from="beginning",
        )
        facts = {
            "current_app": current_app.main,
            "enabled_for_another_beat": PeriodicTask.objects.filter(enabled=True).count(),
            "keys": [
                model._meta.pk.get_internal_type()
                for model in (Queue, EnterpriseService, get_user_model())
            ],
            "session": connection.settings_dict["OPTIONS"]["options"],
            "language": settings.LANGUAGE_CODE,
        }
        self.stdout.write(json.dumps(facts))
