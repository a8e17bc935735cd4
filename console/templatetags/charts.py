"""How the charts page writes how long something took."""

from django import template

from console.layout.badges import UNKNOWN
from integration.durations import rough

register = template.Library()


@register.filter
def seconds(value: float | str | None) -> str:
    """A span of time with its fractions, such as "0.4 s"; a dash for what is not known."""
    if value is None or isinstance(value, str):
        return UNKNOWN
    return rough(value) if value >= 0.1 else "< 0.1 s"
