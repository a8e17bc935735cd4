"""States and numbers in words and signs, for templates and tables alike."""

from collections.abc import Mapping
from typing import Any, Final

from django.utils.html import format_html
from django.utils.safestring import SafeString

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


def number(value: int | None) -> str:
    """Thousands with commas; a dash for what is not known."""
    return UNKNOWN if value is None else f"{value:,}"
