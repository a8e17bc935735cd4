"""What the commands that ask for bulk jobs have in common: ask, look first, or drive it here."""

import json
import os
import socket
import sys
from collections.abc import Mapping, Sequence
from dataclasses import asdict
from typing import Any, ClassVar

from django.core.management.base import BaseCommand, CommandError, CommandParser

from crontasks.bulk.asking import ask, preview
from crontasks.bulk.catalogue import CATALOGUE
from crontasks.bulk.driving import drive
from crontasks.bulk.errors import BulkError
from crontasks.parameters import Described, describe
from integration.models import BulkRun, BulkState


class BulkCommand(BaseCommand):
    """Its options are the fields of the job's wish.

    Exit code 1 when the run did not end well; `bulk_run RUN` goes on with one.
    """

    job: ClassVar[str]
    # Of the wish: what is told without a word before it, and texts of lines, each told by a word.
    positional: ClassVar[Sequence[str]] = ()
    lines: ClassVar[Mapping[str, str]] = {}

    def add_arguments(self, parser: CommandParser) -> None:
        for one in describe(CATALOGUE[self.job].wish):
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

    def _wish(self, options: Mapping[str, Any]) -> dict[str, Any]:
        said = {one.name: options[one.name] for one in describe(CATALOGUE[self.job].wish)}
        return said | {name: "\n".join(said[name]) for name in self.lines}

    def handle(self, *args: Any, **options: Any) -> None:  # noqa: ANN401, ARG002 - Django's signature
        wish = self._wish(options)
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
