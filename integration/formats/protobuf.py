"""Protobuf: a schema's messages read into JSON documents, and written from them.

Behind the header stands which message of the schema it is. What the library reads nests at most a
hundred levels deep.
"""

import re
from collections.abc import Callable
from decimal import Decimal
from math import isinf
from typing import Any, Final

from google.protobuf import json_format
from google.protobuf.descriptor import Descriptor, FieldDescriptor
from google.protobuf.message import DecodeError, EncodeError, Message
from google.protobuf.message_factory import GetMessageClass

from integration.envelope import Flaw, FlawCode
from integration.formats import avro_values as values
from integration.formats.limits import TOO_DEEP, TOO_MANY, Allowance
from integration.formats.protobuf_files import PoolOfSchema, pool_of
from integration.formats.schema import Coders, Misfit, Registered, UnreadableError
from integration.formats.wire import HEADER_BYTES

_FIELD: Final = re.compile(r"[Ff]ailed to parse (\S+) field|no field named \"([^\"]+)\"")
_KNOWN_TYPES: Final = "google.protobuf."
_MOST_INDEXES: Final = 16
_FIRST: Final = b"\0"
# No integer of Protobuf is larger; only a double can be.
_WIDEST: Final = 2**64
# Fields that are not set are no values, but a look at them takes its time as well.
_LOOKS_A_VALUE: Final = 4
# What the library stumbles over, beside its own errors. Runs and pages read whatever comes.
_STUMBLES: Final = (ArithmeticError, AttributeError, LookupError, TypeError, ValueError)
_BAD: Final = Flaw(
    FlawCode.NOT_BY_SCHEMA, "The bytes are no message of the schema: cut short, or of another one."
)


def coders(registered: Registered) -> Coders:
    """Return what decodes and what encodes records of this schema. Raises UnusableSchemaError."""
    pool = pool_of(registered)

    def decode(record: bytes) -> object:
        try:
            descriptor, at = _message_type(pool, record)
            message = GetMessageClass(descriptor).FromString(record[at:])
            return _document(message, Allowance())
        except UnreadableError as e:
            return e.flaw
        except RecursionError:
            return TOO_DEEP
        except (DecodeError, *_STUMBLES):
            return _BAD

    def encode(document: object, like: bytes) -> bytes | Misfit:
        return _encoded(pool, document, like)

    return decode, encode


def _encoded(pool: PoolOfSchema, document: object, like: bytes) -> bytes | Misfit:
    """Write a document as the same message of the schema as in `like`, else as the first one."""
    kind, descriptor = _FIRST, pool.top[0]
    if not isinstance(document, dict):
        return Misfit("$", "it must be an object.")
    try:
        if like:
            descriptor, at = _message_type(pool, like)
            kind = like[HEADER_BYTES:at]
        message = GetMessageClass(descriptor)()
        json_format.ParseDict(_plain(document), message, descriptor_pool=pool.pool)
        return kind + bytes(message.SerializeToString(deterministic=True))
    except json_format.ParseError as e:
        return _misfit(str(e))
    except EncodeError:
        return Misfit("$", "a required field is missing.")
    except (UnreadableError, RecursionError, *_STUMBLES):
        return Misfit("$", f"it is no {descriptor.full_name}.")


def _misfit(said: str) -> Misfit:
    """Name the field without its value, which the library's sentence holds."""
    found = _FIELD.search(said)
    if found is None:
        return Misfit("$", "a value does not fit the schema.")
    return Misfit(f"$.{found[1] or found[2]}", "it does not fit the schema.")


def _message_type(pool: PoolOfSchema, record: bytes) -> tuple[Descriptor, int]:
    """Return which message of the schema the record is, and where its body begins."""
    count, at = _varint(record, HEADER_BYTES)
    if count == 0:
        return pool.top[0], at
    if not 0 < count <= _MOST_INDEXES:
        raise UnreadableError(_BAD)
    among, descriptor = pool.top, None
    for _ in range(count):
        place, at = _varint(record, at)
        if not 0 <= place < len(among):
            raise UnreadableError(_BAD)
        descriptor = among[place]
        among = list(descriptor.nested_types)
    assert descriptor is not None  # noqa: S101 - count is above zero
    return descriptor, at


def _varint(data: bytes, at: int) -> tuple[int, int]:
    """Read a zigzag number of four bytes at most. Raises IndexError."""
    number = 0
    for shift in (0, 7, 14, 21):
        byte = data[at]
        at += 1
        number |= (byte & 127) << shift
        if byte < 128:
            return (number >> 1) ^ -(number & 1), at
    raise UnreadableError(_BAD)


def _document(message: Message, left: Allowance) -> Any:
    descriptor = message.DESCRIPTOR
    if descriptor.full_name.startswith(_KNOWN_TYPES):
        return _known(message, left)
    left.depth -= 1
    if left.depth < 0:
        raise UnreadableError(TOO_DEEP)
    document = {}
    for field in descriptor.fields:
        if field.has_presence and not message.HasField(field.name):
            continue
        document[field.name] = _member(field, getattr(message, field.name), left)
    left.depth += 1
    unset = len(descriptor.fields) - len(document)
    _spend(left, len(document) + unset // _LOOKS_A_VALUE)
    return document


def _spend(left: Allowance, count: int) -> None:
    left.values -= count
    if left.values < 0:
        raise UnreadableError(TOO_MANY)


def _member(field: FieldDescriptor, value: Any, left: Allowance) -> Any:
    if not _is_repeated(field):
        return _single(field, value, left)
    _spend(left, len(value))
    if field.message_type is not None and field.message_type.GetOptions().map_entry:
        inner = field.message_type.fields_by_name["value"]
        return {_key(key): _single(inner, value[key], left) for key in value}
    return [_single(field, item, left) for item in value]


def _is_repeated(field: FieldDescriptor) -> bool:
    repeated = getattr(field, "is_repeated", None)
    return bool(field.label == FieldDescriptor.LABEL_REPEATED if repeated is None else repeated)


def _key(key: object) -> str:
    if isinstance(key, bool):
        return str(key).lower()
    return str(key) if isinstance(key, int) else _text(key)


def _single(field: FieldDescriptor, value: Any, left: Allowance) -> Any:
    shown = _SHOWN.get(field.type)
    if field.type in {FieldDescriptor.TYPE_MESSAGE, FieldDescriptor.TYPE_GROUP}:
        return _document(value, left)
    if field.type == FieldDescriptor.TYPE_ENUM:
        named = field.enum_type.values_by_number.get(value)
        return value if named is None else named.name
    return value if shown is None else shown(value)


def _known(message: Message, left: Allowance) -> Any:
    """A type of the library's own, in the form that its JSON mapping gives it."""
    try:
        return _exact(json_format.MessageToDict(message), left)
    except (json_format.Error, *_STUMBLES):
        raise UnreadableError(_BAD) from None


def _exact(value: Any, left: Allowance) -> Any:
    if isinstance(value, float):
        return values.decimal_of(value)
    if isinstance(value, str):
        return _text(value)
    if isinstance(value, dict):
        _spend(left, len(value))
        return {_text(name): _exact(member, left) for name, member in value.items()}
    if isinstance(value, list):
        _spend(left, len(value))
        return [_exact(item, left) for item in value]
    return value


def _plain(value: Any) -> Any:
    """The document as the library takes it: it knows no Decimal. Raises OverflowError."""
    if isinstance(value, int):
        return value if abs(value) <= _WIDEST else _float(value)
    if isinstance(value, Decimal):
        is_whole = abs(value) <= _WIDEST and value == value.to_integral_value()
        return int(value) if is_whole else _float(value)
    if isinstance(value, dict):
        return {name: _plain(member) for name, member in value.items()}
    return [_plain(item) for item in value] if isinstance(value, list) else value


def _float(number: int | Decimal) -> float:
    """Of a float, not of an int, the library asks whether its field can hold it."""
    found = float(number)
    if isinf(found):
        raise OverflowError
    return found


def _text(value: object) -> str:
    """The text of a field. Only syntax 3 has it checked: in syntax 2 it may still be bytes."""
    if not isinstance(value, str):
        raise UnreadableError(Flaw(FlawCode.NOT_UTF8, "A string is not UTF-8."))
    if "\0" in value:
        raise UnreadableError(Flaw(FlawCode.NUL_CHARACTER, "A string holds a NUL character."))
    return value


_SHOWN: Final[dict[int, Callable[[Any], Any]]] = {
    FieldDescriptor.TYPE_STRING: _text,
    FieldDescriptor.TYPE_BYTES: values.base64_text,
    FieldDescriptor.TYPE_FLOAT: values.short_decimal_of,
    FieldDescriptor.TYPE_DOUBLE: values.decimal_of,
}
