"""`manage.py bulk_import`: rows of files into the object store, in a Spark of its own."""

import json
import os
import socket
import sys
from pathlib import Path
from typing import Any, Final

from django.core.management.base import BaseCommand, CommandError, CommandParser

from crontasks.bulk.asking import BulkError, ImportWish, ask_import
from crontasks.bulk.driving import drive
from integration.models import BulkRun, BulkState

KINDS: Final = "text, integer, number, boolean, date or json"


class Command(BaseCommand):
    """Exit code 1 when the run did not end well; a second call with --run goes on with it."""

    help = (
        "Imports rows of CSV or JSON lines into an object structure. Every row is stored, rejected "
        "with its line and reason into a queue's failures, or skipped for a newer document."
    )

    def add_arguments(self, parser: CommandParser) -> None:
        parser.add_argument("source", type=Path, help="a file, a folder, or a pattern in quotes")
        parser.add_argument("--structure", required=True, help="the object structure's name")
        parser.add_argument(
            "--rejects-queue",
            required=True,
            help="the inbound queue whose failures the rejects are",
        )
        parser.add_argument("--format", choices=["csv", "jsonl"], default="csv")
        parser.add_argument(
            "--map",
            action="append",
            default=[],
            metavar="COLUMN=PLACE[:KIND][!]",
            help=f"for example WEIGHT=asset.weight:number! (KIND: {KINDS}; ! = required)",
        )
        parser.add_argument("--duplicates", choices=["last", "first", "reject"], default="last")
        parser.add_argument("--encoding", default="utf-8")
        parser.add_argument("--delimiter", default=",")
        parser.add_argument("--actor", default="", help="who asks, for the run's history")

    def handle(self, *args: Any, **options: Any) -> None:  # noqa: ANN401, ARG002 - Django's signature
        wish = ImportWish(
            source=options["source"],
            format=options["format"],
            structure=options["structure"],
            rejects_queue=options["rejects_queue"],
            columns=tuple(map(column, options["map"])),
            more={name: options[name] for name in ("duplicates", "encoding", "delimiter")},
        )
        try:
            run = ask_import(wish, actor=options["actor"] or "manage.py bulk_import")
        except BulkError as e:
            raise CommandError(f"{e.job_code}: {e} {e.next_step}") from e
        self.stderr.write(f"Run {run.pk} begins.")
        ended = drive(run.pk, owner=f"{socket.gethostname()}:{os.getpid()}")
        if ended is None:
            raise CommandError(f"Another driver has taken the run {run.pk}.")
        self.stdout.write(json.dumps(told(ended)))
        sys.stdout.flush()
        if ended.state != BulkState.DONE:
            sys.exit(1)


def column(text: str) -> dict[str, object]:
    """One --map as the parameters of a column."""
    source, found, place = text.partition("=")
    if not (source and found and place):
        raise CommandError(f"--map {text!r} is not COLUMN=PLACE; for example --map SITE=siteid.")
    target, _, kind = place.removesuffix("!").partition(":")
    said = {"source": source, "target": target, "required": place.endswith("!")}
    return {**said, "kind": kind} if kind else said


def told(run: BulkRun) -> dict[str, object]:
    """The run as its last line tells it."""
    return {"run": str(run.pk), "state": run.state, **run.counts, "problem": run.problem}
