"""JSON text whose numbers are exactly those of the document; the standard writer has no Decimal."""

import uuid
from collections.abc import Iterator, Mapping
from datetime import date, datetime, time
from decimal import Decimal
from json import JSONEncoder
from typing import Any, Final


class _Slow(Exception):  # noqa: N818 - not an error: the quick way does not know this value
    """The document holds something that json cannot write."""


def _give_up(value: object) -> None:
    raise _Slow(value)


_quick: Final = JSONEncoder(
    ensure_ascii=False, separators=(",", ":"), allow_nan=False, default=_give_up
).encode


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
        return "".join(_parts(document))


def _parts(value: Any) -> Iterator[str]:  # noqa: ANN401 - any document
    match value:
        case Mapping():
            yield from _members(value)
        case list() | tuple():
            yield from _items(value)
        case Decimal():
            yield _number(value)
        case datetime() | date() | time():
            yield _quick(value.isoformat())
        case uuid.UUID():
            yield _quick(str(value))
        case _:
            yield _scalar(value)


def _members(value: Mapping[Any, Any]) -> Iterator[str]:
    between = "{"
    for name, member in value.items():
        yield f"{between}{_quick(str(name))}:"
        yield from _parts(member)
        between = ","
    yield "}" if value else "{}"


def _items(value: list[Any] | tuple[Any, ...]) -> Iterator[str]:
    between = "["
    for item in value:
        yield between
        yield from _parts(item)
        between = ","
    yield "]" if value else "[]"


def _number(value: Decimal) -> str:
    if not value.is_finite():
        raise ValueError(f"{value} is no number that JSON can hold")
    return str(value)


def _scalar(value: object) -> str:
    try:
        return _quick(value)
    except _Slow:
        raise ValueError(f"JSON cannot hold a {type(value).__name__}") from None
