"""One-time codes by which somebody gets in when no other way is left."""

import logging
from datetime import timedelta
from typing import ClassVar, Final

from django.contrib.auth.models import User
from django.db import transaction

from console.models import LoginCode
from console.people import accounts
from integration.actions import configuration
from integration.actions.configuration import Author
from integration.errors import IntegrationError
from integration.http_api.tokens import hash_of, is_token, new_token, prefix_of
from integration.store.sessions import database_now

log = logging.getLogger(__name__)
# Compared with where no code has that prefix, so that the answer takes as long.
_NOBODY: Final = hash_of("")


class LoginCodeRefusedError(IntegrationError):
    """The code is not known, was used, or has expired; or its person may not log in."""

    code: ClassVar[str] = "LOGIN_CODE_REFUSED"

    def __init__(self) -> None:
        super().__init__(
            "This code is not known, was used already, or has expired.",
            next_step="Make a new one with `manage.py break_glass` on the console's host.",
        )


def make(name: str, author: Author, *, valid_minutes: int, session_minutes: int) -> str:
    """A code for the account of this name, shown once; only its hash is kept.

    There may be no such account: then one is made that may do everything, and has no password.
    Raises PersonProtectedError for an account that is switched off, or that cannot be made.
    """
    new = new_token()
    with transaction.atomic():
        person = accounts.named(name)
        if person is None:
            person = accounts.make(name, "", author, is_superuser=True)
        elif not person.is_active:
            raise accounts.PersonProtectedError(
                f"{name} may not log in.", next_step="Name another account, or a new one."
            )
        LoginCode.objects.filter(expires_at__lt=database_now()).delete()
        code = LoginCode.objects.create(
            person=person,
            prefix=new.prefix,
            code_hash=new.token_hash,
            minutes=session_minutes,
            expires_at=database_now() + timedelta(minutes=valid_minutes),
        )
        facts = {"code": new.prefix, "minutes": session_minutes}
        configuration.record(person, {}, facts, author)
    log.warning(
        "break-glass: %s made the one-time code %s… for the account %s (%s)",
        author.actor,
        code.prefix,
        name,
        author.reason or "no reason given",
    )
    return new.text


def taken(text: str) -> tuple[User, int]:
    """The person of a code, and how many minutes their session may last; the code is used then.

    Raises LoginCodeRefusedError.
    """
    prefix = prefix_of(text)
    with transaction.atomic():
        valid = LoginCode.objects.select_for_update(of=("self",)).select_related("person")
        code = valid.filter(prefix=prefix, expires_at__gt=database_now()).first()
        if not is_token(text, code.code_hash if code else _NOBODY) or code is None:
            raise LoginCodeRefusedError
        code.delete()
    person: User = code.person
    if not person.is_active:
        raise LoginCodeRefusedError
    log.warning("break-glass: %s logs in by the one-time code %s…", person, code.prefix)
    return person, code.minutes
