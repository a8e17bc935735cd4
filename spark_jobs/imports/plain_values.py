"""Values of documents looked at one by one: as texts, and for what JSON cannot hold."""

from decimal import Decimal
from typing import Any

from integration.documents.exact_json import encode


def text_of(value: object) -> str:
    """A value as a text column would have it; numbers digit by digit.

    >>> text_of(Decimal("1E+7"))
    '10000000'
    """
    if isinstance(value, bool):
        return "true" if value else "false"
    if isinstance(value, Decimal):
        return f"{value:f}"
    return encode(plainly(value)) if isinstance(value, dict | list) else str(value)


def plainly(value: Any) -> Any:
    """The same with a text wherever JSON has no such number."""
    if isinstance(value, dict):
        return {name: plainly(member) for name, member in value.items()}
    if isinstance(value, list):
        return [plainly(item) for item in value]
    return str(value) if isinstance(value, Decimal) and not value.is_finite() else value


def has_nul(value: object) -> bool:
    """Whether a NUL character is in any text or name of a document."""
    if isinstance(value, dict):
        return any(has_nul(name) or has_nul(member) for name, member in value.items())
    if isinstance(value, list):
        return any(map(has_nul, value))
    return isinstance(value, str) and "\0" in value
