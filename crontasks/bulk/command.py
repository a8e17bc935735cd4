"""The base of all commands that ask for bulk jobs: ask, look first, or drive it here."""

import json
import signal
import sys
import threading
from collections.abc import Mapping, Sequence
from contextlib import suppress
from dataclasses import asdict
from typing import Any, ClassVar
from uuid import UUID

from django.core.management.base import BaseCommand, CommandError, CommandParser

from crontasks.bulk.asking import ask, preview
from crontasks.bulk.cancelled import what_stays
from crontasks.bulk.catalogue import CATALOGUE
from crontasks.bulk.deciding import cancel
from crontasks.bulk.driving import drive
from crontasks.bulk.errors import BulkError
from crontasks.parameters import Described, describe
from integration.models import BulkRun
from integration.policy.states import BulkState
from integration.worker import worker_name
from spark_jobs.errors import Stopped


class BulkCommand(BaseCommand):
    """Its options are the fields of the job's job request.

    Exit code 1 when the run did not end well; `bulk_run RUN` goes on with one.
    """

    job: ClassVar[str]
    # Of the job request: what needs no word before it; texts of lines, each by a word.
    positional: ClassVar[Sequence[str]] = ()
    lines: ClassVar[Mapping[str, str]] = {}

    def add_arguments(self, parser: CommandParser) -> None:
        for one in describe(CATALOGUE[self.job].job_request):
            self._add(parser, one)
        parser.add_argument(
            "--dry-run", action="store_true", help="only tell what it would meet; store nothing"
        )
        parser.add_argument(
            "--leave", action="store_true", help="leave it to the Spark driver, and do not wait"
        )
        parser.add_argument("--actor", default="", help="who asks, for the run's history")
        parser.add_argument("--reason", default="", help="why, for the run's history")

    def _add(self, parser: CommandParser, one: Described) -> None:
        text = one.text.replace("%", "%%")
        word = f"--{self.lines.get(one.name, one.name).replace('_', '-')}"
        if one.name in self.positional:
            parser.add_argument(one.name, help=text)
        elif one.name in self.lines:
            parser.add_argument(word, dest=one.name, action="append", default=[], help=text)
        else:
            asked = {"required": True} if one.is_required else {"default": one.default}
            parser.add_argument(word, dest=one.name, help=f"{text} ({one.kind})", **asked)

    def _job_request(self, options: Mapping[str, Any]) -> dict[str, Any]:
        """What was said: what is as usual follows a later release, and agrees to nothing."""
        described = describe(CATALOGUE[self.job].job_request)
        given = {one.name: options[one.name] for one in described}
        given |= {name: "\n".join(given[name]) for name in self.lines}
        usual = {one.name: one.default for one in described if not one.is_required}
        return {n: value for n, value in given.items() if n not in usual or value != usual[n]}

    def handle(self, *args: Any, **options: Any) -> None:  # noqa: ARG002 - Django's signature
        job_request = self._job_request(options)
        actor = options["actor"] or f"manage.py bulk_{self.job}"
        is_left = options["leave"]
        try:
            if options["dry_run"]:
                seen = asdict(preview(self.job, job_request))
                self.stdout.write(json.dumps(seen, ensure_ascii=False))
                return
            run = ask(self.job, job_request, actor=actor, reason=options["reason"], send=is_left)
        except BulkError as e:
            raise CommandError(f"{e.job_code}: {e}") from e
        if is_left:
            self.stdout.write(_last_line(run))
            return
        self.stderr.write(f"Run {run.pk} begins.")
        if not drive_here(run.pk, self):
            raise CommandError(f"Another driver has taken the run {run.pk}.")


def drive_here(run: UUID, command: BaseCommand) -> bool:
    """Drive it in this process and write its last line; False when it is another's.

    Ends the process with 1 when the run did not end well. Ctrl-C cancels the run, as the console's
    button does. A second one ends this process at once: then the next driver cancels it.
    """
    is_asked = threading.Event()

    def heed() -> None:
        if is_asked.is_set():
            raise Stopped

    def heard(_signal: int, _frame: object) -> None:
        if is_asked.is_set():
            raise KeyboardInterrupt
        is_asked.set()
        # It may come amid a line of the log.
        with suppress(RuntimeError):
            command.stderr.write("Cancelling; once more ends this process at once.")

    before = signal.signal(signal.SIGINT, heard)
    try:
        ended = drive(run, owner=worker_name(), heed=heed)
    except KeyboardInterrupt as e:
        cancel(run)
        raise CommandError(f"Ended at once. {_go_on(run)}") from e
    finally:
        signal.signal(signal.SIGINT, before)
    if ended is not None:
        write_end(ended, command)
    return ended is not None


def write_end(run: BulkRun, command: BaseCommand) -> None:
    """Write how it ended; ends the process with 1 unless it is done."""
    command.stdout.write(_last_line(run))
    command.stdout.flush()
    if run.state == BulkState.CANCELLED:
        command.stderr.write(f"Cancelled. {what_stays(run)} {_go_on(run.pk)}")
    if run.state != BulkState.DONE:
        sys.exit(1)


def _last_line(run: BulkRun) -> str:
    said = {"run": str(run.pk), "state": run.state, **run.counts}
    return json.dumps({**said, "facts": run.facts, "problem": run.problem})


def _go_on(run: UUID) -> str:
    return f"To go on with it: python manage.py bulk_run {run} --again"
