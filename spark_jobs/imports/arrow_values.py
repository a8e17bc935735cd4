"""The values of Arrow's arrays as JSON has them, exactly: a number is never rounded or rewritten.

Texts and whole numbers stay as they are; a float is the shortest decimal number that means it, so
0.1 is 0.1 and 10,000,000 no 1.0E+7; dates and times are ISO texts, a moment with its offset from
UTC; bytes are Base64; structs and maps are objects, lists are lists. What no JSON document can hold
(NaN, infinities, years beyond the calendar) is NOT_A_NUMBER.
"""

import struct
from base64 import b64encode
from collections.abc import Callable, Iterable, Sequence
from datetime import datetime, timedelta
from decimal import Decimal
from typing import Any, Final

import pyarrow as pa
from pyarrow import types

NOT_A_NUMBER: Final = Decimal("NaN")
_EPOCH: Final = datetime(1970, 1, 1)  # noqa: DTZ001 - what has no zone is told without one
_PER_SECOND: Final = {"s": 1, "ms": 1_000, "us": 1_000_000, "ns": 1_000_000_000}
_DIGITS: Final = {"s": 0, "ms": 3, "us": 6, "ns": 9}


def values_of(array: Any) -> list[Any]:
    """One value for each place; None for a null. Raises TypeError for a type JSON has no form of.

    Text that is not UTF-8 comes with its bytes escaped, as `surrogateescape` does it.
    """
    form = next((form for is_one, _, form in _FORMS if is_one(array.type)), None)
    if form is None:
        raise TypeError(f"JSON has no form of {array.type}")
    return form(array)


def category(kind: Any) -> str:
    """Name what values of a type are in JSON; "" for a type that JSON has no form of."""
    if _is_extension(kind):
        return category(kind.storage_type)
    if types.is_dictionary(kind):
        return category(kind.value_type)
    return next((word for is_one, word, _ in _FORMS if is_one(kind)), "")


def _is_extension(kind: Any) -> bool:
    return isinstance(kind, pa.BaseExtensionType)


def _as_they_are(array: Any) -> list[Any]:
    values: list[Any] = array.to_pylist()
    return values


def _floats(array: Any) -> list[Any]:
    return _each(_double if types.is_float64(array.type) else _single, array.to_pylist())


def _days(array: Any) -> list[Any]:
    return _each(_day, array.cast(pa.date32()).cast(pa.int32()).to_pylist())


def _moments(array: Any) -> list[Any]:
    unit, zone = array.type.unit, "+00:00" if array.type.tz else ""
    return _each(lambda at: _moment(at, unit, zone), array.cast(pa.int64()).to_pylist())


def _times(array: Any) -> list[Any]:
    unit, whole = array.type.unit, pa.int32() if types.is_time32(array.type) else pa.int64()
    return _each(lambda at: _time(at, unit), array.cast(whole).to_pylist())


def _bytes(array: Any) -> list[Any]:
    return _each(lambda data: b64encode(data).decode(), array.to_pylist())


def _each(form: Callable[[Any], object], values: Iterable[Any]) -> list[Any]:
    return [None if value is None else form(value) for value in values]


def _texts(array: Any) -> list[Any]:
    try:
        values: list[Any] = array.to_pylist()
    except UnicodeDecodeError:
        data = array.cast(pa.large_binary()).to_pylist()
        return _each(lambda raw: raw.decode("utf-8", "surrogateescape"), data)
    return values


def _objects(array: Any) -> list[Any]:
    names = [array.type.field(place).name for place in range(array.type.num_fields)]
    # As `flatten` gives them: of this slice, and null where the object is.
    columns = [values_of(column) for column in array.flatten()]
    there = array.is_valid().to_pylist()
    members = zip(*columns, strict=True) if columns else ((),) * len(array)
    return [
        dict(zip(names, values, strict=True)) if is_there else None
        for values, is_there in zip(members, there, strict=True)
    ]


def _maps(array: Any) -> list[Any]:
    """An object where the keys are texts, else a list of pairs."""

    def pairs(begin: int, end: int) -> list[Any]:
        keys, items = values_of(array.keys[begin:end]), values_of(array.items[begin:end])
        return list(zip(keys, items, strict=True))

    values = _lists(array, pairs)
    if category(array.type.key_type) == "text":
        return _each(dict, values)
    return _each(lambda one: [list(pair) for pair in one], values)


def _lists(array: Any, items_of: Callable[[int, int], list[Any]]) -> list[Any]:
    """The items lie in one array for all lists; of a slice only its own are looked at."""
    if not len(array):
        return []
    offsets, there = array.offsets.to_pylist(), array.is_valid().to_pylist()
    first = offsets[0]
    items = items_of(first, offsets[-1])
    return [
        items[offsets[place] - first : offsets[place + 1] - first] if is_there else None
        for place, is_there in enumerate(there)
    ]


def _double(value: float) -> Decimal:
    return Decimal(repr(value).removesuffix(".0"))


def _single(value: float) -> Decimal:
    """Read like `_double` what has 32 bits or fewer: 0.1 there is no 0.10000000149011612."""
    for digits in range(6, 9):
        text = f"{value:.{digits}g}"
        try:
            if struct.unpack("f", struct.pack("f", float(text)))[0] == value:
                return _double(float(text))
        except OverflowError:  # rounded up beyond what 32 bits hold
            continue
    return _double(float(f"{value:.9g}"))


def _day(days: int) -> str | Decimal:
    try:
        return (_EPOCH + timedelta(days=days)).date().isoformat()
    except OverflowError:
        return NOT_A_NUMBER


def _moment(at: int, unit: str, zone: str) -> str | Decimal:
    seconds, rest = divmod(at, _PER_SECOND[unit])
    try:
        moment = _EPOCH + timedelta(seconds=seconds)
    except OverflowError:
        return NOT_A_NUMBER
    return f"{moment.isoformat()}{_fraction(rest, unit)}{zone}"


def _time(at: int, unit: str) -> str:
    seconds, rest = divmod(at, _PER_SECOND[unit])
    return f"{(_EPOCH + timedelta(seconds=seconds)).time().isoformat()}{_fraction(rest, unit)}"


def _fraction(rest: int, unit: str) -> str:
    """Write the fraction in thousands, as many as needed: nothing, millis, micros or nanos."""
    digits = f"{rest:0{_DIGITS[unit]}d}" if rest else ""
    while digits.endswith("000"):
        digits = digits[:-3]
    return f".{digits}" if digits else ""


def _one_of(*tests: Callable[[Any], bool]) -> Callable[[Any], bool]:
    return lambda kind: any(is_one(kind) for is_one in tests)


_Form = tuple[Callable[[Any], bool], str, Callable[[Any], list[Any]]]
# Forms of types: how one is known, what it is in JSON, and how its values are made.
_FORMS: Final[Sequence[_Form]] = (
    (_one_of(types.is_string, types.is_large_string), "text", _texts),
    (types.is_integer, "a whole number", _as_they_are),
    (types.is_decimal, "a number", _as_they_are),
    (types.is_floating, "a number", _floats),
    (types.is_boolean, "true or false", _as_they_are),
    (types.is_timestamp, "a moment", _moments),
    (types.is_date, "a date", _days),
    (types.is_time, "a time", _times),
    (types.is_struct, "an object", _objects),
    (types.is_map, "an object", _maps),
    (
        _one_of(types.is_list, types.is_large_list),
        "a list",
        lambda array: _lists(array, lambda begin, end: values_of(array.values[begin:end])),
    ),
    (
        types.is_fixed_size_list,
        "a list",
        lambda array: values_of(array.cast(pa.list_(array.type.value_type))),
    ),
    (
        _one_of(types.is_binary, types.is_large_binary, types.is_fixed_size_binary),
        "bytes",
        _bytes,
    ),
    (types.is_null, "null", lambda array: [None] * len(array)),
    (types.is_dictionary, "", lambda array: values_of(array.dictionary_decode())),
    (_is_extension, "", lambda array: values_of(array.storage)),
)
