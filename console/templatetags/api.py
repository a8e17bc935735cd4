"""A list's or a thing's API call, to be copied."""

from typing import Any

from django import template

from console.api.calls import Call, call_of

register = template.Library()


@register.inclusion_tag("console/api/_call.html")
def api_call(operation: str, query: str = "", **parts: Any) -> dict[str, Call]:
    """The call of a reading operation, such as “failures list”, with a page's filter."""
    return {"call": call_of(operation, query, parts)}
