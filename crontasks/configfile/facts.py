"""A row as a configuration file shows it, and back; the whole file of an export."""

import json
from collections.abc import Callable, Mapping
from datetime import datetime
from typing import Any, Final, TypeAlias

import yaml
from django.db import models

from crontasks import parameters
from crontasks.configfile import secrets
from crontasks.configfile.reading import FORMAT, Given
from crontasks.configfile.secrets import KEPT, Lookup, Names
from crontasks.configfile.sections import SECTIONS, Section, name_column
from crontasks.definitions import registry
from crontasks.models import CronInstance
from integration.endpoints.properties import read_secrets
from integration.models import Endpoint
from integration.models.fields import SecretField
from integration.sealed import is_sealed, unseal
from integration.values import is_readable

Column: TypeAlias = "models.Field[Any, Any]"
HEAD: Final = """\
# The configuration of Sluice. What may stand here: "The configuration as a file" in the
# documentation.
# Positions, failures and pauses are no part of it. Secrets are references, never values.
"""


class _Writer(yaml.SafeDumper):
    """Texts of several lines as blocks, so that certificates and differences can be read."""


def _written(writer: yaml.SafeDumper, text: str) -> yaml.ScalarNode:
    style = "|" if "\n" in text else None
    return writer.represent_scalar("tag:yaml.org,2002:str", text, style=style)


_Writer.add_representer(str, _written)


def export(*, references: bool = False) -> str:
    """The whole file; each secret as "kept", or with `references` as ${ENV:NAME}.

    The same configuration gives the same bytes.
    """
    names = Names() if references else None
    content: dict[str, Any] = {"format": FORMAT}
    for section in SECTIONS:
        # By code points, whatever the database's own order of letters is.
        rows = sorted(section.rows, key=section.name_of)
        content[section.name] = [shown(section, row, names) for row in rows]
    text = yaml.dump(content, Dumper=_Writer, sort_keys=False, allow_unicode=True, width=100)
    return HEAD + text


def shown(section: Section, row: models.Model, names: Names | None = None) -> dict[str, Any]:
    """Every field's value as the file has it; secrets as "kept", or as references by `names`."""
    return {name: _shown(section, row, column, names) for name, column in section.columns.items()}


def _shown(section: Section, row: models.Model, column: Column, names: Names | None) -> Any:
    if isinstance(column, models.ForeignKey):
        related = getattr(row, column.name)
        return None if related is None else getattr(related, name_column(type(related)))
    value = column.value_from_object(row)
    parts = (section.name, section.name_of(row))
    if isinstance(column, SecretField) and isinstance(row, Endpoint):
        return {name: _hidden(names, *parts, name) for name in sorted(read_secrets(value or ""))}
    if isinstance(column, SecretField):
        return _hidden(names, *parts, column.name) if value else ""
    if isinstance(column, models.JSONField) and isinstance(value, Mapping):
        return {
            name: _hidden(names, *parts, column.name, name) if is_sealed(part) else part
            for name, part in value.items()
        }
    return value.isoformat() if isinstance(value, datetime) else value


def _hidden(names: Names | None, *parts: str) -> str:
    return KEPT if names is None else names.reference(*parts)


def differs(column: Column, before: Any, after: Any) -> bool:
    """Return whether two raw values are stored differently."""
    if isinstance(column, models.JSONField):
        # Numbers of JSON come back from the database as they went in; key order does not count.
        return json.dumps(before, sort_keys=True) != json.dumps(after, sort_keys=True)
    return bool(before != after)


def meant(row: models.Model, column: Column, entered: Given, lookup: Lookup) -> Any:
    """Return what the file means for this column of this row.

    Raises ValueError with a sentence, SecretReferenceError.
    """
    value = entered.value
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
    return next(read for family, read in _READERS if isinstance(column, family))(value)


def _referred(column: "models.ForeignKey[Any, Any]", value: Any) -> models.Model | None:
    if value is None:
        return None
    target = column.related_model
    assert isinstance(target, type)  # noqa: S101 - models are loaded by now
    row: models.Model | None = None
    if isinstance(value, str):
        row = target._default_manager.filter(**{name_column(target): value}).first()
    if row is None:
        raise ValueError(f"There is no {target._meta.verbose_name} called “{str(value)[:80]}”.")
    return row


def _parameters(row: CronInstance, value: Any, lookup: Lookup) -> dict[str, Any]:
    values = dict(_object(value))
    definition = registry.get(row.task)
    described = [] if definition is None else parameters.describe(definition.task.parameters)
    for field in described:
        if field.is_secret and field.name in values:
            stored = row.parameters.get(field.name)
            plain = unseal(stored) if is_sealed(stored) else ""
            secret = secrets.resolve(values[field.name], plain, lookup)
            # The same secret keeps its encrypted form: then nothing differs.
            values[field.name] = stored if secret == plain and plain else secret
    return values


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
        moment = value if isinstance(value, datetime) else datetime.fromisoformat(_text(value))
    except ValueError:
        raise ValueError("Write a time such as “2026-03-01T08:00:00+00:00”.") from None
    if moment.tzinfo is None:
        raise ValueError("Write the time with its offset, such as +00:00.")
    if not is_readable(moment):
        raise ValueError("Write a time from 0001-01-02 to 9999-12-30, in UTC.")
    return moment


def _json(value: Any) -> Any:
    try:
        json.dumps(value)
    except TypeError:
        raise ValueError("A time in it has to be in quotes.") from None
    return value


def _object(value: Any) -> Mapping[str, Any]:
    if not isinstance(value, Mapping):
        raise ValueError("Write names with values, or {}.")  # noqa: TRY004 - as every reader
    properties: Mapping[str, Any] = _json(value)
    return properties


# The first family that a column belongs to reads its values.
_READERS: Final[tuple[tuple[type[Any], Callable[[Any], Any]], ...]] = (
    (models.BooleanField, _truth),
    (models.IntegerField, _whole),
    (models.FloatField, _number),
    (models.DateTimeField, _moment),
    (models.JSONField, _json),
    (models.CharField, _text),
    (models.TextField, _text),
)
