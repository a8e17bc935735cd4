"""The outbox: what Kafka refused, what waits, relays in doubt, and what people decide there."""

from collections.abc import Callable, Mapping
from types import MappingProxyType
from typing import Final

from django.contrib import messages
from django.http import Http404, HttpRequest, HttpResponse, QueryDict
from django.shortcuts import render
from django.views.decorators.http import require_GET

from console.layout import trail
from console.layout.access import Right, has, needs, scope_of
from console.layout.answers import actor_of, parse_id, see, see_again, tell_problem
from console.layout.asked import number_of
from console.outbox.filters import OutboxFilterForm
from integration.actions import outbox
from integration.actions.outbox import OutboxMismatchError
from integration.counting import so_many
from integration.errors import IntegrationError
from integration.selectors.outbox import rows as outbox_rows
from integration.selectors.outbox.scope import known_of

ONE: Final[Mapping[str, Callable[..., None]]] = MappingProxyType(
    {"send-again": outbox.send_again, "give-up": outbox.give_up}
)
GONE: Final = "This row is not in the outbox (any more); cleanup removes what was sent."
DONE: Final[Mapping[str, str]] = MappingProxyType(
    {
        "send-again": "given back to the relay, which sends within seconds",
        "give-up": "given up; what waited behind goes on",
    }
)


@require_GET
@needs(Right.VIEW)
def outbox_list(request: HttpRequest) -> HttpResponse:
    return _show_list(request, request.GET)


@require_GET
@needs(Right.VIEW)
def outbox_row(request: HttpRequest, row_id: int) -> HttpResponse:
    return _show_row(request, row_id)


@needs(Right.VIEW, Right.OPERATE)
def decide(request: HttpRequest, row_id: int, verb: str) -> HttpResponse:
    """One decision about one dead row, as it was when the person looked."""
    if verb not in ONE:
        raise Http404(f"There is nothing called {verb}.")
    if request.method != "POST":
        return see("outbox-row", row_id)
    if not known_of([row_id], scope_of(request.user)):
        raise Http404(GONE)
    batch = parse_id(request.POST.get("batch", ""))
    reason = request.POST.get("reason", "")
    try:
        ONE[verb](row_id, batch=batch, actor=actor_of(request), reason=reason)
    except IntegrationError as problem:
        if isinstance(problem, OutboxMismatchError) and problem.already_done:
            messages.info(request, str(problem))
            return see_again(request, "outbox-row", row_id)
        tell_problem(request, problem)
        return _show_row(request, row_id, status=409)
    messages.success(request, f"Row {row_id} was {DONE[verb]}.")
    return see_again(request, "outbox-row", row_id)


@needs(Right.VIEW, Right.OPERATE)
def resolve(request: HttpRequest, lease_id: int) -> HttpResponse:
    """A person's word on the batch a relay is in doubt about."""
    word = request.POST.get("word", "")
    if not scope_of(request.user).is_whole:
        raise Http404("A relay is shared by all partners: ask somebody who is not limited.")
    if request.method != "POST" or word not in {"sent", "not-sent"}:
        return see("outbox")
    try:
        count = outbox.resolve_in_doubt(
            lease_id,
            batch=parse_id(request.POST.get("batch", "")),
            sent=word == "sent",
            actor=actor_of(request),
            reason=request.POST.get("reason", ""),
        )
    except IntegrationError as problem:
        tell_problem(request, problem)
        return _show_list(request, QueryDict(), status=409)
    what = "taken as sent" if word == "sent" else "given back, to be sent"
    messages.success(
        request,
        f"{so_many(count, 'row was', 'rows were')} {what}. The relay goes on within seconds.",
    )
    return see("outbox")


def _show_list(request: HttpRequest, query: QueryDict, *, status: int = 200) -> HttpResponse:
    scope = scope_of(request.user)
    form = OutboxFilterForm(query, outbox_rows.outbound_names(scope), outbox_rows.dead_codes(scope))
    wanted = form.wanted(scope)
    after = query.get("after", "")
    found = outbox_rows.page(wanted, number_of(after))
    context = {
        "form": form,
        "page": found,
        "state": wanted.state,
        "query": form.query(),
        "is_default": wanted.is_default,
        "is_continued": bool(after),
        "doubts": outbox_rows.doubts(scope),
        "changes": outbox_rows.recent_changes(scope),
        "cap": outbox_rows.COUNT_CAP,
    }
    return render(request, "console/outbox/list.html", context, status=status)


def _show_row(request: HttpRequest, row_id: int, *, status: int = 200) -> HttpResponse:
    found = outbox_rows.detail(row_id, scope_of(request.user))
    if found is None:
        raise Http404(GONE)
    may_see = has(request.user, Right.VIEW_PAYLOAD)
    if may_see:
        trail.note_view(request, "outboxrow", row_id, f"{row_id} of {found.row.topic}")
    context = {
        "detail": found,
        "row": found.row,
        "contents": outbox_rows.contents(found.row) if may_see else None,
    }
    return render(request, "console/outbox/row.html", context, status=status)
