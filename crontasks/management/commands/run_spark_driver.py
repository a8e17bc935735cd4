"""`manage.py run_spark_driver`: drives the bulk runs that people and schedules ask for."""

from typing import Any

from django.core.management.base import BaseCommand, CommandParser

from crontasks.bulk import driver


class Command(BaseCommand):
    """Runs until it is asked to end; a run in hand is then given back."""

    help = (
        "The Spark driver: keeps one Spark session open and drives one bulk run after the other. "
        "SIGTERM gives the run in hand back; the next driver goes on where it stopped."
    )

    # As in run_services: they load every page, and no run is driven meanwhile.
    requires_system_checks = ()

    def add_arguments(self, parser: CommandParser) -> None:
        parser.add_argument("-n", "--name", default="spark@%h", help="its name; %%h is this host")
        parser.add_argument("--loglevel", default="INFO")

    def handle(self, *args: Any, **options: Any) -> None:  # noqa: ARG002 - Django's signature
        driver.live(options["name"], options["loglevel"])
