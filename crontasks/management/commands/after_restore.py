"""`manage.py after_restore`: what a restored or copied database says, and letting it act."""

from typing import Any

from django.conf import settings
from django.core.management.base import BaseCommand, CommandParser

from integration.models import Deployment, OutboxRow, QueuePartition
from integration.selectors.deployment import foreign_environment


class Command(BaseCommand):
    """Shows where reading will go on and what is in doubt; `--act-here` takes the database over.

    It changes nothing without `--act-here`. What Kafka has that this database does not know
    (messages sent after the backup) is for a person to compare.
    """

    help = "After a restore or a copy: show positions and doubts; --act-here lets it act."

    def add_arguments(self, parser: CommandParser) -> None:
        parser.add_argument(
            "--act-here",
            action="store_true",
            help="make this database belong to SLUICE_ENVIRONMENT, so that its queues start",
        )

    def handle(self, *_args: str, **options: Any) -> None:  # noqa: ANN401 - Django's signature
        self._positions()
        self._outbox()
        if options["act_here"]:
            self._take_over()
        else:
            self._tell_owner()

    def _positions(self) -> None:
        self.stdout.write("Reading goes on from these positions:")
        for place in QueuePartition.objects.select_related("queue"):
            end = "unknown" if place.high_watermark is None else f"{place.high_watermark:,}"
            self.stdout.write(
                f"  {place}: {place.next_offset:,} (end when last seen: {end}), {place.state}"
            )

    def _outbox(self) -> None:
        for state in ("PENDING", "STAMPED"):
            count = OutboxRow.objects.filter(state=state).count()
            self.stdout.write(f"Outgoing rows {state}: {count:,}")
        self.stdout.write(
            "  STAMPED rows are settled by the relay from Kafka's watermark, or wait IN DOUBT."
        )

    def _tell_owner(self) -> None:
        owner = foreign_environment()
        if owner is None:
            self.stdout.write("The database belongs to this environment: it may act.")
            return
        self.stdout.write(
            f"The database belongs to {owner!r}, this process to "
            f"{settings.SLUICE_ENVIRONMENT!r}: nothing is started. If the positions above are "
            "right and this copy is meant to act, run it again with --act-here."
        )

    def _take_over(self) -> None:
        changed = Deployment.objects.update(environment=settings.SLUICE_ENVIRONMENT)
        self.stdout.write(
            f"The database now belongs to {settings.SLUICE_ENVIRONMENT!r}; queues start by "
            "themselves."
            if changed
            else "There is no deployment row yet; run `manage.py migrate` first."
        )
