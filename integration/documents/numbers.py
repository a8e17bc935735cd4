"""Numbers with exponents: PostgreSQL stores documents with every digit of them."""

from decimal import Decimal
from typing import Final

# A double has up to 324 digits when it is written without an exponent.
MOST_DIGITS: Final = 400
# What all numbers of a document may take beyond what was written.
MOST_TOGETHER: Final = 1_000_000
# Shorter ones make a document a few times as long, and no more.
_SHORT: Final = 30


def is_too_long(body: object) -> bool:
    """Return whether seven characters, such as 1e4300, would become thousands, or many do so."""
    together = 0
    left = [body]
    while left:
        value = left.pop()
        if isinstance(value, dict):
            left.extend(value.values())
        elif isinstance(value, list | tuple):
            left.extend(value)
        elif isinstance(value, Decimal) and abs(value.adjusted()) > _SHORT:
            added = _added(value)
            together += added
            if added > MOST_DIGITS or together > MOST_TOGETHER:
                return True
    return False


def _added(value: Decimal) -> int:
    """The zeros that stand for its exponent."""
    exponent = value.as_tuple().exponent
    if not isinstance(exponent, int):
        return 0  # not finite, which JSON has no number for
    return exponent if exponent > 0 else max(0, -value.adjusted() - 1)
