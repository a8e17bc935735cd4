"""The newness guard for handlers that write tables of their own."""

from collections.abc import Sequence
from datetime import datetime

from integration.handlers.ports import Claim, filled
from integration.message import Message


def claim_newest(
    structure: str, key: str, message: Message, *, version: int | datetime | None = None
) -> bool:
    """Whether `message` is the newest for (structure, key); True locks the key until the commit.

    For handlers that write tables of their own: write only when it is True, else return
    Superseded(). Raises UnknownStructureError.
    """
    return claim_all(structure, [(key, message, version)])[0]


def claim_all(structure: str, claims: Sequence[Claim]) -> list[bool]:
    """As claim_newest for (key, message, version) of a whole batch, mostly in one statement.

    Of several claims of one key only the newest can be True. Raises UnknownStructureError, and
    PermanentError BAD_VERSION for a version that is no integer or timestamp.
    """
    return filled().guard(structure, claims)
