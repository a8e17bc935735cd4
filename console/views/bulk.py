"""One verb for many failures: first what it would touch, then what became of each."""

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from types import MappingProxyType
from typing import Final
from uuid import UUID

from django.contrib import messages
from django.http import Http404, HttpRequest, HttpResponse
from django.shortcuts import render

from console.access import BULK_ROWS, Right, needs
from console.answers import actor_of, parse_id, see, see_list, tell_problem
from console.asked import chosen_of, number_of, query_of
from console.filters import FailureFilterForm
from integration.actions import bulk
from integration.actions.bulk import BulkOutcome
from integration.actions.errors import MOVES
from integration.errors import IntegrationError
from integration.selectors import failures

Selection = dict[UUID, int]


@dataclass(frozen=True, slots=True)
class Wording:
    """How pages speak of a verb."""

    do: str
    done: str
    effect: str


WORDS: Final[Mapping[str, Wording]] = MappingProxyType(
    {
        "release": Wording(
            "Release", "released", "The engine tries them again, with a fresh budget of retries."
        ),
        "hold": Wording("Hold", "put on hold", "Nothing happens to them until someone decides."),
        "delete": Wording(
            "Delete", "deleted", "They will not be applied. They can be restored until cleanup."
        ),
        "restore": Wording("Restore", "restored", "They are on hold again."),
    }
)


@needs(Right.VIEW, Right.OPERATE)
def review(request: HttpRequest) -> HttpResponse:
    """What the verb would touch and skip; nothing is changed yet."""
    verb = request.POST.get("verb", "")
    if request.method != "POST" or verb not in MOVES:
        return see("failures")
    form = _filter_of(request)
    chosen = _all_matching(form) if request.POST.get("scope") == "matching" else _chosen(request)
    if not chosen:
        messages.info(request, "Nothing was selected. Tick the failures you mean first.")
        return see_list("failures", form.query())
    return _reviewed(request, verb, chosen)


@needs(Right.VIEW, Right.OPERATE)
def carry_out(request: HttpRequest, verb: str) -> HttpResponse:
    if verb not in MOVES:
        raise Http404(f"There is nothing called {verb}.")
    if request.method != "POST":
        return see("failures")
    chosen, query = _chosen(request), _filter_of(request).query()
    try:
        outcome = _run(request, verb, chosen)
    except IntegrationError as problem:
        tell_problem(request, problem)
        return _reviewed(request, verb, chosen, status=422)
    level = messages.SUCCESS if outcome.moved == len(chosen) else messages.WARNING
    messages.add_message(request, level, _told(verb, outcome))
    return see_list("failures", query)


def _run(request: HttpRequest, verb: str, chosen: Selection) -> BulkOutcome:
    actor, reason = actor_of(request), request.POST.get("reason", "")
    if verb == "release":
        late = request.POST.get("late") == "1"
        return bulk.release_many(chosen, actor=actor, reason=reason, versions=chosen, late=late)
    plain: dict[str, Callable[..., BulkOutcome]] = {
        "hold": bulk.hold_many,
        "delete": bulk.delete_many,
        "restore": bulk.restore_many,
    }
    return plain[verb](chosen, actor=actor, reason=reason, versions=chosen)


def _reviewed(
    request: HttpRequest, verb: str, chosen: Selection, *, status: int = 200
) -> HttpResponse:
    shares = failures.summary(chosen)
    fit = sum(share.count for share in shares if share.state in MOVES[verb].expected)
    context = {
        "verb": verb,
        "words": WORDS[verb],
        "shares": [(share, share.state in MOVES[verb].expected) for share in shares],
        "total": len(chosen),
        "fit": fit,
        "gone": len(chosen) - sum(share.count for share in shares),
        "chosen": " ".join(f"{error_id}:{version}" for error_id, version in chosen.items()),
        "query": _filter_of(request).query(),
        "is_capped": len(chosen) >= BULK_ROWS,
    }
    return render(request, "console/review.html", context, status=status)


def _told(verb: str, outcome: BulkOutcome) -> str:
    parts = [f"{outcome.moved:,} {WORDS[verb].done}"]
    if outcome.moved_on:
        parts.append(f"{outcome.moved_on:,} had moved on and were left alone")
    if outcome.in_work:
        parts.append(f"{outcome.in_work:,} are being worked on at the moment and were left alone")
    if outcome.would_be_late:
        parts.append(
            f"{outcome.would_be_late:,} stay on hold because their queue has gone on without them: "
            "releasing those needs the confirmation"
        )
    return "; ".join(parts) + "."


def _filter_of(request: HttpRequest) -> FailureFilterForm:
    return FailureFilterForm(query_of(request), [], [])


def _all_matching(form: FailureFilterForm) -> Selection:
    form.refuse_unreadable()
    return failures.selection(form.wanted(), BULK_ROWS)


def _chosen(request: HttpRequest) -> Selection:
    return chosen_of(request, _mark)


def _mark(text: str) -> tuple[UUID, int] | None:
    """`id:version` as the list shows it."""
    row, _, seen = text.partition(":")
    error_id, version = parse_id(row), number_of(seen)
    return None if error_id is None or version is None else (error_id, version)
