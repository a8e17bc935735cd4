"""What is known of an Avro type before any message: its form in JSON, its least size."""

from collections.abc import Mapping
from typing import Any, Final

Named = Mapping[str, Any]

_NUMBERS: Final = frozenset({"int", "long", "float", "double"})
_TEXTS: Final = frozenset({"string", "bytes", "fixed", "enum"})
_OBJECTS: Final = frozenset({"record", "error", "map"})
# The logical types that are shown as text though they are numbers.
_MOMENTS: Final = frozenset(
    {
        "date",
        *("time-millis", "time-micros", "timestamp-millis", "timestamp-micros"),
        *("local-timestamp-millis", "local-timestamp-micros"),
    }
)
_LEAST: Final = {"null": 0, "float": 4, "double": 8}


def resolved(schema: Any, named: Named) -> Any:
    """Return the definition behind a name; a primitive type's name stays."""
    while isinstance(schema, str) and schema in named:
        schema = named[schema]
    return schema


def type_of(schema: Any) -> str:
    """Return the type's name: of a definition, a primitive or a union.

    >>> type_of({"type": "array", "items": "int"}), type_of(["null", "int"]), type_of("int")
    ('array', 'union', 'int')
    """
    if isinstance(schema, list):
        return "union"
    if isinstance(schema, dict):
        inner = schema["type"]
        return inner if isinstance(inner, str) else type_of(inner)
    return str(schema)


def logical_of(schema: Any) -> str:
    """Return the logical type that a schema gives its values, or nothing."""
    return str(schema.get("logicalType", "")) if isinstance(schema, dict) else ""


def json_form(schema: Any, named: Named) -> str:
    """Return what a value of this type is in JSON: string, number, boolean, array, object."""
    schema = resolved(schema, named)
    kind, logical = type_of(schema), logical_of(schema)
    if logical == "decimal" and kind in {"bytes", "fixed"}:
        return "number"
    if logical in _MOMENTS and kind in {"int", "long"}:
        return "string"
    if kind in _NUMBERS:
        return "number"
    if kind in _TEXTS:
        return "string"
    return "object" if kind in _OBJECTS else kind


def branch_name(schema: Any, named: Named) -> str:
    """Return the name by which Avro's JSON encoding tells a union's branch."""
    schema = resolved(schema, named)
    if isinstance(schema, dict) and "name" in schema:
        return str(schema["name"])
    return type_of(schema)


def is_plain(branches: list[Any], named: Named) -> bool:
    """Return whether JSON alone tells the branches of a union apart."""
    forms = [json_form(branch, named) for branch in branches if type_of(branch) != "null"]
    return len(forms) == len(set(forms))


class LeastBytes:
    """How many bytes a value of each type has at least; a type within itself adds none."""

    def __init__(self, named: Named) -> None:
        self._named = named
        self._known: dict[str, int] = {}

    def of(self, schema: Any) -> int:
        schema = resolved(schema, self._named)
        kind = type_of(schema)
        if kind in {"record", "error"}:
            return self._of_record(schema)
        if kind == "fixed":
            return int(schema["size"])
        if kind == "union":
            return 1 + min((self.of(branch) for branch in schema), default=0)
        return _LEAST.get(kind, 1)

    def _of_record(self, schema: Any) -> int:
        name = schema["name"]
        if name not in self._known:
            self._known[name] = 0
            self._known[name] = sum(self.of(field["type"]) for field in schema["fields"])
        return self._known[name]
