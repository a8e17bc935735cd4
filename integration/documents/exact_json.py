"""JSON text whose numbers are exactly those of the document; the standard writer has no Decimal."""

import uuid
from collections.abc import Callable, Iterable, Mapping
from datetime import date, datetime, time
from decimal import Decimal
from json import JSONDecoder, JSONEncoder
from typing import Any, Final


class _Slow(Exception):  # noqa: N818 - not an error: the quick way does not know this value
    """The document holds something that json cannot write."""


def _give_up(value: object) -> None:
    raise _Slow(value)


_quick: Final = JSONEncoder(
    ensure_ascii=False, separators=(",", ":"), allow_nan=False, default=_give_up
).encode


class StoredDecoder(JSONDecoder):
    """Reads what PostgreSQL kept: it writes out each digit, of 1e5000, too.

    Whole numbers that are longer than Python reads as int are Decimal.
    """

    def __init__(self, **given: Any) -> None:
        super().__init__(parse_int=_whole, **given)


def _whole(text: str) -> int | Decimal:
    try:
        return int(text)
    except ValueError:
        return Decimal(text)


def encode(document: object) -> str:
    """Return the document as JSON text.

    Decimals are written digit by digit, dates and times in ISO form, UUIDs as text. Raises
    ValueError for NaN, infinities and values that JSON cannot hold.

    >>> encode({"qty": Decimal("1.50")})
    '{"qty":1.50}'
    """
    try:
        return _quick(document)
    except _Slow:
        return _exact(document)


def _exact(value: Any) -> str:
    form = _FORMS.get(type(value))
    if form is not None:
        return form(value)
    match value:
        case Mapping():
            return _members(value)
        case list() | tuple():
            return _items(value)
        case _:
            return _single(value)


def _single(value: object) -> str:
    match value:
        case Decimal():
            return _number(value)
        case datetime() | date() | time():
            return _quick(value.isoformat())
        case uuid.UUID():
            return _quick(str(value))
        case _:
            return _scalar(value)


def _members(value: Mapping[Any, Any]) -> str:
    members = [f"{_quick(str(name))}:{_exact(member)}" for name, member in value.items()]
    return f"{{{','.join(members)}}}"


def _items(value: Iterable[Any]) -> str:
    return f"[{','.join(map(_exact, value))}]"


def _number(value: Decimal) -> str:
    if not value.is_finite():
        raise ValueError(f"{value} is no number that JSON can hold")
    return str(value)


def _scalar(value: object) -> str:
    try:
        return _quick(value)
    except _Slow:
        raise ValueError(f"JSON cannot hold a {type(value).__name__}") from None


# The writers of most members' types; whatever else there is takes the longer way.
_FORMS: Final[Mapping[type, Callable[[Any], str]]] = {
    str: _quick,
    int: int.__repr__,
    Decimal: _number,
    dict: _members,
    list: _items,
}
