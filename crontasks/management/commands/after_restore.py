"""`manage.py after_restore`: what a restored database means, and one decision at a time."""

from typing import Any

from django.core.management.base import BaseCommand, CommandError, CommandParser

from integration.errors import IntegrationError
from integration.models import Restore
from integration.restore import deciding, examining
from integration.restore.options import Card


class Command(BaseCommand):
    """Looks into Kafka for what the lost database had done, and tells what is to be decided.

    Without `--restored` it looks only where a restore was noticed. `--decide WORD` decides the
    first open finding; run it again for the next.
    """

    help = "After a restore: what would be read, sent or delivered again, and the decisions."

    def add_arguments(self, parser: CommandParser) -> None:
        parser.add_argument(
            "--restored", metavar="WHAT", help="say that it was restored; everything is held"
        )
        parser.add_argument("--decide", metavar="WORD", help="decide the first open finding so")
        parser.add_argument("--finding", type=int, help="decide this one instead of the first")
        parser.add_argument("--actor", default="command", help="who decides, for the history")
        parser.add_argument("--reason", default="", help="why, for the history")

    def handle(self, *_args: str, **options: Any) -> None:
        try:
            if options["restored"]:
                examining.declare(options["restored"], options["actor"])
            self._go_on(options)
        except IntegrationError as problem:
            raise CommandError(f"{problem.code}: {problem}") from problem

    def _go_on(self, options: dict[str, Any]) -> None:
        restore = examining.noticed()
        if restore is None:
            self.stdout.write(
                "The database belongs here, and no restore was noticed. If it was restored all "
                "the same, say so with --restored 'what happened'."
            )
            return
        if options["decide"]:
            self._decide(options)
        else:
            restore = examining.look(restore)
        self._tell(restore)

    def _decide(self, options: dict[str, Any]) -> None:
        first = examining.overview().first
        number = options["finding"] or (None if first is None else first.finding.pk)
        if number is None:
            raise CommandError("Nothing is to be decided.")
        done = deciding.decide(
            number, options["decide"], actor=options["actor"], reason=options["reason"]
        )
        self.stdout.write(done)

    def _tell(self, restore: Restore) -> None:
        overview = examining.overview()
        self.stdout.write(restore.text)
        for remark in restore.remarks:
            self.stdout.write(f"  - {remark}")
        if overview.first is None:
            self.stdout.write("Nothing is to be decided (any more): queues and relays continue.")
            return
        self._card(overview.first)
        for card in overview.unsettled[1:]:
            self.stdout.write(f"Then {card.finding.pk}: {card.title}")

    def _card(self, card: Card) -> None:
        self.stdout.write(f"\nDecide {card.finding.pk}: {card.title}")
        self.stdout.write(f"  {card.what}\n  {card.why}")
        for option in card.options:
            advised = " (advised)" if option.is_advised else ""
            self.stdout.write(f"  --decide {option.word}{advised}: {option.label}. {option.effect}")
