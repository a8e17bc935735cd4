"""Why somebody did something: one bound for every history that keeps it."""

from typing import Final

REASON_CHARACTERS: Final = 500


def cut(reason: str) -> str:
    """The reason as it is stored: one change may write it into thousands of rows."""
    return reason.strip()[:REASON_CHARACTERS]
