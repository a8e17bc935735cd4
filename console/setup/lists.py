"""Columns and filters that several lists of the set-up have in common."""

from typing import Any, Final

import django_filters
import django_tables2 as tables
from django.db.models import Q, QuerySet
from django.utils.html import format_html
from django.utils.safestring import SafeString

from console.layout.words import BADGE, number

NUMBER: Final = {"td": {"class": "num"}, "th": {"class": "num"}}


class Named(tables.Column):
    """The name, as a link to the page of the row."""

    def __init__(self, one: str, label: str | None = "Name") -> None:
        super().__init__(
            label,
            linkify=(one, [tables.A("pk")]),
            attrs={"a": {"class": "fw-bold long"}, "td": {"class": "wide named"}},
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


class Words(django_filters.CharFilter):
    """Rows that hold what was typed in one of these columns, in any case."""

    def __init__(self, *columns: str) -> None:
        super().__init__(label="Search", max_length=100)
        self._columns = columns

    def filter(self, qs: QuerySet[Any], value: str) -> QuerySet[Any]:
        if not value:
            return qs
        wanted = Q()
        for column in self._columns:
            wanted |= Q(**{f"{column}__icontains": value})
        return qs.filter(wanted)


class SwitchFilter(django_filters.ChoiceFilter):
    """On, off, or both."""

    def __init__(self) -> None:
        super().__init__(
            field_name="enabled",
            label="Switch",
            choices=(("on", "on"), ("off", "off")),
            empty_label="on and off",
        )

    def filter(self, qs: QuerySet[Any], value: str) -> QuerySet[Any]:
        return qs.filter(enabled=value == "on") if value else qs


def filters_by(*columns: str, **more: django_filters.Filter) -> type[django_filters.FilterSet]:
    """The filters of a list: by words in these columns, and `more` by their names."""
    return type("Chosen", (django_filters.FilterSet,), {"words": Words(*columns), **more})
