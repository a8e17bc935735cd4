"""Writers of Avro's binary format: a JSON document, checked against its schema as it is written.

A writer takes a value and puts its bytes behind a body. For what does not fit it raises
MisfitError.
"""

from collections.abc import Callable
from decimal import Decimal
from functools import partial
from struct import Struct
from typing import Any, Final

from integration.formats import avro_values as values
from integration.formats.avro_choice import Moment, OfTypes
from integration.formats.avro_types import Named, branch_name, is_plain, json_form, type_of
from integration.formats.schema import MisfitError

Writer = Callable[[Any, bytearray], None]
_FLOAT: Final = Struct("<f")
_DOUBLE: Final = Struct("<d")
_MISSING: Final = object()
# Of a default, these are written in a schema as they are in a document.
_SAME_IN_BOTH: Final = (bool, int, float, type(None))


class Writers(OfTypes[Writer]):
    """Makes the writers of one schema and of the named types in it."""

    def __init__(self, named: Named) -> None:
        super().__init__(named, _PRIMITIVES)

    def _record(self, schema: Any) -> Writer:
        fields: list[tuple[str, Writer, object]] = []
        names = frozenset(field["name"] for field in schema["fields"])

        def write(value: Any, body: bytearray) -> None:
            if not isinstance(value, dict):
                raise MisfitError("it must be an object.")
            if strangers := value.keys() - names:
                raise MisfitError(f"the schema has no field {_shown(min(strangers))}.")
            for field, write_field, default in fields:
                given = value.get(field, default)
                if given is _MISSING:
                    raise MisfitError("it is missing.", f".{field}")
                _inside(write_field, given, body, f".{field}")

        self._of_name[schema["name"]] = write
        fields += [
            (field["name"], self.of(field["type"]), _default(field)) for field in schema["fields"]
        ]
        return write

    def _union(self, branches: list[Any]) -> Writer:
        writers = [self.of(branch) for branch in branches]
        if is_plain(branches, self._named):
            forms = {json_form(one, self._named): n for n, one in enumerate(branches)}
            return _plain_union(forms, writers)
        names = {branch_name(one, self._named): n for n, one in enumerate(branches)}
        return _named_union(names, writers)

    def _array(self, schema: Any) -> Writer:
        write_item = self.of(schema["items"])

        def write(value: Any, body: bytearray) -> None:
            if not isinstance(value, list):
                raise MisfitError("it must be an array.")
            if value:
                _put_long(len(value), body)
                for place, item in enumerate(value):
                    _inside(write_item, item, body, f"[{place}]")
            _put_long(0, body)

        return write

    def _map(self, schema: Any) -> Writer:
        write_item = self.of(schema["values"])

        def write(value: Any, body: bytearray) -> None:
            if not isinstance(value, dict):
                raise MisfitError("it must be an object.")
            if value:
                _put_long(len(value), body)
                for key, item in value.items():
                    _string(key, body)
                    _inside(write_item, item, body, f".{key}")
            _put_long(0, body)

        return write

    def _enum(self, symbols: list[str]) -> Writer:
        places = {symbol: place for place, symbol in enumerate(symbols)}

        def write(value: Any, body: bytearray) -> None:
            place = places.get(value) if isinstance(value, str) else None
            if place is None:
                raise MisfitError(f"it must be one of: {', '.join(symbols[:20])}.")
            _put_long(place, body)

        return write

    def _bytes(self, schema: Any, kind: str, logical: str) -> Writer:
        size = int(schema["size"]) if kind == "fixed" else None
        raw: Callable[[Any], bytes] = values.bytes_of
        if logical == "decimal":
            raw = partial(_decimal, size, int(schema.get("scale", 0)), int(schema["precision"]))

        def write(value: Any, body: bytearray) -> None:
            packed = raw(value)
            if size is None:
                _put_long(len(packed), body)
            elif len(packed) != size:
                raise MisfitError(f"it must be {size} bytes.")
            body += packed

        return write

    def _moment(self, number: Writer, moment: Moment) -> Writer:
        number_of = moment.number

        def write(value: Any, body: bytearray) -> None:
            is_number = isinstance(value, int) and not isinstance(value, bool)
            number(value if is_number else number_of(value), body)

        return write


def _inside(write: Writer, value: Any, body: bytearray, step: str) -> None:
    try:
        write(value, body)
    except MisfitError as e:
        raise e.below(step) from None


def _default(field: Any) -> object:
    """Return what a missing field is written as. Defaults in another form must be written out."""
    value = field.get("default", _MISSING)
    if isinstance(value, float):
        return Decimal(repr(value))
    if isinstance(value, str) and type_of(field["type"]) in {"string", "enum"}:
        return value
    return value if isinstance(value, _SAME_IN_BOTH) or value in ([], {}) else _MISSING


def _plain_union(forms: dict[str, int], writers: list[Writer]) -> Writer:
    def write(value: Any, body: bytearray) -> None:
        place = forms.get(_form_of(value))
        if place is None:
            raise MisfitError(f"it must be one of: {', '.join(sorted(forms))}.")
        _put_long(place, body)
        writers[place](value, body)

    return write


def _named_union(names: dict[str, int], writers: list[Writer]) -> Writer:
    said = ", ".join(f'{{"{name}": …}}' for name in names if name != "null")

    def write(value: Any, body: bytearray) -> None:
        if value is None and "null" in names:
            _put_long(names["null"], body)
            return
        if not isinstance(value, dict) or len(value) != 1 or (name := next(iter(value))) == "null":
            raise MisfitError(f"its type must be named: {said}.")
        if name not in names:
            raise MisfitError(f"its type must be one of: {said}.")
        _put_long(names[name], body)
        _inside(writers[names[name]], value[name], body, f".{name}")

    return write


def _form_of(value: object) -> str:
    if value is None:
        return "null"
    if isinstance(value, bool):
        return "boolean"
    if isinstance(value, int | Decimal):
        return "number"
    if isinstance(value, str):
        return "string"
    return "array" if isinstance(value, list) else "object"


def _put_long(number: int, body: bytearray) -> None:
    number = (number << 1) ^ (number >> 63)
    while number > 127:
        body.append(number & 127 | 128)
        number >>= 7
    body.append(number)


def _integer(bits: int) -> Writer:
    def write(value: Any, body: bytearray) -> None:
        if isinstance(value, Decimal) and value == value.to_integral_value():
            value = int(value)
        if isinstance(value, bool) or not isinstance(value, int):
            raise MisfitError("it must be a whole number.")
        if not -(2 ** (bits - 1)) <= value < 2 ** (bits - 1):
            raise MisfitError(f"it must fit into {bits} bits.")
        _put_long(value, body)

    return write


def _number(form: Struct) -> Writer:
    def write(value: Any, body: bytearray) -> None:
        if isinstance(value, bool) or not isinstance(value, int | Decimal):
            raise MisfitError("it must be a number.")
        try:
            packed = form.pack(float(value))
        except OverflowError:
            raise MisfitError("it is too large a number.") from None
        if abs(form.unpack(packed)[0]) == float("inf"):
            raise MisfitError("it is too large a number.")
        body += packed

    return write


def _null(value: Any, _body: bytearray) -> None:
    if value is not None:
        raise MisfitError("it must be null.")


def _boolean(value: Any, body: bytearray) -> None:
    if not isinstance(value, bool):
        raise MisfitError("it must be true or false.")
    body.append(value)


def _string(value: Any, body: bytearray) -> None:
    if not isinstance(value, str):
        raise MisfitError("it must be a text.")
    raw = value.encode("utf-8", "replace")
    _put_long(len(raw), body)
    body += raw


def _decimal(size: int | None, scale: int, precision: int, value: Any) -> bytes:
    number = values.unscaled(value, scale, precision)
    length = (number.bit_length() + 8) // 8 if size is None else size
    try:
        return number.to_bytes(length, "big", signed=True)
    except OverflowError:
        raise MisfitError("it is too large a number.") from None


def _shown(name: object) -> str:
    return f'"{str(name)[:100]}"'


_PRIMITIVES: Final[dict[str, Writer]] = {
    "null": _null,
    "boolean": _boolean,
    "int": _integer(32),
    "long": _integer(64),
    "float": _number(_FLOAT),
    "double": _number(_DOUBLE),
    "string": _string,
}
