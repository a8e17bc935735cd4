"""What the commands that ask for bulk jobs have in common: ask, look first, or drive it here."""

import json
import os
import socket
import sys
from collections.abc import Mapping
from dataclasses import asdict
from typing import Any

from django.core.management.base import BaseCommand, CommandError, CommandParser

from crontasks.bulk.asking import ask, preview
from crontasks.bulk.driving import drive
from crontasks.bulk.errors import BulkError
from integration.models import BulkRun, BulkState


class BulkCommand(BaseCommand):
    """Exit code 1 when the run did not end well; `bulk_run RUN` goes on with one."""

    job: str

    def add_arguments(self, parser: CommandParser) -> None:
        parser.add_argument(
            "--dry-run", action="store_true", help="only tell what it would meet; store nothing"
        )
        parser.add_argument(
            "--leave", action="store_true", help="leave it to the Spark driver, and do not wait"
        )
        parser.add_argument("--actor", default="", help="who asks, for the run's history")
        parser.add_argument("--reason", default="", help="why, for the run's history")

    def wish(self, options: Mapping[str, Any]) -> dict[str, Any]:
        """What the options say, as the job's wish (crontasks.bulk.wishes)."""
        raise NotImplementedError

    def handle(self, *args: Any, **options: Any) -> None:  # noqa: ANN401, ARG002 - Django's signature
        wish = self.wish(options)
        actor = options["actor"] or f"manage.py bulk_{self.job}"
        try:
            if options["dry_run"]:
                self.stdout.write(json.dumps(asdict(preview(self.job, wish)), ensure_ascii=False))
                return
            run = ask(self.job, wish, actor=actor, reason=options["reason"])
        except BulkError as e:
            raise CommandError(f"{e.job_code}: {e}") from e
        if options["leave"]:
            self.stdout.write(json.dumps(told(run)))
            return
        self.stderr.write(f"Run {run.pk} begins.")
        ended = drive(run.pk, owner=here())
        if ended is None:
            raise CommandError(f"Another driver has taken the run {run.pk}.")
        self.stdout.write(json.dumps(told(ended)))
        sys.stdout.flush()
        if ended.state != BulkState.DONE:
            sys.exit(1)


def here() -> str:
    """This process, as the owner of a run."""
    return f"{socket.gethostname()}:{os.getpid()}"


def told(run: BulkRun) -> dict[str, object]:
    """The run as its last line tells it."""
    return {
        "run": str(run.pk),
        "state": run.state,
        **run.counts,
        "facts": run.facts,
        "problem": run.problem,
    }
