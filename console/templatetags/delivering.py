"""How pages write what is known of endpoints: standings, calls and how long they took."""

from typing import Final

from django import template
from django.utils.html import format_html
from django.utils.safestring import SafeString

from console.layout.badges import BADGE, UNKNOWN
from integration.policy.states import DeliveryState
from integration.selectors.delivering.standing import Standing

register = template.Library()

# Never colour alone: each has a sign and a word. (tone, sign, word)
CALL_SIGNS: Final = {
    DeliveryState.SENDING: ("purple", "→", "Under way"),
    DeliveryState.DELIVERED: ("green", "✓", "Delivered"),
    DeliveryState.FAILED: ("orange", "✕", "Not taken"),
    DeliveryState.UNKNOWN: ("red", "?", "May have arrived"),
}


@register.simple_tag
def endpoint_standing(standing: Standing) -> SafeString:
    """The badge of how an endpoint stands."""
    return format_html(BADGE, standing.tone, standing.sign, standing.label)


@register.simple_tag
def call_state(state: str) -> SafeString:
    """The badge of how a call ended; an unknown state is shown neutrally, never left out."""
    known = state in set(DeliveryState)
    tone, sign, name = CALL_SIGNS[DeliveryState(state)] if known else ("secondary", "?", state)
    return format_html(BADGE, tone, sign, name)


@register.filter
def milliseconds(value: float | str | None) -> str:
    """A short time: "3 ms", "1.4 s"; a dash for what nobody measured."""
    if value is None or isinstance(value, str):
        return UNKNOWN
    if value < 1_000:
        return f"{value:,.0f} ms"
    return f"{value / 1_000:,.1f} s"


@register.filter
def pace(per_second: float | str | None) -> str:
    """A rate in the unit that reads best: "3.2 a second", "4 a minute", "none"."""
    if per_second is None or isinstance(per_second, str):
        return UNKNOWN
    if not per_second:
        return "none"
    if per_second >= 1:
        return f"{per_second:,.1f} a second"
    minute = per_second * 60
    return f"{minute:,.0f} a minute" if minute >= 1 else f"{minute * 60:,.0f} an hour"
