"""Filters that several lists of the set-up have in common."""

from typing import Any

import django_filters
from django.db.models import Q, QuerySet


class Words(django_filters.CharFilter):
    """Rows that hold what was typed in one of these columns, in any case."""

    def __init__(self, *columns: str) -> None:
        super().__init__(label="Search", max_length=100)
        self._columns = columns

    def filter(self, qs: QuerySet[Any], value: str) -> QuerySet[Any]:
        if not value:
            return qs
        found = Q()
        for column in self._columns:
            found |= Q(**{f"{column}__icontains": value})
        return qs.filter(found)


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


def words_and_switch(*columns: str) -> type[django_filters.FilterSet]:
    """The filter of a list whose rows have a switch: by words in these columns, and by it."""

    class Chosen(django_filters.FilterSet):
        words = Words(*columns)
        enabled = SwitchFilter()

    return Chosen
