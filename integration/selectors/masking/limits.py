"""What rules are limited to: whether a change would unmask messages that a rule reaches by it."""

from collections.abc import Mapping
from typing import Any, Final

from django.db.models import Model, Q

from integration.models import EnterpriseService, MaskingRule, PublishChannel, Queue

# The field by which a rule reaches what such a row stands for, beside the row itself.
_FIELDS: Final[Mapping[type[Model], str]] = {
    EnterpriseService: "structure",
    PublishChannel: "structure",
    Queue: "system",
}
# The field by which messages name such a row: what names another one is not of it any more.
_NAMES: Final[Mapping[type[Model], str]] = {
    EnterpriseService: "interface",
    PublishChannel: "name",
}


def storing_unmasks(row: Model) -> bool:
    """Return whether storing a row would take it, or messages of its name, from a rule's reach."""
    model = row._meta.concrete_model
    field = _FIELDS.get(model) if model is not None else None
    if model is None or field is None:
        return False
    name = _NAMES.get(model)
    if row.pk is None:
        return name is not None and new_name_unmasks(getattr(row, name))
    stored = model._default_manager.filter(pk=row.pk).first()
    if stored is None:
        return False
    old = getattr(stored, f"{field}_id")
    is_moved = old not in {None, getattr(row, f"{field}_id")} and _is_reached(field, old)
    if is_moved or name is None or getattr(stored, name) == getattr(row, name):
        return is_moved
    return removal_unmasks(stored) or new_name_unmasks(getattr(row, name))


def step_unmasks(action: str, word: str, name: str, before: Mapping[str, Any]) -> bool:
    """The same of a step of a configuration file: `create`, `change` or `remove`.

    It is about the row of this name, of the kind with this word. `before` are the fields that it
    changes, as the file shows their old values: other rows by name.
    """
    model = next((one for one in _FIELDS if str(one._meta.verbose_name) == word), None)
    if model is None:
        return False
    match action:
        case "create":
            return model in _NAMES and new_name_unmasks(name)
        case "remove":
            return model in _NAMES and _removal_by_name_unmasks(model, name)
        case _:
            old = before.get(_FIELDS[model])
            return bool(old) and _is_reached(f"{_FIELDS[model]}__name", old)


def new_name_unmasks(name: str) -> bool:
    """Return whether a new name of a service or channel would take messages from a rule's reach.

    As long as nobody knows a message's service, every rule for a service or a structure hides. It
    is not looked whether any message has the name: the outbox and what is tracked, which may be
    many millions, have no index by it.
    """
    is_limited = Q(service__isnull=False) | Q(structure__isnull=False)
    return (
        not EnterpriseService.objects.filter(interface=name).exists()
        and not PublishChannel.objects.filter(name=name).exists()
        and MaskingRule.objects.filter(is_limited, enabled=True).exists()
    )


def removal_unmasks(row: Model) -> bool:
    """Return whether another row under its name would not be in the reach of a rule for this one.

    So it is with a service or a channel that is deleted or renamed: messages keep the old name.
    """
    if isinstance(row, EnterpriseService) and _is_reached("service", row.pk):
        return True
    if not isinstance(row, EnterpriseService | PublishChannel):
        return False
    return row.structure_id is not None and _is_reached("structure", row.structure_id)


def _removal_by_name_unmasks(model: type[Model], name: str) -> bool:
    row = model._default_manager.filter(**{_NAMES[model]: name}).first()
    return row is not None and removal_unmasks(row)


def _is_reached(field: str, limit: Any) -> bool:
    """Return whether a rule that is switched on is limited to this structure, system or service."""
    return MaskingRule.objects.filter(enabled=True, **{field: limit}).exists()
