"""Tags for states of operations and for what became of their messages."""

from django import template
from django.utils.safestring import SafeString

from console.layout.badges import badge
from console.operations.words import BECAME, STATES, outcome_words

register = template.Library()
register.filter(outcome_words)


@register.simple_tag
def operation_state(state: str) -> SafeString:
    """The badge of how an operation stands."""
    return badge(STATES, state)


@register.simple_tag
def became(what: str) -> SafeString | str:
    """The badge of what became of a message after the operation."""
    return badge(BECAME, what) if what else ""


@register.filter
def time_to_go(seconds: float | None) -> str:
    """A time to go, in words: "40 s", "5 min", "3 h"."""
    if seconds is None:
        return "not known yet"
    for length, word in ((86_400, "days"), (3_600, "h"), (60, "min")):
        if seconds >= 2 * length:
            return f"{seconds / length:,.0f} {word}"
    return f"{seconds:,.0f} s"
