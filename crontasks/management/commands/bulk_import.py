"""`manage.py bulk_import`: rows of files into the object store, in a Spark of its own."""

from collections.abc import Mapping
from typing import Any, Final

from django.core.management.base import CommandError, CommandParser

from crontasks.bulk.command import BulkCommand

KINDS: Final = "text, integer, number, boolean, date or json"


class Command(BulkCommand):
    """One import; see docs/bulk.md."""

    job = "import"
    help = (
        "Imports rows of CSV or JSON lines into an object structure. Every row is stored, rejected "
        "with its line and reason into a queue's failures, or skipped for a newer document."
    )

    def add_arguments(self, parser: CommandParser) -> None:
        parser.add_argument("source", help="a file, a folder, or a pattern in quotes")
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
        super().add_arguments(parser)

    def wish(self, options: Mapping[str, Any]) -> dict[str, Any]:
        plain = ("source", "format", "structure", "rejects_queue", "duplicates", "encoding")
        return {
            **{name: options[name] for name in (*plain, "delimiter")},
            "columns": list(map(column, options["map"])),
        }


def column(text: str) -> dict[str, object]:
    """One --map as the parameters of a column."""
    source, found, place = text.partition("=")
    if not (source and found and place):
        raise CommandError(f"--map {text!r} is not COLUMN=PLACE; for example --map SITE=siteid.")
    target, _, kind = place.removesuffix("!").partition(":")
    said = {"source": source, "target": target, "required": place.endswith("!")}
    return {**said, "kind": kind} if kind else said
