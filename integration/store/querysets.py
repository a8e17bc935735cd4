"""Django's queries as text: for statements that embed a query people have narrowed."""

from typing import Any

from django.db.models import QuerySet


def text_of(queryset: QuerySet[Any, Any]) -> tuple[str, tuple[Any, ...]]:
    """Return a query's SQL and its parameters, also where it can find nothing.

    `sql_with_params` raises EmptyResultSet for such a one, for example of a person who filters for
    what they may not know of.
    """
    text, parameters = queryset.query.get_compiler(queryset.db, elide_empty=False).as_sql()
    return text, tuple(parameters)
