"""Columns that several lists of the set-up have in common."""

from typing import Final

import django_tables2 as tables
from django.utils.html import format_html
from django.utils.safestring import SafeString
from django_tables2.utils import A

from console.layout.badges import BADGE, number

NUMBER: Final = {"td": {"class": "num"}, "th": {"class": "num"}}


class Named(tables.Column):
    """The name, as a link to the page of the row."""

    def __init__(self, one: str, label: str = "Name") -> None:
        super().__init__(
            label,
            linkify=(one, [A("pk")]),
            attrs={"a": {"class": "fw-bold long"}, "td": {"class": "wide"}},
        )


class Switched(tables.Column):
    """On or off, with a sign, a word and a colour."""

    def __init__(self) -> None:
        super().__init__("Switch")

    def render(self, value: bool) -> SafeString:
        return switched(value)


class Counted(tables.Column):
    """A number, with its thousands."""

    def __init__(self, label: str) -> None:
        super().__init__(label, attrs=NUMBER)

    def render(self, value: int | None) -> str:
        return number(value)


def switched(value: object) -> SafeString:
    """The badge of a switch."""
    tone, sign, word = ("green", "✓", "on") if value else ("secondary", "○", "off")
    return format_html(BADGE, tone, sign, word)
