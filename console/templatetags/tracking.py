"""How the tracking pages write what a try ended in, and how long something took."""

from datetime import timedelta
from functools import lru_cache

from django import template
from django.template.defaultfilters import truncatechars
from django.urls import reverse
from django.utils.html import format_html
from django.utils.safestring import SafeString

from console.layout.badges import BADGE, UNKNOWN
from console.tracking.words import ENDS
from integration.durations import rough

register = template.Library()


# A list has dozens of lines and few queues and endings: each is written once.
@register.filter
@lru_cache(maxsize=1_000)
def queue_page(name: str) -> str:
    """The address of a queue's page."""
    return reverse("queue", args=[name])


@register.simple_tag
@lru_cache(maxsize=100)
def track_end(ended: str) -> SafeString:
    """The badge of what a try ended in; an unknown one is shown as it is stored."""
    tone, sign, name = ENDS.get(ended, ("secondary", "?", ended))
    return format_html(BADGE, tone, sign, name)


@register.filter(is_safe=True)
def within(text: str, most: int) -> str:
    """What `truncatechars` makes of it; ids are short, and a list has hundreds of them."""
    return text if len(text) <= most and text.isascii() else truncatechars(text, most)


@register.filter
def took(length: timedelta | None) -> str:
    """A span of time with its fractions, such as "0.4 s"; a dash for what is not known."""
    if length is None:
        return UNKNOWN
    seconds = length.total_seconds()
    return rough(seconds) if seconds >= 0.1 else "< 0.1 s"
