"""Limits to what an encoded message may unfold to; its size has a limit of its own before that."""

from typing import Final

from integration.envelope import DEFAULT, Flaw, FlawCode

MAX_DEPTH: Final = DEFAULT.max_depth
MAX_VALUES: Final = 1_000_000
# A few bytes may claim any number of values, but only nothings take no byte in Avro: what honestly
# is there has no more than this for each byte of its record.
VALUES_A_BYTE: Final = 4
FREE_VALUES: Final = 10_000

TOO_DEEP: Final = Flaw(
    FlawCode.TOO_DEEP, f"The document is nested more than {MAX_DEPTH} levels deep."
)
TOO_MANY: Final = Flaw(
    FlawCode.TOO_MANY_VALUES,
    f"The message unfolds to more than {MAX_VALUES:,} values, or to far more than its size "
    "can hold.",
)


class Allowance:
    """The depth and the number of values that one message has left. Made for each message."""

    __slots__ = ("depth", "values")

    def __init__(self, values: int = MAX_VALUES) -> None:
        self.depth = MAX_DEPTH
        self.values = values


def allowance_of(record: bytes) -> Allowance:
    """Return what a record may unfold to whose every value takes a byte, or is nothing."""
    return Allowance(min(MAX_VALUES, FREE_VALUES + VALUES_A_BYTE * len(record)))
