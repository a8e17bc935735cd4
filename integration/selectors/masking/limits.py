"""What rules hide messages by: whether a change of the set-up would show what one hides."""

from collections.abc import Iterable, Mapping
from typing import Any, Final

from django.db.models import Model, Q

from integration.models import EnterpriseService, MaskingRule, PublishChannel, Queue
from integration.selectors.masking.rules import masks

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
# By these it is told which messages are a queue's.
_SOURCE: Final = ("provider", "topic", "direction", "subscription", "selector")
# By these it is told which ids of tracked messages of a service or channel are hidden.
_PATHS: Final = ("external_id_path", "search_paths")


def storing_unmasks(row: Model) -> bool:
    """Return whether storing a row would show what a rule hides of messages.

    That is where the row, or messages of its name or from its topic, would leave the rule's reach,
    or where ids that tracking took by its paths would no longer be known as hidden values.
    """
    model = row._meta.concrete_model
    if model is None or model not in _FIELDS:
        return False
    if row.pk is None:
        return _creation_unmasks(model, getattr(row, _NAMES.get(model, "name")))
    stored = model._default_manager.filter(pk=row.pk).first()
    if stored is None:
        return False
    if _change_unmasks(model, _before(stored, row)):
        return True
    name = _NAMES.get(model)
    if name is None or getattr(stored, name) == getattr(row, name):
        return False
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
            return _creation_unmasks(model, name)
        case "remove":
            row = model._default_manager.filter(**{_NAMES.get(model, "name"): name}).first()
            return row is not None and removal_unmasks(row)
        case _:
            return _change_unmasks(model, before)


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
    """Return whether a rule would hide less of the messages that a deleted or renamed row leaves.

    Messages keep the name of a service or a channel, and another row under it would not be in the
    reach of a rule for this one, nor have its paths. What is hidden of a topic is told by the
    queues that are left.
    """
    if isinstance(row, Queue):
        return _is_limited_to_places()
    if isinstance(row, EnterpriseService) and _is_reached("service", row.pk):
        return True
    if not isinstance(row, EnterpriseService | PublishChannel):
        return False
    if row.structure_id is not None and _is_reached("structure", row.structure_id):
        return True
    return _any_hidden([row.external_id_path, *row.search_paths])


def _creation_unmasks(model: type[Model], name: str) -> bool:
    """A new queue may read messages of a system that a rule is limited to, and be of another."""
    return _is_limited_to_places() if model is Queue else new_name_unmasks(name)


def _change_unmasks(model: type[Model], before: Mapping[str, Any]) -> bool:
    """Return whether a row that had these values is in the reach of a rule by one of them."""
    limit = _FIELDS[model]
    if before.get(limit) and _is_reached(f"{limit}__name", before[limit]):
        return True
    if model is Queue:
        return not before.keys().isdisjoint(_SOURCE) and _is_limited_to_places()
    return _any_hidden([before.get("external_id_path") or "", *(before.get("search_paths") or ())])


def _before(stored: Model, row: Model) -> dict[str, Any]:
    """The old values of the fields that differ, as a configuration file shows them."""
    watched = {*_FIELDS.values(), *_SOURCE, *_PATHS}
    differing = [
        field
        for field in stored._meta.concrete_fields
        if field.name in watched and getattr(stored, field.attname) != getattr(row, field.attname)
    ]
    values = {field.name: getattr(stored, field.name) for field in differing}
    return {n: str(value) if isinstance(value, Model) else value for n, value in values.items()}


def _is_limited_to_places() -> bool:
    """Return whether a rule that is switched on is limited to a system or a queue.

    It is not looked which messages a topic holds: before, no queue may have shown them at all.
    """
    is_limited = Q(system__isnull=False) | Q(queue__isnull=False)
    return MaskingRule.objects.filter(is_limited, enabled=True).exists()


def _any_hidden(paths: Iterable[object]) -> bool:
    """Return whether any rule, whatever it is limited to, may hide what one of these paths finds.

    Other paths, or another order of them, would tell something else of ids that are stored.
    """
    wanted = [str(path) for path in paths if path]
    if not wanted:
        return False
    mask = masks().of(None, None, ())
    return any(map(mask.covers, wanted))


def _is_reached(field: str, limit: Any) -> bool:
    """Return whether a rule that is switched on is limited to this structure, system or service."""
    return MaskingRule.objects.filter(enabled=True, **{field: limit}).exists()
