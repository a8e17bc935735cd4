"""What rules are limited to, where a change would take messages out of their reach."""

from collections.abc import Mapping
from typing import Any, Final

from django.db.models import Model, Q

from integration.models import (
    EnterpriseService,
    MaskingRule,
    MessageError,
    PublishChannel,
    Queue,
)

# The field by which a rule reaches what such a row stands for, beside the row itself.
FIELDS: Final[Mapping[type[Model], str]] = {
    EnterpriseService: "structure",
    PublishChannel: "structure",
    Queue: "system",
}


# The field by which messages name such a row: what names another one is not of it any more.
NAMES: Final[Mapping[type[Model], str]] = {
    EnterpriseService: "interface",
    PublishChannel: "name",
}


def loosens(row: Model) -> bool:
    """Return whether storing a row would take it, or its messages, from a rule's reach."""
    model = row._meta.concrete_model
    field = FIELDS.get(model) if model is not None else None
    if model is None or field is None:
        return False
    name = NAMES.get(model)
    if row.pk is None:
        return name is not None and claims(getattr(row, name))
    stored = model._default_manager.filter(pk=row.pk).first()
    if stored is None:
        return False
    old = getattr(stored, f"{field}_id")
    is_moved = old not in {None, getattr(row, f"{field}_id")} and is_reached(field, old)
    if is_moved or name is None or getattr(stored, name) == getattr(row, name):
        return is_moved
    return frees(stored) or claims(getattr(row, name))


def claims(interface: str) -> bool:
    """Return whether that name for a service or channel would take held messages from a rule.

    As long as nobody knows a message's service, every rule for a service or a structure hides.
    """
    is_limited = Q(service__isnull=False) | Q(structure__isnull=False)
    return (
        MaskingRule.objects.filter(is_limited, enabled=True).exists()
        and not EnterpriseService.objects.filter(interface=interface).exists()
        and not PublishChannel.objects.filter(name=interface).exists()
        and MessageError.objects.filter(interface=interface).exists()
    )


def frees(row: Model) -> bool:
    """Return whether another row under its name would not be in the reach of a rule for this one.

    So it is with a service or a channel that is deleted or renamed: messages keep the old name.
    """
    if isinstance(row, EnterpriseService) and is_reached("service", row.pk):
        return True
    if not isinstance(row, EnterpriseService | PublishChannel):
        return False
    return row.structure_id is not None and is_reached("structure", row.structure_id)


def named_frees(word: str, name: str) -> bool:
    """The same of a row by the word for its kind and its name, as a configuration file has them."""
    rows = (
        model._default_manager.filter(**{field: name}).first()
        for model, field in NAMES.items()
        if str(model._meta.verbose_name) == word
    )
    return any(row is not None and frees(row) for row in rows)


def is_reached(field: str, limit: Any) -> bool:
    """Return whether a rule that is switched on is limited to this structure, system or service."""
    return MaskingRule.objects.filter(enabled=True, **{field: limit}).exists()
