"""What the endings of tries are called on pages, with a colour and a sign."""

from typing import Final

from integration.policy.states import Ended

ENDS: Final[dict[str, tuple[str, str, str]]] = {
    Ended.APPLIED: ("green", "✓", "Applied"),
    Ended.DELIVERED: ("green", "✓", "Delivered"),
    Ended.SUPERSEDED: ("secondary", "≡", "Superseded"),
    Ended.DUPLICATE: ("secondary", "=", "Repeat dropped"),
    Ended.RETRY: ("yellow", "↻", "Failed, tried again"),
    Ended.HOLD: ("red", "!", "Failed, on hold"),
    Ended.STALE: ("secondary", "·", "Reminder passed"),
    Ended.PASSED: ("secondary", "·", "Passed"),
    Ended.DELETED: ("secondary", "✕", "Deleted"),
    Ended.EXPIRED: ("orange", "⌛", "Expired"),
}
