"""Tags for states of bulk runs and for what would become of a row."""

import json
from typing import Final

from django import template
from django.template.defaultfilters import filesizeformat
from django.utils.html import format_html
from django.utils.safestring import SafeString

from console.bulk.words import ENDS, SILENT, STATES, stage_words
from console.layout.badges import BADGE, badge
from integration.selectors.bulk.runs import ShownRun

FACT_CHARACTERS: Final = 2_000
register = template.Library()
register.filter(stage_words)


@register.simple_tag
def bulk_state(shown: ShownRun) -> SafeString:
    """The badge of how a run stands."""
    if shown.standing.is_silent:
        return format_html(BADGE, *SILENT)
    return badge(STATES, shown.run.state)


@register.simple_tag
def row_end(ends: str) -> SafeString:
    """The badge of what would become of a row; a word that is not known as it is."""
    tone, sign = ENDS.get(ends, ("secondary", "·"))
    return format_html(BADGE, tone, sign, ends.capitalize())


@register.filter
def fact_of(value: object, name: str) -> str:
    """A fact that a job reports: sizes and numbers as people read them."""
    if isinstance(value, bool):
        return "yes" if value else "no"
    if isinstance(value, int) and name.endswith("bytes"):
        return str(filesizeformat(value))
    if isinstance(value, int):
        return f"{value:,}"
    if isinstance(value, dict | list):
        return json.dumps(value, ensure_ascii=False)[:FACT_CHARACTERS]
    return str(value)
