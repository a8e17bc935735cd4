"""Tries one handler with one payload and leaves no trace."""

import sys
from typing import Any, Final

from django.core.management.base import BaseCommand, CommandError, CommandParser
from django.db import connections, transaction

from integration.errors import IntegrationError
from integration.management.documents import content_of
from integration.policy.failure import Failure
from integration.store.sessions import alias
from integration.store.written import TableChange, counts, written_since
from integration.testing import Outcome, Published, run_handler

ROWS_SHOWN: Final = 5
LINE_LIMIT: Final = 400
NOT_APPLIED: Final = 1


class Command(BaseCommand):
    """`manage.py try_handler INTERFACE FILE`."""

    help = (
        "Run the handler of INTERFACE with the payload in FILE, show the rows it wrote and the "
        "messages it published, and roll everything back. The exit status is 1 when it failed."
    )

    def add_arguments(self, parser: CommandParser) -> None:
        parser.add_argument("interface", help="for example MXASSETInterface")
        parser.add_argument("file", help="JSON, XML or a whole envelope; - reads standard input")
        parser.add_argument(
            "--header", action="append", default=[], metavar="NAME=VALUE", help="a Kafka header"
        )
        parser.add_argument("--key", help="the Kafka record's key")
        parser.add_argument("--system", help="the external system it comes from")
        parser.add_argument("--user", help="the user it is to run for")
        parser.add_argument("--attempt", type=int, default=1, help="which try it is")

    def handle(self, *_: object, **options: Any) -> None:
        payload = content_of(options["file"])
        headers = [_header(text) for text in options["header"]]
        facts = {name: options[name] for name in ("system", "user", "attempt")}
        if options["key"] is not None:
            facts["key"] = options["key"].encode()
        try:
            outcome, changes = _try(options["interface"], payload, headers=headers, **facts)
        except IntegrationError as e:
            raise CommandError(str(e)) from e
        self._tell(outcome, changes)
        self.stdout.write("Everything was rolled back.")
        if outcome.failure is not None:
            sys.exit(NOT_APPLIED)

    def _tell(self, outcome: Outcome, changes: list[TableChange]) -> None:
        if outcome.failure is not None:
            self._tell_failure(outcome.failure)
            return
        ending = "Applied" if outcome.is_applied else "Superseded: its key already has newer data"
        self.stdout.write(self.style.SUCCESS(f"{ending}."))
        for change in changes:
            self._tell_change(change)
        if not changes:
            self.stdout.write("No rows written.")
        for sent in outcome.published:
            self._tell_published(sent)
        if not outcome.published:
            self.stdout.write("No messages published.")

    def _tell_failure(self, failure: Failure) -> None:
        self.stdout.write(self.style.ERROR(f"Failed: {failure.kind}, {failure.code}"))
        self.stdout.write(failure.text)
        if failure.detail:
            self.stdout.write(failure.detail)

    def _tell_change(self, change: TableChange) -> None:
        counts = {
            "inserted": change.inserted,
            "updated": change.updated,
            "deleted": change.deleted,
        }
        counted = ", ".join(f"{number} {word}" for word, number in counts.items() if number)
        self.stdout.write(f"{change.table}: {counted}")
        for row in change.rows:
            self.stdout.write(f"    {_short(row)}")

    def _tell_published(self, sent: Published) -> None:
        key = "no key" if sent.key is None else f"key {sent.key.decode(errors='replace')}"
        self.stdout.write(f"Published to {sent.topic}: {sent.interface}, {key}")
        value = b"(a tombstone)" if sent.value is None else sent.value
        self.stdout.write(f"    {_short(value.decode(errors='replace'))}")


def _try(
    interface: str,
    payload: bytes,
    **facts: Any,
) -> tuple[Outcome, list[TableChange]]:
    connection = connections[alias()]
    is_own = not connection.in_atomic_block
    with transaction.atomic(using=alias()):
        if is_own:
            with connection.cursor() as cursor:
                cursor.execute("SET TRANSACTION ISOLATION LEVEL REPEATABLE READ")
        before = counts(connection)
        outcome = run_handler(interface, payload, **facts)
        changes = [] if outcome.failure else written_since(connection, before, rows=ROWS_SHOWN)
        transaction.set_rollback(True, using=alias())
    return outcome, changes


def _header(text: str) -> tuple[str, str]:
    name, separator, value = text.partition("=")
    if not separator or not name:
        raise CommandError(f"--header {text!r} is not NAME=VALUE.")
    return name, value


def _short(text: str) -> str:
    return text if len(text) <= LINE_LIMIT else f"{text[:LINE_LIMIT]}…"
