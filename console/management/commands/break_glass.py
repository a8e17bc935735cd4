"""A way in for when no other is left: a one-time code, made where the console runs."""

import getpass
from typing import Any

from django.core.management.base import BaseCommand, CommandError, CommandParser

from console.people import codes
from console.people.accounts import PersonProtectedError
from integration.actions.configuration import Author

DAY_MINUTES = 1_440


class Command(BaseCommand):
    """`manage.py break_glass NAME`; writes a code to standard output, and a line to the log."""

    help = (
        "Make a code with which the account NAME logs in once, at /login/code/ of the console, "
        "without password, identity provider or second factor. If there is no such account, one "
        "is made that may do everything and has no password. The code and the login are in the "
        "audit."
    )

    def add_arguments(self, parser: CommandParser) -> None:
        parser.add_argument("name", help="the account")
        parser.add_argument("--reason", required=True, help="why; kept in the audit")
        parser.add_argument(
            "--valid-minutes", type=int, default=15, help="how long the code can be used"
        )
        parser.add_argument(
            "--session-minutes", type=int, default=60, help="how long the session lasts at most"
        )

    def handle(self, *_: object, **options: Any) -> None:
        for name in ("valid_minutes", "session_minutes"):
            if not 1 <= options[name] <= DAY_MINUTES:
                option = name.replace("_", "-")
                raise CommandError(f"--{option} must be between 1 and {DAY_MINUTES} (a day).")
        author = Author(f"{getpass.getuser()} (break-glass)"[:150], options["reason"])
        minutes, lasts = options["valid_minutes"], options["session_minutes"]
        try:
            text = codes.make(options["name"], author, valid_minutes=minutes, session_minutes=lasts)
        except PersonProtectedError as problem:
            raise CommandError(str(problem)) from problem
        self.stderr.write(
            f"Enter this code at /login/code/ of the console within {minutes} minutes. It works "
            f"once, and the session lasts {lasts} minutes at most."
        )
        self.stdout.write(text)
