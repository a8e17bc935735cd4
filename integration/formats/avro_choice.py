"""What is made of each type of an Avro schema, readers or writers: chosen here for both."""

from abc import ABC, abstractmethod
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from functools import partial
from typing import Any, Generic, TypeVar

from integration.envelope.json_flaw import MAX_DIGITS
from integration.formats import avro_values as values
from integration.formats.avro_types import Named, logical_of, resolved, type_of

Made = TypeVar("Made")


@dataclass(frozen=True, slots=True)
class Moment:
    """How a number that is a date or a time is shown, and read again."""

    shown: Callable[[int], Any]
    number: Callable[[Any], int]


class OfTypes(ABC, Generic[Made]):
    """Makes something of one schema and of the named types in it: its readers, its writers."""

    def __init__(self, named: Named, primitives: Mapping[str, Made]) -> None:
        self._named = named
        self._primitives = primitives
        self._of_name: dict[str, Made] = {}

    def of(self, schema: Any) -> Made:
        """Return what is made of a type. Raises KeyError and ValueError for what is none."""
        schema = resolved(schema, self._named)
        kind, logical = type_of(schema), logical_of(schema)
        if kind in {"record", "error"}:
            # One for all places of a type: it may contain itself.
            return self._of_name.get(schema["name"]) or self._record(schema)
        make = {"union": self._union, "array": self._array, "map": self._map}.get(kind)
        if make is not None:
            return make(schema)
        if kind in {"bytes", "fixed"}:
            if logical == "decimal":
                check_decimal(schema)
            return self._bytes(schema, kind, logical)
        if kind == "enum":
            return self._enum(schema["symbols"])
        plain, moment = self._primitives[kind], moment_of(kind, logical)
        return self._moment(plain, moment) if moment else plain

    @abstractmethod
    def _record(self, schema: Any) -> Made:
        """Put it into `_of_name` before its fields are asked for."""

    @abstractmethod
    def _union(self, branches: list[Any]) -> Made: ...

    @abstractmethod
    def _array(self, schema: Any) -> Made: ...

    @abstractmethod
    def _map(self, schema: Any) -> Made: ...

    @abstractmethod
    def _bytes(self, schema: Any, kind: str, logical: str) -> Made: ...

    @abstractmethod
    def _enum(self, symbols: list[str]) -> Made: ...

    @abstractmethod
    def _moment(self, number: Made, moment: Moment) -> Made: ...


def check_decimal(schema: Any) -> None:
    """Raises ValueError where its numbers could have more digits than a document may."""
    if max(int(schema.get("scale", 0)), int(schema["precision"])) > MAX_DIGITS:
        raise ValueError(f"a decimal has more than {MAX_DIGITS} digits")


def moment_of(kind: str, logical: str) -> Moment | None:
    """Return how a date or a time is shown, None for other types."""
    name, _, unit = logical.rpartition("-")
    if kind == "int" and logical == "date":
        return Moment(values.date_text, values.date_number)
    if unit not in values.UNITS:
        return None
    if name == "time":
        return Moment(partial(values.time_text, unit=unit), partial(values.time_number, unit=unit))
    if name in {"timestamp", "local-timestamp"}:
        is_local = name != "timestamp"
        return Moment(
            partial(values.moment_text, unit=unit, is_local=is_local),
            partial(values.moment_number, unit=unit, is_local=is_local),
        )
    return None
