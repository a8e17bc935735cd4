"""States, numbers and times in words and signs, the same in all templates and tables."""

from collections.abc import Mapping
from datetime import datetime, timedelta
from typing import Any, Final

from django.utils import timezone
from django.utils.html import format_html
from django.utils.safestring import SafeString

from integration.durations import rough, spoken
from integration.policy.states import DeliveryState, Ended, ErrorState, OutboxState

UNKNOWN: Final = "\N{EN DASH}"
# Never colour alone: a badge has a sign and a word.
SIGN: Final = '<span class="text-{0}" aria-hidden="true">{1}</span>'
BADGE: Final = f'<span class="badge sign bg-{{0}}-lt">{SIGN} {{2}}</span>'

Look = tuple[str, str, str]
"""The tone, the sign and the word of a state."""
FAILURES: Final[Mapping[str, Look]] = {
    ErrorState.HOLD: ("red", "!", "On hold"),
    ErrorState.RETRY: ("yellow", "↻", "Waiting for a retry"),
    ErrorState.READY: ("azure", "→", "Released"),
    ErrorState.PARKED: ("yellow", "‖", "Parked behind its key"),
    ErrorState.PROCESSING: ("purple", "◆", "Being tried alone after a crash"),
    ErrorState.RESOLVED: ("green", "✓", "Resolved"),
    ErrorState.DELETED: ("secondary", "✕", "Deleted"),
}
OUTBOX: Final[Mapping[str, Look]] = {
    OutboxState.PENDING: ("azure", "…", "Waiting"),
    OutboxState.STAMPED: ("purple", "→", "Being sent"),
    OutboxState.PUBLISHED: ("green", "✓", "In Kafka"),
    OutboxState.DEAD: ("red", "!", "Refused"),
    OutboxState.CANCELLED: ("secondary", "✕", "Not sent"),
}
CALLS: Final[Mapping[str, Look]] = {
    DeliveryState.SENDING: ("purple", "→", "Under way"),
    DeliveryState.DELIVERED: ("green", "✓", "Delivered"),
    DeliveryState.FAILED: ("orange", "✕", "Failed"),
    DeliveryState.UNKNOWN: ("red", "?", "May have arrived"),
}
# What tries ended in.
ENDINGS: Final[Mapping[str, Look]] = {
    Ended.APPLIED: ("green", "✓", "Applied"),
    Ended.DELIVERED: ("green", "✓", "Delivered"),
    Ended.SUPERSEDED: ("secondary", "≡", "Superseded"),
    Ended.DUPLICATE: ("secondary", "=", "Repeat dropped"),
    Ended.RETRY: ("yellow", "↻", "Failed, tried again"),
    Ended.HOLD: ("red", "!", "Failed, on hold"),
    Ended.PARKED: ("yellow", "‖", "Parked behind its key"),
    Ended.STALE: ("secondary", "·", "Retry marker obsolete"),
    Ended.PASSED: ("secondary", "·", "Passed over"),
    Ended.DELETED: ("secondary", "✕", "Deleted"),
    Ended.RETURNED: ("azure", "↩", "Sent back"),
    Ended.EXPIRED: ("orange", "⌛", "Expired"),
}


def badge(looks: Mapping[Any, Look], state: str) -> SafeString:
    """The badge of a state; an unknown one is shown neutrally, never left out."""
    return format_html(BADGE, *looks.get(state, ("secondary", "?", state)))


def worded(words: Mapping[Any, str], value: str) -> str:
    """The words for a stored value; an unknown one as it is stored."""
    return words.get(value, value)


def number(value: int | None) -> str:
    """Thousands with commas; a dash for what is not known."""
    return UNKNOWN if value is None else f"{value:,}"


def ago(moment: datetime | None) -> SafeString | str:
    """Relative time with the absolute one as its tooltip: "5 min ago", "in 3 min"."""
    if moment is None:
        return UNKNOWN
    utc = moment.astimezone(timezone.get_default_timezone())
    words = relative(timezone.now() - moment)
    # Lists have hundreds of them, and of nothing in it could escaping change a character.
    return SafeString(
        f'<time datetime="{utc.isoformat(timespec="seconds")}" '
        f'title="{utc:%d %B %Y, %H:%M:%S} UTC">{words}</time>'
    )


def age(moment: datetime | None) -> SafeString | str:
    """The age of something, without the "ago"."""
    if moment is None:
        return UNKNOWN
    words = relative(timezone.now() - moment).removesuffix(" ago")
    return format_html('<time title="{}">{}</time>', f"{moment:%d %B %Y, %H:%M:%S} UTC", words)


def relative(passed: timedelta) -> str:
    """A duration before now (or after, when negative) in words."""
    length = abs(passed)
    if length < timedelta(seconds=1):
        return "now"
    return f"in {spoken(length)}" if passed < timedelta(0) else f"{spoken(length)} ago"


def duration(length: timedelta | float | str | None) -> str:
    """A duration in its largest unit: "7 h"; a dash for what is not known."""
    if length is None or isinstance(length, str):
        return UNKNOWN
    whole = length if isinstance(length, timedelta) else timedelta(seconds=length)
    return "at once" if abs(whole) < timedelta(seconds=1) else spoken(whole)


def took(length: timedelta | float | str | None) -> str:
    """A span of time with its fractions, such as "0.4 s"; a dash for what is not known."""
    if length is None or isinstance(length, str):
        return UNKNOWN
    seconds = length.total_seconds() if isinstance(length, timedelta) else length
    return rough(seconds) if seconds >= 0.1 else "< 0.1 s"
