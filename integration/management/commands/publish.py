"""Publishes one document through a channel, as a program would."""

from typing import Any

from django.core.management.base import BaseCommand, CommandError, CommandParser

from integration.errors import IntegrationError
from integration.handlers.publishing import Publication, publish_document
from integration.management.documents import content_of


class Command(BaseCommand):
    """`manage.py publish CHANNEL FILE`."""

    help = (
        "Publish the document in FILE to every external system that CHANNEL is set up for, in one "
        "transaction, and tell the message id of each."
    )

    def add_arguments(self, parser: CommandParser) -> None:
        parser.add_argument("channel", help="for example MXPOInterface")
        parser.add_argument(
            "file", help="JSON or XML, as the channel's format is; - reads standard input"
        )
        parser.add_argument(
            "--key", help="the message's key; without it the channel's key path finds one"
        )

    def handle(self, *_: object, **options: Any) -> None:
        content = content_of(options["file"])
        try:
            done = publish_document(options["channel"], content, options["key"])
        except IntegrationError as e:
            raise CommandError(f"{getattr(e, 'failure_code', e.code)}: {e}") from e
        self._tell(done)

    def _tell(self, done: Publication) -> None:
        for system, message_id in done.ids.items():
            self.stdout.write(f"{system}: {message_id}")
        if not done.ids:
            self.stderr.write(
                f"Nothing was published: {done.channel}, or each of its targets, is switched off "
                "or it has none. See Set up, Channels."
            )
