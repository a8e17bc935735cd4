"""The outbox: what Kafka refused, what waits, relays in doubt, and what people decide there."""

from collections.abc import Callable, Mapping
from types import MappingProxyType
from typing import Final
from uuid import UUID

from django.contrib import messages
from django.http import Http404, HttpRequest, HttpResponse, QueryDict
from django.shortcuts import render
from django.views.decorators.http import require_GET

from console.access import BULK_ROWS, Right, has, needs
from console.answers import SeeOther, actor_of, parse_id, see, see_again, tell_problem
from console.outgoing_filters import OutgoingFilterForm
from integration.actions import outbox
from integration.actions.outbox import OutboxMismatchError, OutboxOutcome
from integration.errors import IntegrationError
from integration.selectors import outgoing

Chosen = dict[int, UUID | None]
ONE: Final[Mapping[str, Callable[..., None]]] = MappingProxyType(
    {"send-again": outbox.send_again, "give-up": outbox.give_up}
)
MANY: Final[Mapping[str, Callable[..., OutboxOutcome]]] = MappingProxyType(
    {"send-again": outbox.send_again_many, "give-up": outbox.give_up_many}
)
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
def outgoing_row(request: HttpRequest, row_id: int) -> HttpResponse:
    return _show_row(request, row_id)


@needs(Right.VIEW, Right.OPERATE)
def decide(request: HttpRequest, row_id: int, verb: str) -> HttpResponse:
    """One decision about one dead row, as it was when the person looked."""
    if verb not in ONE:
        raise Http404(f"There is nothing called {verb}.")
    if request.method != "POST":
        return see("outgoing", row_id)
    batch = parse_id(request.POST.get("batch", ""))
    reason = request.POST.get("reason", "")
    try:
        ONE[verb](row_id, batch=batch, actor=actor_of(request), reason=reason)
    except IntegrationError as problem:
        if isinstance(problem, OutboxMismatchError) and problem.already_done:
            messages.info(request, str(problem))
            return see_again(request, "outgoing", row_id)
        tell_problem(request, problem)
        return _show_row(request, row_id, status=409)
    messages.success(request, f"Row {row_id} was {DONE[verb]}.")
    return see_again(request, "outgoing", row_id)


@needs(Right.VIEW, Right.OPERATE)
def decide_many(request: HttpRequest) -> HttpResponse:
    """One decision about the ticked rows, or about all dead ones that match the filter."""
    verb, query = request.POST.get("verb", ""), request.POST.get("query", "")
    if request.method != "POST" or verb not in MANY:
        return _back(query)
    chosen = _matching(query) if request.POST.get("scope") == "matching" else _ticked(request)
    if not chosen:
        messages.info(request, "Nothing was selected. Tick the rows you mean first.")
        return _back(query)
    try:
        outcome = MANY[verb](chosen, actor=actor_of(request), reason=request.POST.get("reason", ""))
    except IntegrationError as problem:
        tell_problem(request, problem)
        return _show_list(request, QueryDict(query), status=409)
    told = f"{outcome.moved:,} {DONE[verb]}"
    if outcome.moved_on:
        told += f"; {outcome.moved_on:,} had moved on and were left alone"
    level = messages.WARNING if outcome.moved_on else messages.SUCCESS
    messages.add_message(request, level, f"{told}.")
    return _back(query)


@needs(Right.VIEW, Right.OPERATE)
def resolve(request: HttpRequest, lease_id: int) -> HttpResponse:
    """A person's word on the batch a relay is in doubt about."""
    word = request.POST.get("word", "")
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
    messages.success(request, f"{count:,} rows were {what}. The relay goes on within seconds.")
    return see("outbox")


def _show_list(request: HttpRequest, query: QueryDict, *, status: int = 200) -> HttpResponse:
    form = OutgoingFilterForm(query, outgoing.outbound_names(), outgoing.dead_codes())
    wanted = form.wanted()
    after = query.get("after", "")
    found = outgoing.page(wanted, int(after) if after.isdecimal() and len(after) < 19 else None)
    context = {
        "form": form,
        "page": found,
        "state": wanted.state,
        "query": form.query(),
        "is_default": wanted.is_default,
        "is_continued": bool(after),
        "doubts": outgoing.doubts(),
        "changes": outgoing.recent_changes(),
        "cap": outgoing.COUNT_CAP,
    }
    return render(request, "console/outbox.html", context, status=status)


def _show_row(request: HttpRequest, row_id: int, *, status: int = 200) -> HttpResponse:
    found = outgoing.detail(row_id)
    if found is None:
        raise Http404("This row is not in the outbox (any more); cleanup removes what was sent.")
    may_see = has(request.user, Right.VIEW_PAYLOAD)
    context = {
        "detail": found,
        "row": found.row,
        "contents": outgoing.contents(found.row) if may_see else None,
    }
    return render(request, "console/outgoing.html", context, status=status)


def _matching(query: str) -> Chosen:
    return outgoing.selection(OutgoingFilterForm(QueryDict(query), [], []).wanted(), BULK_ROWS)


def _ticked(request: HttpRequest) -> Chosen:
    """`id:batch` as the list shows them; what is neither is ignored."""
    found: Chosen = {}
    for mark in request.POST.getlist("chosen")[:BULK_ROWS]:
        row, _, batch = mark.partition(":")
        if row.isdecimal() and len(row) < 19:
            found[int(row)] = parse_id(batch)
    return found


def _back(query: str) -> SeeOther:
    answer = see("outbox")
    if query:
        answer["Location"] += f"?{query}"
    return answer
