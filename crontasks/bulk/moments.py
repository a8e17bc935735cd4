"""Times as a job request says them: a moment, or how long before now; fixed when it is asked."""

from datetime import UTC, datetime, timedelta
from typing import Final

from crontasks.bulk.errors import bad_job_request
from integration import durations
from integration.store.sessions import fetch_all

HOW: Final = "a time such as 2026-01-31T10:00Z, a day such as 2026-01-31, or how long ago: 7 d"


def now() -> datetime:
    """The database's time."""
    [(found,)] = fetch_all("SELECT clock_timestamp()")
    at: datetime = found
    return at.astimezone(UTC)


def read(name: str, text: str, at: datetime) -> str:
    """The moment that a text means at `at`, as ISO text; "" for none. Raises BulkError.

    Without a zone it is UTC.
    """
    text = text.strip()
    if not text:
        return ""
    found = _moment(text)
    if found is None:
        try:
            found = at - timedelta(seconds=durations.read(text))
        except (ValueError, OverflowError) as e:
            raise bad_job_request(f"{name} is {text[:60]!r}, and should be {HOW}") from e
    return found.astimezone(UTC).isoformat()


def _moment(text: str) -> datetime | None:
    try:
        found = datetime.fromisoformat(text)
    except ValueError:
        return None
    # A number alone is a duration; fromisoformat would take eight digits for a day.
    if text.isdecimal():
        return None
    return found if found.tzinfo is not None else found.replace(tzinfo=UTC)
