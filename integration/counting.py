"""A count with its noun, as a sentence needs it: "1 message", "1,200 messages". Pure."""


def so_many(count: int, one: str, many: str = "") -> str:
    """The count and what is counted; `many` where it is not `one` with an s."""
    return f"{count:,} {one if count == 1 else many or f'{one}s'}"
