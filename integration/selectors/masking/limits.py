"""What rules hide messages by: whether a change of the set-up would show what one hides."""

from collections.abc import Iterable, Mapping
from typing import Any, Final

from django.db.models import Model, Q

from integration.models import (
    EnterpriseService,
    MaskingRule,
    ObjectStructure,
    PublishChannel,
    Queue,
)
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
    where ids that tracking took by its paths would no longer be known as hidden values, or where
    another schema would judge hidden values.
    """
    if isinstance(row, ObjectStructure):
        return _is_judged_anew(row)
    model = row._meta.concrete_model
    if model is None or model not in _FIELDS:
        return False
    if isinstance(row, EnterpriseService | PublishChannel) and _gets_judge(row):
        return True
    return _leaves_reach(model, row)


def _leaves_reach(model: type[Model], row: Model) -> bool:
    """Return whether a rule would hide less once a row of one of these models is stored."""
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


def step_unmasks(
    action: str, word: str, name: str, before: Mapping[str, Any], after: Mapping[str, Any]
) -> bool:
    """The same of a step of a configuration file: `create`, `change` or `remove`.

    It is about the row of this name, of the kind with this word. `before` and `after` are the
    fields that it changes, as the file shows their values: other rows by name.
    """
    if word == str(ObjectStructure._meta.verbose_name):
        return action == "change" and "json_schema" in before and _judges_hidden(name)
    model = next((one for one in _FIELDS if str(one._meta.verbose_name) == word), None)
    if model is None:
        return False
    if model in _NAMES and action != "remove" and _names_judge(after.get("structure"), name):
        return True
    match action:
        case "create":
            return _creation_unmasks(model, name)
        case "remove":
            row = model._default_manager.filter(**{_NAMES.get(model, "name"): name}).first()
            return row is not None and removal_unmasks(row)
        case _:
            return _change_unmasks(model, before)


def _is_judged_anew(structure: ObjectStructure) -> bool:
    """Return whether another schema of this structure would judge hidden values.

    Whoever writes schemas and reads what they refuse finds a value out, one question at a time.
    """
    stored = ObjectStructure.objects.filter(pk=structure.pk).first()
    if stored is None or stored.json_schema == structure.json_schema:
        return False
    return _judges_hidden(stored.name)


def _gets_judge(row: EnterpriseService | PublishChannel) -> bool:
    """Return whether a structure that the row did not have would judge hidden values."""
    structure = row.structure
    if structure is None or structure.json_schema is None:
        return False
    model = type(row)
    if model._default_manager.filter(pk=row.pk, structure=structure).exists():
        return False
    return _judges_hidden(structure.name, getattr(row, _NAMES[model]))


def _names_judge(structure: object, name: str) -> bool:
    """The same of the structure that a file names for a service or channel; it may be a new one."""
    if not isinstance(structure, str):
        return False
    is_lax = ObjectStructure.objects.filter(name=structure, json_schema__isnull=True).exists()
    return not is_lax and _judges_hidden(structure, name)


def _judges_hidden(structure: str, name: str = "") -> bool:
    """Return whether a rule may hide what a schema of this structure judges.

    Of all services and channels that have it, and of the one of this name, which gets it.
    """
    reached = Q(service__isnull=True) | Q(service__structure__name=structure)
    return MaskingRule.objects.filter(
        Q(structure__isnull=True) | Q(structure__name=structure),
        reached | Q(service__interface=name),
        enabled=True,
        part=MaskingRule.Of.PAYLOAD,
    ).exists()


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
