"""`manage.py bulk_repair`: one change in many held failures, then their release."""

from typing import Any

from django.core.management.base import CommandError

from crontasks.bulk.command import BulkCommand


class Command(BulkCommand):
    """One repair; see docs/bulk-repair.md."""

    job = "repair"
    positional = ("recipe",)
    help = (
        "Makes one change, a JSON Patch, in every held failure that matches, and has those that it "
        "fits released by an operation. --dry-run counts all, and tries the change on a sample."
    )

    def handle(self, *args: Any, **options: Any) -> None:
        if not (options["dry_run"] or options["reason"].strip()):
            raise CommandError("Say why with --reason: it stands in the history of each message.")
        super().handle(*args, **options)
