"""Counts and names as a sentence needs them: "1 message", "1,200 messages", "a, b and c". Pure."""

from collections.abc import Sequence


def so_many(count: int, one: str, many: str = "") -> str:
    """The count and what is counted; `many` where it is not `one` with an s."""
    return f"{count:,} {one if count == 1 else many or f'{one}s'}"


def listed(names: Sequence[str], most: int = 1_000) -> str:
    """The names, those beyond `most` only as a count.

    >>> listed(["a", "b", "c", "d"], 2)
    'a, b and 2 more'
    """
    shown = list(names[:most])
    if len(names) > most:
        shown.append(f"{len(names) - most:,} more")
    return shown[0] if len(shown) == 1 else f"{', '.join(shown[:-1])} and {shown[-1]}"
