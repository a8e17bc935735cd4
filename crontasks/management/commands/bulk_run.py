"""`manage.py bulk_run RUN`: drives a stored run of a bulk job, goes on with one, gives one up."""

from typing import Any
from uuid import UUID

from django.core.management.base import BaseCommand, CommandError, CommandParser

from crontasks.bulk.command import drive_here
from crontasks.bulk.deciding import again, give_up
from integration.actions.configuration import Author
from integration.models import BulkRun
from integration.policy.states import BulkState


class Command(BaseCommand):
    """Exit code 1 when the run did not end well."""

    help = (
        "Drives a run of a bulk job in a Spark of its own. A run whose driver died goes on where "
        "it stopped; --again does the same for one that failed or was cancelled. --give-up drives "
        "nothing: other archives no longer wait for one whose place is gone."
    )

    # As in run_services: they load every page, and nobody needs one here.
    requires_system_checks = ()

    def add_arguments(self, parser: CommandParser) -> None:
        parser.add_argument("run", type=UUID)
        decision = parser.add_mutually_exclusive_group()
        decision.add_argument(
            "--again", action="store_true", help="although it failed or was cancelled"
        )
        decision.add_argument(
            "--give-up",
            action="store_true",
            help="an archive that failed or was cancelled; what it did not drop is archived anew",
        )
        parser.add_argument(
            "--actor", default="manage.py bulk_run", help="who gives it up, for the history"
        )
        parser.add_argument("--reason", default="", help="why it is given up, for the history")

    def handle(self, *args: Any, **options: Any) -> None:  # noqa: ARG002 - Django's signature
        run: UUID = options["run"]
        if options["give_up"]:
            self._give_up(run, Author(options["actor"], options["reason"]))
            return
        if options["again"]:
            again(run, send=False)
        if not drive_here(run, self):
            raise CommandError(_why_not(run))

    def _give_up(self, run: UUID, author: Author) -> None:
        if not give_up(run, author):
            raise CommandError("Only an archive that failed or was cancelled can be given up.")
        self.stdout.write(f"The run {run} is given up: other archives no longer wait for it.")


def _why_not(run: UUID) -> str:
    row = BulkRun.objects.filter(pk=run).first()
    if row is None:
        return f"There is no run {run}."
    if row.state == BulkState.RUNNING:
        return f"The run is driven by {row.owner}, which was heard of until {row.lease_until}."
    more = " Say --again to go on with it." if row.state != BulkState.DONE else ""
    return f"The run has ended: {row.get_state_display()}.{more}"
