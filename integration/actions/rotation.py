"""Key rotation: every stored secret is encrypted again with the first key of the list.

What a secret says does not change, so there is nothing for the audit of the configuration.
"""

from collections.abc import Iterator
from dataclasses import dataclass

from cryptography.fernet import Fernet, InvalidToken
from django.apps import apps
from django.conf import settings
from django.db import models, transaction
from django.db.models import F, TextField, Value
from django.db.models.functions import Cast

from integration import sealed
from integration.models import Deployment
from integration.models.fields import SecretField, keyring


@dataclass(frozen=True, slots=True, kw_only=True)
class Rotated:
    """One kind of secret. `unreadable` names the rows that no configured key opens."""

    kind: str
    rotated: int
    current: int
    unreadable: tuple[str, ...]


def rotate_all() -> list[Rotated]:
    """Encrypt with the first key whatever an older one encrypted; may run any number of times.

    All in one transaction, each row locked against somebody who saves it meanwhile. A secret that
    cannot be read stays as it is and is named.
    """
    with transaction.atomic():
        plain = [_rotate(model, column) for model, column in _columns()]
        return [*plain, *(_rotate_sealed(model, column) for model, column in _sealed_columns())]


def _columns() -> Iterator[tuple[type[models.Model], str]]:
    """Every column that holds encrypted text, also of models that are added one day."""
    for model in apps.get_models():
        for column in model._meta.concrete_fields:
            if isinstance(column, SecretField):
                yield model, column.attname
    # Proves at each start that the keys are the right ones; encrypted, but no secret.
    yield Deployment, "canary"


def _sealed_columns() -> Iterator[tuple[type[models.Model], str]]:
    """JSON columns with secrets among their values, as their models say."""
    for model in apps.get_models():
        for column in getattr(model, "sealed_columns", ()):
            yield model, column


def _rotate_sealed(model: type[models.Model], column: str) -> Rotated:
    rotated, current, unreadable = 0, 0, []
    for row in model._default_manager.select_for_update().order_by("pk").values("pk", column):
        parts = {name: part for name, part in row[column].items() if sealed.is_sealed(part)}
        old = {
            n: part[sealed.MARK] for n, part in parts.items() if not _is_current(part[sealed.MARK])
        }
        current += len(parts) - len(old)
        try:
            anew = {n: {sealed.MARK: keyring().rotate(t).decode()} for n, t in old.items()}
        except InvalidToken:
            unreadable.append(str(row["pk"]))
            continue
        if anew:
            model._default_manager.filter(pk=row["pk"]).update(**{column: {**row[column], **anew}})
            rotated += len(anew)
    kind = f"{model._meta.verbose_name} {column}".replace("_", " ")
    return Rotated(kind=kind, rotated=rotated, current=current, unreadable=tuple(unreadable))


def _rotate(model: type[models.Model], column: str) -> Rotated:
    stored = (
        model._default_manager.select_for_update()
        .annotate(token=Cast(F(column), TextField()))
        .exclude(token="")
        .order_by("pk")
    )
    rotated, current, unreadable = 0, 0, []
    for row in stored.values("pk", "token"):
        if _is_current(row["token"]):
            current += 1
            continue
        try:
            token = keyring().rotate(row["token"]).decode()
        except InvalidToken:
            unreadable.append(str(row["pk"]))
            continue
        # As an expression, or the field would encrypt what is encrypted.
        anew = Value(token, output_field=TextField())
        model._default_manager.filter(pk=row["pk"]).update(**{column: anew})
        rotated += 1
    kind = f"{model._meta.verbose_name} {column}".replace("_", " ")
    return Rotated(kind=kind, rotated=rotated, current=current, unreadable=tuple(unreadable))


def _is_current(token: str) -> bool:
    try:
        Fernet(settings.SLUICE_ENCRYPTION_KEYS[0]).decrypt(token)
    except InvalidToken:
        return False
    return True
