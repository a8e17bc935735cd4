"""Limits to what an encoded message may unfold to; its size has a limit of its own before that."""

from typing import Final

from integration.envelope import DEFAULT, Flaw, FlawCode

MAX_DEPTH: Final = DEFAULT.max_depth
# A few bytes may stand for any number of values (an Avro array of nulls has none at all).
MAX_VALUES: Final = 1_000_000

TOO_DEEP: Final = Flaw(
    FlawCode.TOO_DEEP, f"The document is nested more than {MAX_DEPTH} levels deep."
)
TOO_MANY: Final = Flaw(
    FlawCode.TOO_MANY_VALUES, f"The message unfolds to more than {MAX_VALUES:,} values."
)


class Allowance:
    """The depth and the number of values that one message has left. Made for each message."""

    __slots__ = ("depth", "values")

    def __init__(self) -> None:
        self.depth = MAX_DEPTH
        self.values = MAX_VALUES
