"""The outbox: what Kafka refused, what waits, relays in doubt, and what people decide there."""

from typing import Final

from django.contrib import messages
from django.http import Http404, HttpRequest, HttpResponse, QueryDict
from django.shortcuts import render
from django.views.decorators.http import require_GET

from console.layout import reveals, trail
from console.layout.access import Right, has, needs, scope_of
from console.layout.answers import actor_of, carried_out, parse_id, reason_of, see, tell_problem
from console.layout.asked import number_of
from console.layout.standby import from_standby
from console.outbox.choices import DECISIONS
from console.outbox.filters import OutboxFilterForm
from integration.actions import outbox, two_phase
from integration.counting import so_many
from integration.errors import IntegrationError
from integration.masking.mask import NOTHING
from integration.models import Queue
from integration.selectors.masking.outgoing import contents_of_row, mask_of_row
from integration.selectors.outbox import rows as outbox_rows
from integration.selectors.outbox.branches import commits_in_doubt
from integration.selectors.outbox.rows import known_of
from integration.selectors.queues import queues

# The audit's name of an outgoing message.
KIND: Final = "outboxrow"
GONE: Final = "This row is not in the outbox. Cleanup removes rows that were sent."
NO_RELAY: Final = "A relay is shared by all partners. Ask an administrator without a limit."
NO_COMMIT: Final = "A commit may concern all partners. Ask an administrator without a limit."


@require_GET
@needs(Right.VIEW)
@from_standby
def outbox_list(request: HttpRequest) -> HttpResponse:
    return _show_list(request, request.GET)


@require_GET
@needs(Right.VIEW)
def outbox_row(request: HttpRequest, row_id: int) -> HttpResponse:
    return _show_row(request, row_id)


@needs(Right.VIEW, Right.OPERATE)
def decide(request: HttpRequest, row_id: int, verb: str) -> HttpResponse:
    """One decision about one dead row, as it was when the person looked."""
    if verb not in DECISIONS:
        raise Http404(f"There is no decision called {verb}.")
    if request.method != "POST":
        return see("outbox-row", row_id)
    if not known_of([row_id], scope_of(request.user)):
        raise Http404(GONE)
    decision, batch = DECISIONS[verb], parse_id(request.POST.get("batch", ""))

    def act() -> str:
        reason = reason_of(request)
        decision.to_one(row_id, batch=batch, actor=actor_of(request), reason=reason)
        return f"Row {row_id} was {decision.done}."

    return carried_out(
        request,
        act,
        page="outbox-row",
        subject=row_id,
        shown=lambda _: _show_row(request, row_id, status=409),
    )


@needs(Right.VIEW, Right.VIEW_PAYLOAD, Right.REVEAL)
def reveal(request: HttpRequest, row_id: int) -> HttpResponse:
    """Show this one row unmasked for some minutes, to this session; or mask it again."""
    detail = outbox_rows.detail(row_id, scope_of(request.user))
    if detail is None:
        raise Http404(GONE)
    about = (KIND, row_id, f"{row_id} of {detail.row.topic}")
    mask = mask_of_row(detail.row)
    return reveals.decide(request, about, mask, lambda: see("outbox-row", row_id))


@needs(Right.VIEW, Right.OPERATE)
def resolve(request: HttpRequest, lease_id: int) -> HttpResponse:
    """A person's word on the batch a relay is in doubt about."""
    word = request.POST.get("word", "")
    if not scope_of(request.user).is_whole:
        raise Http404(NO_RELAY)
    if request.method != "POST" or word not in {"sent", "not-sent"}:
        return see("outbox")
    try:
        count = outbox.resolve_in_doubt(
            lease_id,
            batch=parse_id(request.POST.get("batch", "")),
            sent=word == "sent",
            actor=actor_of(request),
            reason=reason_of(request),
        )
    except IntegrationError as problem:
        tell_problem(request, problem)
        return _show_list(request, QueryDict(), status=409)
    what = "marked as sent" if word == "sent" else "given back to be sent"
    messages.success(
        request,
        f"{so_many(count, 'row was', 'rows were')} {what}. The relay continues within seconds.",
    )
    return see("outbox")


@needs(Right.VIEW, Right.OPERATE)
def decide_branch(request: HttpRequest) -> HttpResponse:
    """A person's word on a two-phase commit that is in doubt."""
    word = request.POST.get("word", "")
    if not scope_of(request.user).is_whole:
        raise Http404(NO_COMMIT)
    if request.method != "POST" or word not in {"commit", "roll-back"}:
        return see("outbox")
    try:
        two_phase.decide(
            request.POST.get("branch", ""),
            commit=word == "commit",
            actor=actor_of(request),
            reason=reason_of(request),
        )
    except IntegrationError as problem:
        tell_problem(request, problem)
        return _show_list(request, QueryDict(), status=409)
    done = "committed" if word == "commit" else "rolled back: its messages are tried again"
    messages.success(request, f"The batch was {done}.")
    return see("outbox")


def _show_list(request: HttpRequest, query: QueryDict, *, status: int = 200) -> HttpResponse:
    scope = scope_of(request.user)
    outbound = queues.names(scope, Queue.Direction.OUTBOUND)
    form = OutboxFilterForm(query, outbound, outbox_rows.dead_codes(scope))
    wanted = form.wanted(scope)
    after = query.get("after", "")
    page = outbox_rows.page(wanted, number_of(after))
    context = {
        "form": form,
        "page": page,
        "state": wanted.state,
        "query": form.query(),
        "is_default": wanted.is_default,
        "is_continued": bool(after),
        "doubts": outbox_rows.doubts(scope),
        "branches": commits_in_doubt(scope),
        "changes": outbox_rows.recent_changes(scope),
        "cap": outbox_rows.COUNT_CAP,
    }
    return render(request, "console/outbox/list.html", context, status=status)


def _show_row(request: HttpRequest, row_id: int, *, status: int = 200) -> HttpResponse:
    detail = outbox_rows.detail(row_id, scope_of(request.user))
    if detail is None:
        raise Http404(GONE)
    row, may_see = detail.row, has(request.user, Right.VIEW_PAYLOAD)
    if may_see:
        trail.note_view(request, KIND, row_id, f"{row_id} of {row.topic}")
    until = reveals.revealed_until(request, KIND, row_id)
    mask = NOTHING if until is not None or not may_see else mask_of_row(row)
    contents = contents_of_row(row, mask) if may_see else None
    context = {"detail": detail, "row": row, "contents": contents, "revealed_until": until}
    return render(request, "console/outbox/row.html", context, status=status)
