"""One decision about many rows of the outbox: first what it would touch, then what became of it."""

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Final
from uuid import UUID

from django.contrib import messages
from django.http import Http404, HttpRequest, HttpResponse
from django.shortcuts import render

from console.layout.access import Right, needs, scope_of
from console.layout.answers import actor_of, parse_id, reason_of, see, see_list, tell_problem
from console.layout.asked import ACTION_ROWS, chosen_of, number_of, query_of
from console.outbox.filters import OutboxFilterForm
from integration.actions import outbox
from integration.actions.outbox import OutboxOutcome
from integration.errors import IntegrationError
from integration.selectors.outbox import rows as outbox_rows
from integration.selectors.outbox.choice import choice
from integration.selectors.outbox.rows import known_of

Chosen = dict[int, UUID | None]


@dataclass(frozen=True, slots=True)
class Decision:
    """An action on one row or many, with its words for pages: `do` … rows `what`."""

    to_one: Callable[..., None]
    to_many: Callable[..., OutboxOutcome]
    do: str
    what: str
    done: str
    effect: str
    needs_reason: bool


NOTHING: Final = "Nothing was selected. First tick the rows you mean."
DECISIONS: Final[Mapping[str, Decision]] = {
    "send-again": Decision(
        to_one=outbox.send_again,
        to_many=outbox.send_again_many,
        do="Send",
        what=" again",
        done="given back to the relay, which sends within seconds",
        effect="The relay sends them again in their order. Kafka will refuse them again unless the "
        "cause is fixed first.",
        needs_reason=False,
    ),
    "give-up": Decision(
        to_one=outbox.give_up,
        to_many=outbox.give_up_many,
        do="Give up",
        what="",
        done="given up; what waited behind goes on",
        effect="The partners will never get these messages. This cannot be undone.",
        needs_reason=True,
    ),
}


@needs(Right.VIEW, Right.OPERATE)
def review(request: HttpRequest) -> HttpResponse:
    """Show the rows that the decision would touch; nothing is changed yet."""
    verb = request.POST.get("verb", "")
    if request.method != "POST" or verb not in DECISIONS:
        return see("outbox")
    form = _filter_of(request)
    is_all = request.POST.get("scope") == "matching"
    chosen = _all_matching(request, form) if is_all else _chosen(request)
    if not chosen:
        messages.info(request, NOTHING)
        return see_list("outbox", form.query())
    return _reviewed(request, verb, chosen)


@needs(Right.VIEW, Right.OPERATE)
def carry_out(request: HttpRequest, verb: str) -> HttpResponse:
    """The decision about exactly the rows of the review, each as it was seen there."""
    if verb not in DECISIONS:
        raise Http404(f"There is no decision called {verb}.")
    if request.method != "POST":
        return see("outbox")
    decision, chosen, query = DECISIONS[verb], _chosen(request), _filter_of(request).query()
    if not chosen:
        messages.info(request, NOTHING)
        return see_list("outbox", query)
    reason = reason_of(request)
    try:
        outcome = decision.to_many(chosen, actor=actor_of(request), reason=reason)
    except IntegrationError as problem:
        tell_problem(request, problem)
        return _reviewed(request, verb, chosen, status=422)
    sentence = f"{outcome.moved:,} {decision.done}"
    if outcome.moved_on:
        sentence += f"; {outcome.moved_on:,} had changed, or were in use, and were left alone"
    level = messages.WARNING if outcome.moved_on else messages.SUCCESS
    messages.add_message(request, level, f"{sentence}.")
    return see_list("outbox", query)


def _reviewed(
    request: HttpRequest, verb: str, chosen: Chosen, *, status: int = 200
) -> HttpResponse:
    context = {
        "verb": verb,
        "decision": DECISIONS[verb],
        "choice": choice(chosen),
        "chosen": " ".join(f"{row}:{batch or ''}" for row, batch in chosen.items()),
        "query": _filter_of(request).query(),
        "is_capped": len(chosen) >= ACTION_ROWS,
        "cap": ACTION_ROWS,
    }
    return render(request, "console/outbox/review.html", context, status=status)


def _filter_of(request: HttpRequest) -> OutboxFilterForm:
    return OutboxFilterForm(query_of(request), [], [])


def _all_matching(request: HttpRequest, form: OutboxFilterForm) -> Chosen:
    form.refuse_unreadable()
    return outbox_rows.selection(form.wanted(scope_of(request.user)), ACTION_ROWS)


def _chosen(request: HttpRequest) -> Chosen:
    """The rows that the form names and the person may know of."""
    named = chosen_of(request, _mark)
    known = known_of(named, scope_of(request.user))
    return {row_id: batch for row_id, batch in named.items() if row_id in known}


def _mark(text: str) -> tuple[int, UUID | None] | None:
    """`id:batch` as the list shows it; a row that was never in a batch has none."""
    row, colon, seen = text.partition(":")
    row_id, batch = number_of(row), parse_id(seen)
    is_spoilt = row_id is None or not colon or (batch is None and seen != "")
    return None if row_id is None or is_spoilt else (row_id, batch)
