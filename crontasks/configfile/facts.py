"""A row as a configuration file shows it, and back."""

import json
from collections.abc import Callable, Mapping
from datetime import datetime
from typing import Any, TypeAlias

from django.db import models

from crontasks import parameters
from crontasks.configfile import secrets
from crontasks.configfile.kinds import Kind, name_column
from crontasks.configfile.reading import Given
from crontasks.configfile.secrets import KEPT, Lookup, Names
from crontasks.definitions import registry
from crontasks.models import CronInstance
from integration.models import Endpoint
from integration.models.fields import SecretField
from integration.sealed import is_sealed, unseal

Column: TypeAlias = "models.Field[Any, Any]"


def shown(kind: Kind, row: models.Model, names: Names | None = None) -> dict[str, Any]:
    """Every field's value as the file has it; secrets as "kept", or as references by `names`."""
    return {name: _shown(kind, row, column, names) for name, column in kind.columns.items()}


def _shown(kind: Kind, row: models.Model, column: Column, names: Names | None) -> Any:
    if isinstance(column, models.ForeignKey):
        related = getattr(row, column.name)
        return None if related is None else getattr(related, name_column(type(related)))
    value = column.value_from_object(row)
    parts = (kind.section, kind.name_of(row), column.name)
    if isinstance(column, SecretField) and (kind.section, column.name) in secrets.GATHERED:
        return secrets.gathered_shown(value or "", lambda name: _hidden(names, *parts[:2], name))
    if isinstance(column, SecretField):
        return _hidden(names, *parts) if value else ""
    if isinstance(column, models.JSONField):
        return _json_shown(value, names, parts)
    return value.isoformat() if isinstance(value, datetime) else value


def _hidden(names: Names | None, *parts: str) -> str:
    return KEPT if names is None else names.reference(*parts)


def _json_shown(value: Any, names: Names | None, parts: tuple[str, ...]) -> Any:
    if not isinstance(value, Mapping):
        return value
    return {
        name: _hidden(names, *parts, name) if is_sealed(part) else part
        for name, part in value.items()
    }


def differs(column: Column, before: Any, after: Any) -> bool:
    """Whether two raw values are stored differently."""
    if isinstance(column, models.JSONField):
        # Numbers of JSON come back from the database as they went in; key order does not count.
        return json.dumps(before, sort_keys=True) != json.dumps(after, sort_keys=True)
    return bool(before != after)


def meant(row: models.Model, column: Column, given: Given, lookup: Lookup) -> Any:
    """What the file means for this column of this row.

    Raises ValueError with a sentence, SecretReferenceError.
    """
    value = given.value
    if isinstance(row, Endpoint) and isinstance(column, SecretField):
        return secrets.gathered(value, getattr(row, column.name) or "", lookup)
    if isinstance(column, SecretField):
        return secrets.resolve(value, getattr(row, column.name) or "", lookup)
    if isinstance(column, models.ForeignKey):
        return _referred(column, value)
    if value is None and column.null:
        return None
    if isinstance(row, CronInstance) and column.name == "parameters":
        return _parameters(row, value, lookup)
    return _READERS[_family(column)](value)


def _family(column: Column) -> type[Any]:
    return next(family for family in _READERS if isinstance(column, family))


def _referred(column: "models.ForeignKey[Any, Any]", value: Any) -> models.Model | None:
    if value is None:
        return None
    target = column.related_model
    assert isinstance(target, type)  # noqa: S101 - models are loaded by now
    name = name_column(target)
    found: models.Model | None = None
    if isinstance(value, str):
        found = target._default_manager.filter(**{name: value}).first()
    if found is None:
        raise ValueError(f"There is no {target._meta.verbose_name} called “{str(value)[:80]}”.")
    return found


def _parameters(row: CronInstance, value: Any, lookup: Lookup) -> dict[str, Any]:
    found = dict(_object(value))
    definition = registry.get(row.task)
    described = [] if definition is None else parameters.describe(definition.task.parameters)
    for one in described:
        if one.is_secret and one.name in found:
            stored = row.parameters.get(one.name)
            known = unseal(stored) if is_sealed(stored) else ""
            secret = secrets.resolve(found[one.name], known, lookup)
            # The same secret keeps its encrypted form: then nothing differs.
            found[one.name] = stored if secret == known and known else secret
    return found


def _text(value: Any) -> str:
    if isinstance(value, str):
        return value
    if value is None:
        return ""
    raise ValueError("Write a text; put it in quotes.")


def _truth(value: Any) -> bool:
    if isinstance(value, bool):
        return value
    raise ValueError("Write true or false.")


def _whole(value: Any) -> int:
    if isinstance(value, int) and not isinstance(value, bool) and abs(value) < 2**63:
        return value
    raise ValueError("Write a whole number.")


def _number(value: Any) -> float:
    if isinstance(value, int | float) and not isinstance(value, bool) and abs(value) < 1e300:
        return float(value)
    raise ValueError("Write a number.")


def _moment(value: Any) -> datetime:
    try:
        found = value if isinstance(value, datetime) else datetime.fromisoformat(_text(value))
    except ValueError:
        raise ValueError("Write a time such as “2026-03-01T08:00:00+00:00”.") from None
    if found.tzinfo is None:
        raise ValueError("Write the time with its offset, such as +00:00.")
    return found


def _json(value: Any) -> Any:
    try:
        json.dumps(value)
    except TypeError:
        raise ValueError("A time in it has to be in quotes.") from None
    return value


def _object(value: Any) -> Mapping[str, Any]:
    if not isinstance(value, Mapping):
        raise ValueError("Write names with values, or {}.")  # noqa: TRY004 - as every reader
    found: Mapping[str, Any] = _json(value)
    return found


# The first family that a column belongs to reads its values.
_READERS: dict[type[Any], Callable[[Any], Any]] = {
    models.BooleanField: _truth,
    models.IntegerField: _whole,
    models.FloatField: _number,
    models.DateTimeField: _moment,
    models.JSONField: _json,
    models.CharField: _text,
    models.TextField: _text,
}
