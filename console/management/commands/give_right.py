"""Rights for roles where nobody who could log in has them: an upgrade gives a new one to nobody."""

import getpass
from typing import Any

from django.core.management.base import BaseCommand, CommandError, CommandParser

from console.layout.access import Right
from console.people import roles
from console.people.roles import RoleUnknownError
from integration.actions.configuration import Author


class Command(BaseCommand):
    """`manage.py give_right ROLE RIGHT`; says what the role may do then."""

    help = (
        "Give everybody who has the ROLE one more RIGHT. Roles stay as they are in an upgrade, "
        "so that a new right has to be given: under People, Roles by whoever has it, else by this "
        "command. The audit has who gave it, and why."
    )

    def add_arguments(self, parser: CommandParser) -> None:
        parser.add_argument("role", help="such as Administrators")
        parser.add_argument("right", choices=[right.word for right in Right], help="the right")
        parser.add_argument("--reason", required=True, help="why; kept in the audit")

    def handle(self, *_: object, **options: Any) -> None:
        [right] = (one for one in Right if one.word == options["right"])
        author = Author(f"{getpass.getuser()} (terminal)"[:150], options["reason"])
        try:
            is_new = roles.give(options["role"], right, author)
        except RoleUnknownError as problem:
            raise CommandError(f"{problem.code}: {problem}") from problem
        if is_new:
            self.stdout.write(f"Whoever has the role {options['role']} may now {right.words}.")
        else:
            self.stdout.write(
                f"Whoever has the role {options['role']} may {right.words} already; nothing was "
                "changed."
            )
