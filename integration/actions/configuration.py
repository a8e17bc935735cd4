"""Changes of the configuration: each is stored together with its one row of audit."""

import json
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from itertools import islice
from typing import Any, Final

from django.contrib.auth import get_user_model
from django.core.serializers.json import DjangoJSONEncoder
from django.db import models, transaction
from django.db.models import ProtectedError
from django.utils.crypto import salted_hmac

from integration import sealed
from integration.actions.errors import ChangedMeanwhileError, InUseError, UnderWayError
from integration.actions.reasons import cut
from integration.models import ConfigurationChange, ExternalSystem
from integration.models.fields import SecretField
from integration.sealed import masked
from integration.store.sessions import database_now
from integration.xa.changing import refuse_overtaken, removal_hindrance, removal_overtaken

Facts = dict[str, Any]

SET: Final = sealed.SET
NOT_SET: Final = "not set"
SET_ANEW: Final = sealed.SET_ANEW
# Of each kind of rows that something may not go before: one more than are named.
LOOKED_AT: Final = InUseError.NAMED + 1


@dataclass(frozen=True, slots=True)
class Author:
    """The person who changes something, and why."""

    actor: str
    reason: str = ""


def save(
    subject: models.Model, author: Author, *, seen: str | None = None
) -> ConfigurationChange | None:
    """Store a new or changed row with its audit row; None when nothing differs from the stored one.

    `seen` is the stamp() of what the change was made from: ChangedMeanwhileError is raised, and
    nothing is written, when the stored row is another by now. Raises ValidationError where the
    model validates when it is saved, or recovery would be led away from what is decided. The stored
    row is locked meanwhile, so that of two people who save at once each finds the other's work as
    `before`. Of a stored row only the columns are written that a person may set.
    """
    with transaction.atomic():
        model = type(subject)
        # The row alone: what it refers to is shared with others.
        rows = model._default_manager.select_for_update(of=("self",)).filter(pk=subject.pk)
        stored = None if subject.pk is None else rows.first()
        _refuse_stale(subject, stored, seen)
        refuse_overtaken(subject)
        before = {} if stored is None else facts(stored)
        subject.save(update_fields=None if stored is None else _written(subject))
        # Read again: the database's own form of each value is what the next change is compared to.
        after = facts(model._default_manager.get(pk=subject.pk))
        if stored is not None:
            after.update(_rotated(stored, subject))
        return record(subject, before if stored else None, after, author)


def stamp(subject: models.Model) -> str:
    """Return a few characters of the stored values, secrets included but not to be guessed.

    A form carries it, so that a change made meanwhile is noticed; see `save`.
    """
    secrets = {
        field.name: getattr(subject, field.name)
        for field in subject._meta.concrete_fields
        if isinstance(field, SecretField | models.JSONField)
    }
    return stamp_of([facts(subject), secrets])


def stamp_of(told: object) -> str:
    """The same of facts that are JSON, where a thing is kept in more than its row."""
    text = json.dumps(told, sort_keys=True)
    return salted_hmac("integration.configuration.stamp", text, algorithm="sha256").hexdigest()[:32]


def delete(subject: models.Model, author: Author) -> ConfigurationChange:
    """Remove a row with its audit row. Raises InUseError, which names what still needs it."""
    before = facts(subject)
    number = subject.pk
    if why := removal_hindrance(subject):
        raise UnderWayError(str(subject), why)
    with transaction.atomic():
        if why := removal_overtaken(subject):
            raise UnderWayError(str(subject), why)
        if needed_by := _needed_by(subject):
            raise InUseError(str(subject), _named(needed_by))
        try:
            subject.delete()
        except ProtectedError as refusal:
            few = islice(refusal.protected_objects, LOOKED_AT)
            raise InUseError(str(subject), _named(few)) from refusal
        subject.pk = number
        change = record(subject, before, None, author)
    assert change is not None  # noqa: S101 - a deletion always differs
    return change


def record(
    subject: models.Model, before: Facts | None, after: Facts | None, author: Author
) -> ConfigurationChange | None:
    """Write the audit row of a change made by the caller, in the caller's transaction.

    `before` None = it was new, `after` None = it is gone; otherwise only what differs is kept.
    """
    if before is not None and after is not None:
        differing = {name for name in {*before, *after} if before.get(name) != after.get(name)}
        if not differing:
            return None
        before = {name: before.get(name) for name in sorted(differing)}
        after = {name: after.get(name) for name in sorted(differing)}
    action = "create" if before is None else "delete" if after is None else "change"
    return ConfigurationChange.every.create(
        at=database_now(),
        actor=author.actor,
        action=action,
        kind=_kind_of(subject),
        subject=str(subject.pk),
        name=str(subject)[:200],
        system=_system_of(subject, is_gone=after is None),
        before=before,
        after=after,
        reason=cut(author.reason),
    )


def _kind_of(subject: models.Model) -> str:
    """Accounts go by one word, whatever the project calls its users."""
    return "user" if isinstance(subject, get_user_model()) else subject._meta.model_name or ""


def facts(subject: models.Model) -> Facts:
    """Every stored value a person may set, by field; secrets as "set" or "not set"."""
    values: Mapping[str, Any] = {
        field.name: _fact(subject, field) for field in settable(type(subject))
    }
    return json.loads(json.dumps(values, cls=DjangoJSONEncoder))  # type: ignore[no-any-return]


def settable(model: type[models.Model]) -> "list[models.Field[Any, Any]]":
    """The columns whose values a person may set."""
    return [
        field
        for field in model._meta.concrete_fields
        if field.editable and not field.primary_key and not getattr(field, "auto_now", False)
    ]


def _written(subject: models.Model) -> list[str]:
    """Name the columns that people may set, and the one for the moment of their change."""
    return [
        field.name
        for field in subject._meta.concrete_fields
        if not field.primary_key and (field.editable or getattr(field, "auto_now", False))
    ]


def _refuse_stale(subject: models.Model, stored: models.Model | None, seen: str | None) -> None:
    if seen is not None and (stored is None or stamp(stored) != seen):
        raise ChangedMeanwhileError(str(subject), stored)


def _fact(subject: models.Model, field: "models.Field[Any, Any]") -> object:
    if isinstance(field, SecretField):
        return SET if getattr(subject, field.name) else NOT_SET
    if isinstance(field, models.ForeignKey):
        related = getattr(subject, field.name)
        return None if related is None else str(related)
    value = field.value_from_object(subject)
    return masked(value) if isinstance(field, models.JSONField) else value


def _rotated(stored: models.Model, subject: models.Model) -> Facts:
    """The secrets that were replaced: neither value is shown, only that it happened."""
    replaced: Facts = {}
    for field in subject._meta.concrete_fields:
        before, after = getattr(stored, field.name, None), getattr(subject, field.name, None)
        if isinstance(field, SecretField):
            if before and after and before != after:
                replaced[field.name] = SET_ANEW
        elif isinstance(field, models.JSONField) and masked(after, before) != masked(after):
            replaced[field.name] = masked(after, before)
    return replaced


def _system_of(subject: models.Model, *, is_gone: bool) -> ExternalSystem | None:
    if isinstance(subject, ExternalSystem):
        return None if is_gone else subject
    own = getattr(subject, "system", None)
    if isinstance(own, ExternalSystem):
        return own
    queue = getattr(subject, "queue", None)
    system = getattr(queue, "system", None)
    return system if isinstance(system, ExternalSystem) else None


def _needed_by(subject: models.Model) -> list[models.Model]:
    """A few rows of each kind that the row may not go before; Django would load every one."""
    needed_by: list[models.Model] = []
    relations: list[Any] = subject._meta.get_fields(include_hidden=True)
    for relation in relations:
        if relation.auto_created and getattr(relation, "on_delete", None) is models.PROTECT:
            rows = relation.related_model._default_manager.filter(**{relation.field.name: subject})
            needed_by += rows.order_by()[:LOOKED_AT]
    return needed_by


def _named(protected: Iterable[models.Model]) -> list[str]:
    return sorted(f"{row._meta.verbose_name} {row}" for row in protected)
