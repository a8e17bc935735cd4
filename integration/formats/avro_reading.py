"""Readers of Avro's binary format: one function for each type, made once for a schema.

A reader takes a record's bytes, the place to begin at, and what the message may still unfold to. It
returns a value as JSON has it, and the place after it. It raises IndexError where the bytes end.
"""

from collections.abc import Callable, Sequence
from functools import partial
from struct import Struct
from typing import Any, Final

from integration.envelope import Flaw, FlawCode
from integration.formats import avro_values as values
from integration.formats.avro_choice import Moment, OfTypes
from integration.formats.avro_types import LeastBytes, Named, branch_name, is_plain
from integration.formats.limits import TOO_DEEP, TOO_MANY, Allowance
from integration.formats.schema import UnreadableError

Reader = Callable[[bytes, int, Allowance], tuple[Any, int]]
_FLOAT: Final = Struct("<f")
_DOUBLE: Final = Struct("<d")
_LONGEST_VARINT_BITS: Final = 63


class Readers(OfTypes[Reader]):
    """Makes the readers of one schema and of the named types in it."""

    def __init__(self, named: Named) -> None:
        super().__init__(named, _PRIMITIVES)
        self._least = LeastBytes(named)

    def _record(self, schema: Any) -> Reader:
        fields: list[tuple[str, Reader]] = []
        count = 1 + len(schema["fields"])

        def read(data: bytes, at: int, left: Allowance) -> tuple[Any, int]:
            left.depth -= 1
            left.values -= count
            if left.depth < 0 or left.values < 0:
                raise UnreadableError(TOO_DEEP if left.depth < 0 else TOO_MANY)
            document = {}
            for field, read_field in fields:
                document[field], at = read_field(data, at, left)
            left.depth += 1
            return document, at

        self._of_name[schema["name"]] = read
        fields += [(field["name"], self.of(field["type"])) for field in schema["fields"]]
        return read

    def _union(self, branches: list[Any]) -> Reader:
        readers = [self.of(branch) for branch in branches]
        count = len(readers)
        if is_plain(branches, self._named):

            def read(data: bytes, at: int, left: Allowance) -> tuple[Any, int]:
                place, after = data[at], at + 1
                if place & 129:
                    place, after = _long(data, at, left)
                else:
                    place >>= 1
                if not 0 <= place < count:
                    raise _bad("A union names a type that it does not have.")
                return readers[place](data, after, left)

            return read
        return _named_union([branch_name(branch, self._named) for branch in branches], readers)

    def _array(self, schema: Any) -> Reader:
        read_item, least = self.of(schema["items"]), self._least.of(schema["items"])

        def read(data: bytes, at: int, left: Allowance) -> tuple[Any, int]:
            _enter(left, 1)
            found: list[Any] = []
            while True:
                count, at = _block(data, at, left, least)
                if not count:
                    left.depth += 1
                    return found, at
                for _ in range(count):
                    item, at = read_item(data, at, left)
                    found.append(item)

        return read

    def _map(self, schema: Any) -> Reader:
        read_item, least = self.of(schema["values"]), 1 + self._least.of(schema["values"])

        def read(data: bytes, at: int, left: Allowance) -> tuple[Any, int]:
            _enter(left, 1)
            found: dict[str, Any] = {}
            entries = 0
            while True:
                count, at = _block(data, at, left, least)
                if not count:
                    left.depth += 1
                    if len(found) != entries:
                        text = "A map names the same key twice."
                        raise UnreadableError(Flaw(FlawCode.DUPLICATE_KEY, text))
                    return found, at
                entries += count
                for _ in range(count):
                    key, at = _string(data, at, left)
                    found[key], at = read_item(data, at, left)

        return read

    def _enum(self, symbols: list[str]) -> Reader:
        def read(data: bytes, at: int, left: Allowance) -> tuple[str, int]:
            place, at = _long(data, at, left)
            if not 0 <= place < len(symbols):
                raise _bad("An enum names a symbol that it does not have.")
            return symbols[place], at

        return read

    def _bytes(self, schema: Any, kind: str, logical: str) -> Reader:
        raw = _raw if kind == "bytes" else _fixed(int(schema["size"]))
        shown: Callable[[bytes], Any] = values.base64_text
        if logical == "decimal":
            shown = partial(values.scaled, scale=int(schema.get("scale", 0)))

        def read(data: bytes, at: int, left: Allowance) -> tuple[Any, int]:
            value, at = raw(data, at, left)
            return shown(value), at

        return read

    def _moment(self, number: Reader, moment: Moment) -> Reader:
        shown = moment.shown

        def read(data: bytes, at: int, left: Allowance) -> tuple[Any, int]:
            value, at = number(data, at, left)
            return shown(value), at

        return read


def _enter(left: Allowance, values_more: int) -> None:
    left.depth -= 1
    left.values -= values_more
    if left.depth < 0:
        raise UnreadableError(TOO_DEEP)
    if left.values < 0:
        raise UnreadableError(TOO_MANY)


def _block(data: bytes, at: int, left: Allowance, least: int) -> tuple[int, int]:
    """Read how many items follow; what cannot be there or is too much is refused unread."""
    count, at = _long(data, at, left)
    if count < 0:
        # Its size in bytes follows, for those who skip it.
        count, (_, at) = -count, _long(data, at, left)
    if count * least > len(data) - at:
        raise IndexError
    left.values -= count
    if left.values < 0:
        raise UnreadableError(TOO_MANY)
    return count, at


def _named_union(names: Sequence[str], readers: Sequence[Reader]) -> Reader:
    """JSON cannot tell its types apart: each value stands under its type's name."""

    def read(data: bytes, at: int, left: Allowance) -> tuple[Any, int]:
        place, at = _long(data, at, left)
        if not 0 <= place < len(names):
            raise _bad("A union names a type that it does not have.")
        value, at = readers[place](data, at, left)
        return (None if names[place] == "null" else {names[place]: value}), at

    return read


def _long(data: bytes, at: int, _left: Allowance) -> tuple[int, int]:
    byte = data[at]
    if byte < 128:
        return (byte >> 1) ^ -(byte & 1), at + 1
    number, shift = byte & 127, 7
    while True:
        at += 1
        byte = data[at]
        number |= (byte & 127) << shift
        if byte < 128:
            break
        shift += 7
        if shift > _LONGEST_VARINT_BITS:
            raise _bad("A number has more than ten bytes.")
    if number >> 64:
        raise _bad("A number has more than 64 bits.")
    return (number >> 1) ^ -(number & 1), at + 1


def _int(data: bytes, at: int, left: Allowance) -> tuple[int, int]:
    number, at = _long(data, at, left)
    if not -(2**31) <= number < 2**31:
        raise _bad("An int has more than 32 bits.")
    return number, at


def _raw(data: bytes, at: int, left: Allowance) -> tuple[bytes, int]:
    length, at = _long(data, at, left)
    end = at + length
    if length < 0:
        raise _bad("A length is below zero.")
    if end > len(data):
        raise IndexError
    return data[at:end], end


def _string(data: bytes, at: int, left: Allowance) -> tuple[str, int]:
    # Most are short; their length is one byte, and read without a call.
    length = data[at]
    at += 1
    if length & 129:
        length, at = _long(data, at - 1, left)
        if length < 0:
            raise _bad("A length is below zero.")
        end = at + length
    else:
        end = at + (length >> 1)
    if end > len(data):
        raise IndexError
    try:
        text = data[at:end].decode()
    except UnicodeDecodeError:
        raise UnreadableError(Flaw(FlawCode.NOT_UTF8, "A string is not UTF-8.")) from None
    if "\0" in text:
        raise UnreadableError(Flaw(FlawCode.NUL_CHARACTER, "A string holds a NUL character."))
    return text, end


def _null(_data: bytes, at: int, _left: Allowance) -> tuple[None, int]:
    return None, at


def _boolean(data: bytes, at: int, _left: Allowance) -> tuple[bool, int]:
    byte = data[at]
    if byte > 1:
        raise _bad("A boolean is neither 0 nor 1.")
    return byte == 1, at + 1


def _number(form: Struct, shown: Callable[[float], Any]) -> Reader:
    size, unpack = form.size, form.unpack_from

    def read(data: bytes, at: int, _left: Allowance) -> tuple[Any, int]:
        end = at + size
        if end > len(data):
            raise IndexError
        return shown(unpack(data, at)[0]), end

    return read


def _fixed(size: int) -> Reader:
    def read(data: bytes, at: int, _left: Allowance) -> tuple[bytes, int]:
        end = at + size
        if end > len(data):
            raise IndexError
        return data[at:end], end

    return read


def _bad(text: str) -> UnreadableError:
    return UnreadableError(Flaw(FlawCode.NOT_BY_SCHEMA, text))


_PRIMITIVES: Final[dict[str, Reader]] = {
    "null": _null,
    "boolean": _boolean,
    "int": _int,
    "long": _long,
    "float": _number(_FLOAT, values.short_decimal_of),
    "double": _number(_DOUBLE, values.decimal_of),
    "string": _string,
}
