"""`manage.py adopt_database`: let a copied database act here, by a person's decision."""

from typing import Any

from django.core.management.base import BaseCommand, CommandError, CommandParser

from integration.actions.configuration import Author
from integration.errors import IntegrationError
from integration.restore import adopting


class Command(BaseCommand):
    """Shows what adopting changes; with `--yes` it makes the database this installation's."""

    help = "Make this database belong to SLUICE_ENVIRONMENT and SLUICE_DEPLOYMENT."

    def add_arguments(self, parser: CommandParser) -> None:
        parser.add_argument("--yes", action="store_true", help="do it; otherwise it is only shown")
        parser.add_argument("--actor", default="command", help="who decides, for the history")
        parser.add_argument("--reason", default="", help="why, for the history")
        parser.add_argument(
            "--other-is-stopped",
            action="store_true",
            help="nothing runs any more on the database it was copied from",
        )

    def handle(self, *_args: str, **options: Any) -> None:
        plan = adopting.planned()
        if plan is None:
            self.stdout.write("The database belongs to this installation: there is nothing to do.")
            return
        self.stdout.write(
            f"The database belongs to {plan.from_environment} ({plan.from_name}); this is "
            f"{plan.to_environment} ({plan.to_name}). Adopting it means:"
        )
        for line in plan.consequences():
            self.stdout.write(f"  - {line}")
        if not options["yes"]:
            self.stdout.write("Nothing was changed. Add --yes to do it.")
            return
        author = Author(options["actor"], options["reason"])
        try:
            done = adopting.adopt(author, twin_is_stopped=options["other_is_stopped"])
        except IntegrationError as problem:
            raise CommandError(f"{problem.code}: {problem}") from problem
        self.stdout.write(done)
