"""The operator API as people read it: every operation, from the document that programs read."""

from functools import cache
from typing import Final

from django.http import HttpRequest, HttpResponse
from django.shortcuts import render
from django.views.decorators.http import require_GET

from console.layout.access import Right, needs
from console.layout.answers import origin_of
from sluice_cli.operations import Operation, every

WORDS: Final = {right.word: right.words for right in Right}
TITLES: Final = {
    "failures": "Failures",
    "operations": "Operations",
    "queues": "Queues",
    "outbox": "Outbox",
    "endpoints": "Delivery",
    "messages": "Messages",
    "notices": "Notices",
    "cron": "Cron tasks",
    "bulk": "Bulk jobs",
    "setup": "Set-up",
    "configuration": "Configuration file",
    "changes": "Audit",
}
Row = tuple[Operation, str]


@require_GET
@needs(Right.VIEW)
def reference(request: HttpRequest) -> HttpResponse:
    """Every operation with its parameters and rights; it needs no other site."""
    context = {"rooms": rooms(), "origin": origin_of(request)}
    return render(request, "console/api/reference.html", context)


@cache
def rooms() -> list[tuple[str, str, list[Row]]]:
    """The groups in the console's order: a name for links, a title, operations with rights."""
    found = []
    for group, title in TITLES.items():
        own = [one for one in every() if one.group == group]
        ordered = sorted(own, key=lambda one: (one.acts, one.path))
        found.append((group, title, [(one, _rights(one)) for one in ordered]))
    return found


def _rights(operation: Operation) -> str:
    return "; ".join(WORDS[word] for word in operation.rights)
