"""What a person shows after the password: kept, asked for, known again."""

import hmac
import json
import re
import secrets
import time
from collections.abc import Iterable
from datetime import datetime
from typing import Any, Final

import pyotp
from django.conf import settings
from django.contrib.auth.models import Group, User
from django.db import transaction
from django.db.models import Q
from django.utils.crypto import salted_hmac

from console.models import SecondFactor
from integration.actions import configuration
from integration.actions.configuration import Author
from integration.actions.shown_once import just_before
from integration.store.sessions import database_now

Kind = SecondFactor.Kind
# What proves alone that it is the person; recovery codes are for when these are lost.
STRONG: Final = (Kind.APP, Kind.PASSKEY)
STEP_SECONDS: Final = 30
# By so many steps the clock of somebody's telephone may differ.
STEPS: Final = (0, -1, 1)
CODES: Final = 10
CODE_LETTERS: Final = "abcdefghjkmnpqrstuvwxyz23456789"
CODE_LENGTH: Final = 12
OF_APP: Final = re.compile(r"[0-9]{6}")
SALT: Final = "console.people.second.recovery"


def factors_of(person: User) -> list[SecondFactor]:
    """Everything that the person can show."""
    return list(SecondFactor.objects.filter(person=person))


def has_one(person: User) -> bool:
    """Whether the person is asked for a second factor."""
    return SecondFactor.objects.filter(person=person, kind__in=STRONG).exists()


def is_due(person: User) -> bool:
    """Whether the person's role needs a second factor, and there is none yet."""
    roles = settings.SLUICE_SECOND_FACTOR_ROLES
    if not roles or has_one(person):
        return False
    return person.is_superuser or person.groups.filter(name__in=roles).exists()


def needs_one(role: Group) -> bool:
    """Whether whoever has the role must have a second factor."""
    return role.name in settings.SLUICE_SECOND_FACTOR_ROLES


def unknown_roles() -> list[str]:
    """Those that are to have a second factor, and are no role here: nobody would be asked."""
    named = settings.SLUICE_SECOND_FACTOR_ROLES
    known = set(Group.objects.filter(name__in=named).values_list("name", flat=True))
    return [name for name in named if name not in known]


def new_secret() -> str:
    """A secret for an authenticator app, which is kept only once a code of it was shown."""
    return pyotp.random_base32()


def address_for(secret: str, person: User) -> str:
    """What an authenticator app reads from a picture."""
    name = f"Sluice {settings.SLUICE_ENVIRONMENT}"
    return pyotp.TOTP(secret).provisioning_uri(name=person.get_username(), issuer_name=name)


def add_app(person: User, secret: str, code: str, name: str) -> bool:
    """Keep an authenticator app whose code is right; False where it is not."""
    step = _step_of(secret, _plain(code))
    if step is None:
        return False
    _add(person, SecondFactor(kind=Kind.APP, name=name, secret=secret, last_step=step))
    return True


def is_sent_twice(person: User, code: str, name: str) -> bool:
    """Whether an app of this name was added a moment ago, by this code."""
    recent = SecondFactor.objects.filter(
        person=person, kind=Kind.APP, name=name, created_at__gt=just_before()
    )
    return any(_step_of(str(row.secret), _plain(code)) is not None for row in recent)


def add_passkey(person: User, key: str, name: str) -> None:
    """Keep a passkey, by its public key as `passkeys` writes it."""
    _add(person, SecondFactor(kind=Kind.PASSKEY, name=name, data={"key": key}))


def new_codes(person: User) -> list[str]:
    """Recovery codes in the place of the old ones; they are shown once."""
    codes = [_new_code() for _ in range(CODES)]
    with transaction.atomic():
        SecondFactor.objects.filter(person=person, kind=Kind.CODES).delete()
        hashes = [_hash(person, code) for code in codes]
        _add(person, SecondFactor(kind=Kind.CODES, data={"hashes": hashes}))
    return ["-".join(re.findall("....", code)) for code in codes]


def has_codes(person: User, *, before: datetime | None = None) -> bool:
    """Whether there are recovery codes; with `before`, ones that were made by then, or used."""
    rows = SecondFactor.objects.filter(person=person, kind=Kind.CODES)
    if before is not None:
        rows = rows.filter(Q(created_at__lte=before) | Q(last_used_at__isnull=False))
    return rows.exists()


def keys_of(person: User) -> list[str]:
    """The public keys of the person's passkeys."""
    rows = SecondFactor.objects.filter(person=person, kind=Kind.PASSKEY)
    return [str(row.data["key"]) for row in rows]


def is_code(person: User, text: str) -> bool:
    """Whether it is a code of the person's app, or a recovery code; each counts once."""
    code = _plain(text)
    return _is_of_app(person, code) if OF_APP.fullmatch(code) else _is_recovery(person, code)


def used_passkey(person: User, key: str) -> None:
    """Note that this passkey was shown."""
    for row in SecondFactor.objects.filter(person=person, kind=Kind.PASSKEY):
        if row.data["key"] == key:
            SecondFactor.objects.filter(pk=row.pk).update(last_used_at=database_now())


def remove(person: User, author: Author, *, number: int | None = None) -> int:
    """Take away one of them, or all; returns how many. Codes alone are of no use and go, too."""
    with transaction.atomic():
        rows = SecondFactor.objects.filter(person=person)
        gone = [one for one in rows if number is None or one.pk == number]
        for one in gone:
            _record(person, one, author, is_new=False)
        rows.filter(pk__in=[one.pk for one in gone]).delete()
        if not has_one(person):
            rows.filter(kind=Kind.CODES).delete()
    return len(gone)


def _add(person: User, factor: SecondFactor) -> None:
    factor.person, factor.created_at = person, database_now()
    with transaction.atomic():
        factor.save()
        _record(person, factor, Author(person.get_username()), is_new=True)


def _record(person: User, factor: SecondFactor, author: Author, *, is_new: bool) -> None:
    words = {"second factor": f"{factor.get_kind_display()} {factor.name}".strip()}
    none = {"second factor": None}
    before, after = (none, words) if is_new else (words, none)
    configuration.record(person, before, after, author)


def _is_of_app(person: User, code: str) -> bool:
    for row in SecondFactor.objects.filter(person=person, kind=Kind.APP):
        step = _step_of(str(row.secret), code)
        later = SecondFactor.objects.filter(pk=row.pk, last_step__lt=step or 0)
        # Of two that show one code at once, the database lets the first in.
        if step is not None and later.update(last_step=step, last_used_at=database_now()):
            return True
    return False


def _is_recovery(person: User, code: str) -> bool:
    shown = _hash(person, code)
    with transaction.atomic():
        rows = SecondFactor.objects.select_for_update().filter(person=person, kind=Kind.CODES)
        for row in rows:
            hashes: Iterable[str] = row.data["hashes"]
            left = [one for one in hashes if not hmac.compare_digest(one, shown)]
            if len(left) < len(row.data["hashes"]):
                data: dict[str, Any] = {"hashes": left}
                rows.filter(pk=row.pk).update(data=data, last_used_at=database_now())
                return True
    return False


def _step_of(secret: str, code: str) -> int | None:
    """The step of time whose code this is; None where it is that of none which counts now."""
    now = int(time.time()) // STEP_SECONDS
    totp = pyotp.TOTP(secret)
    right = [now + one for one in STEPS if hmac.compare_digest(totp.generate_otp(now + one), code)]
    return max(right, default=None)


def _new_code() -> str:
    return "".join(secrets.choice(CODE_LETTERS) for _ in range(CODE_LENGTH))


def _hash(person: User, code: str) -> str:
    text = json.dumps([str(person.pk), code])
    return salted_hmac(SALT, text, algorithm="sha256").hexdigest()


def _plain(text: str) -> str:
    """A code without what people write between its parts; ASCII only."""
    return re.sub(r"[^0-9a-z]", "", text[:100].lower())
