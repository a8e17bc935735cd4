"""What an answer shows once, to a form that is sent twice.

After a double click the browser shows the second answer only: nobody has seen what the first one
showed, and the second has to show something that works.
"""

from datetime import datetime, timedelta
from typing import Final, Protocol

from integration.store.sessions import database_time

SENT_TWICE: Final = timedelta(seconds=30)


class Token(Protocol):
    """A token whose text was shown when it was made."""

    created_at: datetime
    last_used_at: datetime | None
    revoked_at: datetime | None


def is_unseen(token: Token) -> bool:
    """Return whether it was made a moment ago, and nobody has used it yet."""
    is_new = token.created_at > just_before()
    return is_new and token.last_used_at is None and token.revoked_at is None


def just_before() -> datetime:
    """What was made later than this may come of the same form."""
    return database_time() - SENT_TWICE
