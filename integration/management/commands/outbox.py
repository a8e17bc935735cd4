"""`manage.py outbox`: what Kafka refused and what is in doubt, and a person's decisions on it."""

import getpass
import sys
from argparse import ArgumentParser
from collections.abc import Sequence
from typing import Any, Final
from uuid import UUID

from django.core.management.base import BaseCommand, CommandError, CommandParser

from integration.actions import outbox
from integration.actions.errors import ReasonMissingError
from integration.errors import IntegrationError
from integration.policy.states import OutboxState
from integration.selectors.outbox import rows as outbox_rows
from integration.selectors.outbox.rows import Doubt, OutboxFilter

STATES: Final = {
    "refused": OutboxState.DEAD,
    "waiting": OutboxState.PENDING,
    "stamped": OutboxState.STAMPED,
}
MOVED_ON: Final = 1
MISUNDERSTOOD: Final = 2


class Command(BaseCommand):
    """Exit code 0 done or nothing to do; 1 something waits for a person, or has moved on.

    2 when the request cannot be carried out as it is: no such row or relay, or no reason.
    """

    help = (
        "The outbox: `list` what Kafka refused or the relay is in doubt about (exit code 1 when "
        "there is any), `send-again` or `give-up` rows, say whether a batch is `sent` or "
        "`not-sent`."
    )

    def add_arguments(self, parser: CommandParser) -> None:
        verbs = parser.add_subparsers(dest="verb", required=True, parser_class=ArgumentParser)
        shown = verbs.add_parser("list", help="what waits, and what to do now")
        shown.add_argument("--state", choices=STATES, default="refused")
        shown.add_argument("--limit", type=int, default=20, help="rows to show")
        _add_filter(shown)
        for verb, words in (
            ("send-again", "give refused rows back to the relay"),
            ("give-up", "never send refused rows; cannot be undone"),
        ):
            decided = verbs.add_parser(verb, help=words)
            decided.add_argument("rows", nargs="*", type=int, help="row numbers; or a filter")
            _add_filter(decided)
            _add_who(decided)
        for verb, words in (
            ("sent", "the batch in doubt is in Kafka"),
            ("not-sent", "the batch in doubt is not in Kafka: send it"),
        ):
            sub = verbs.add_parser(verb, help=words)
            sub.add_argument("provider", help="whose relay is in doubt")
            _add_who(sub)

    def handle(self, *_args: str, **options: Any) -> None:
        verb = options["verb"]
        try:
            if verb == "list":
                is_clean = self._list(options)
            elif verb in {"sent", "not-sent"}:
                is_clean = self._resolve(options)
            else:
                is_clean = self._decide(options)
        except ReasonMissingError as problem:
            raise CommandError(f"{problem} Use --reason.", returncode=MISUNDERSTOOD) from None
        except IntegrationError as problem:
            raise CommandError(str(problem), returncode=MOVED_ON) from None
        if not is_clean:
            sys.exit(MOVED_ON)

    def _list(self, options: dict[str, Any]) -> bool:
        doubts = outbox_rows.doubts()
        for doubt in doubts:
            self._tell_doubt(doubt)
        filters = _filter(options, STATES[options["state"]])
        page = outbox_rows.page(filters, size=max(1, options["limit"]))
        for line in page.rows:
            row = line.row
            about = f", message {row.message_id}" if row.message_id else ""
            self.stdout.write(f"Row {row.pk} to {row.topic}{about}")
            self.stdout.write(f"  {line.account.what}\n  -> {line.account.now}")
        if page.count > len(page.rows):
            more = f"{page.shown_count:,}{' or more' if page.is_capped else ''}"
            self.stdout.write(f"{len(page.rows)} of {more} rows; use --limit to see others.")
        refused = outbox_rows.dead_count()
        if not page.rows and not doubts:
            self.stdout.write("Nothing to show." if refused else "Kafka refused nothing.")
        return not doubts and not refused

    def _tell_doubt(self, doubt: Doubt) -> None:
        self.stdout.write(
            f"IN DOUBT since {doubt.since:%d %B %Y, %H:%M:%S} UTC: the relay of {doubt.relay}. "
            f"{doubt.text}\n  Rows {doubt.first} to {doubt.last}, to {', '.join(doubt.topics)}; "
            "together or not at all. Nothing is sent until you decide.\n"
            f"  -> `manage.py outbox sent {doubt.relay}` if they are in Kafka, "
            f"`manage.py outbox not-sent {doubt.relay}` if not."
        )

    def _decide(self, options: dict[str, Any]) -> bool:
        chosen = _chosen(options)
        by = {"actor": _actor(options), "reason": options["reason"]}
        if options["verb"] == "send-again":
            outcome = outbox.send_again_many(chosen, **by)
            done = "given back to the relay"
        else:
            outcome = outbox.give_up_many(chosen, **by)
            done = "given up"
        self.stdout.write(f"{outcome.moved:,} row(s) were {done}.")
        if outcome.moved_on:
            self.stdout.write(
                f"{outcome.moved_on:,} were left alone: Kafka has not refused them, or somebody "
                "has decided or is deciding. `manage.py outbox list` shows what is left."
            )
        return not outcome.moved_on

    def _resolve(self, options: dict[str, Any]) -> bool:
        name = options["provider"]
        doubts = {doubt.relay: doubt for doubt in outbox_rows.doubts()}
        if name not in doubts:
            providers = ", ".join(doubts) or "none"
            message = f"No relay of a provider {name!r} is in doubt. In doubt are: {providers}."
            raise CommandError(message, returncode=MISUNDERSTOOD)
        count = outbox.resolve_in_doubt(
            doubts[name].lease_id,
            batch=doubts[name].batch,
            sent=options["verb"] == "sent",
            actor=_actor(options),
            reason=options["reason"],
        )
        done = "marked as sent" if options["verb"] == "sent" else "given back, to be sent"
        self.stdout.write(f"{count:,} row(s) were {done}. The relay continues within seconds.")
        return True


def _add_filter(parser: ArgumentParser) -> None:
    parser.add_argument("--queue", default="", help="of this outbound queue")
    parser.add_argument("--topic", default="", help="to this topic")
    parser.add_argument("--code", default="", help="refused with this code")


def _add_who(parser: ArgumentParser) -> None:
    parser.add_argument("--reason", default="", help="why; give-up needs one")
    parser.add_argument("--actor", default="", help="who decides; else the terminal's user")


def _filter(options: dict[str, Any], state: OutboxState) -> OutboxFilter:
    return OutboxFilter(
        state=state, queue=options["queue"], topic=options["topic"], code=options["code"]
    )


def _chosen(options: dict[str, Any]) -> dict[int, UUID | None]:
    """The rows named, or all refused ones that match the filter."""
    rows: Sequence[int] = options["rows"]
    filters = _filter(options, OutboxState.DEAD)
    if bool(rows) == (not filters.is_default):
        message = "Name rows by their numbers, or choose them by --queue, --topic or --code."
        raise CommandError(message, returncode=MISUNDERSTOOD)
    if not rows:
        selection = outbox_rows.selection(filters)
        if not selection:
            raise CommandError("No refused row matches.", returncode=MISUNDERSTOOD)
        return selection
    current = outbox_rows.as_now(list(rows))
    missing = [str(row) for row in rows if row not in current]
    if missing:
        message = f"Not in the outbox: {', '.join(missing)}. Nothing was changed."
        raise CommandError(message, returncode=MISUNDERSTOOD)
    return current


def _actor(options: dict[str, Any]) -> str:
    return (options["actor"] or f"{getpass.getuser()} (terminal)")[:150]
