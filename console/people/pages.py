"""People: who may log in, what they may do, with which partners; and one's own account."""

import secrets
from collections.abc import Callable
from dataclasses import replace
from typing import Final, TypeVar, cast

from django.conf import settings
from django.contrib import messages
from django.contrib.auth.models import User
from django.core.exceptions import PermissionDenied
from django.db import transaction
from django.http import Http404, HttpRequest, HttpResponse
from django.shortcuts import render
from django.urls import reverse
from django.utils.html import format_html

from console.forms.setup_form import compared
from console.layout.access import Right, has, needs, scope_of
from console.layout.answers import reason_of, see, tell_problem
from console.people import accounts, personal_tokens, sessions, taking
from console.people.accounts import PersonProtectedError, Wanted
from console.people.company import connecting, entering
from console.people.forms import NAME, PersonForm
from console.people.recent import confirming, is_recent, needs_recent
from console.people.second import factors
from integration.actions.errors import ChangedMeanwhileError

Count = TypeVar("Count", bound=int)
PASSWORD_BYTES: Final = 12
LIMITED: Final = (
    "Your account is limited to some external systems, and people are shared by all of them. Ask "
    "an administrator without that limit."
)

MADE_ELSEWHERE: Final = (
    "Accounts of this project need more than is asked for here ({}): make them where the project "
    "does. Roles and limits are then given on the person's page here."
)


@needs(Right.PEOPLE)
def people_list(request: HttpRequest) -> HttpResponse:
    refuse_limited(request)
    return render(
        request,
        "console/people/list.html",
        {
            "people": accounts.people(),
            "may_add": not accounts.unasked(),
            "unknown_roles": factors.unknown_roles(),
        },
    )


@needs(Right.PEOPLE)
@needs_recent
def add_person(request: HttpRequest) -> HttpResponse:
    refuse_limited(request)
    if accounts.unasked():
        raise PermissionDenied(MADE_ELSEWHERE.format(", ".join(accounts.unasked())))
    if request.method != "POST":
        return _answered(request, None, PersonForm(initial={"is_active": True}))
    with transaction.atomic():
        # Of a form that is sent twice the second waits for the first.
        accounts.locked(cast("User", request.user))
        again = None
        if not request.POST.get("password"):
            again = accounts.sent_twice(request.POST.get(NAME, ""), request.user)
        return _answered(request, again, PersonForm(request.POST, instance=again), is_new=True)


@needs(Right.PEOPLE)
def person_page(request: HttpRequest, person_id: str) -> HttpResponse:
    refuse_limited(request)
    known = accounts.person(person_id)
    if known is None:
        raise Http404("There is no such person.")
    form = PersonForm(request.POST or None, instance=known)
    _guard_password(request, known, form)
    return _answered(request, known, form)


@needs()
def own_account(request: HttpRequest) -> HttpResponse:
    """Show the rights that the person has and lacks."""
    scope = scope_of(request.user)
    context = {
        "rights": [(right.words, has(request.user, right)) for right in Right],
        "roles": [group.name for group in request.user.groups.all()],
        "systems": None if scope.is_whole else accounts.systems_of(scope),
        "sees_api": has(request.user, Right.VIEW),
        "has_sessions": not settings.SLUICE_IS_GUEST,
        "company": settings.SLUICE_OIDC_LABEL if settings.SLUICE_OIDC_ISSUER else "",
        "identity": entering.identity_of(cast("User", request.user)),
        "mark": connecting.mark(request),
        "offered": settings.SLUICE_SECOND_FACTORS,
    }
    return render(request, "console/people/own.html", context)


@needs(Right.PEOPLE)
def revoke_token(request: HttpRequest, person_id: str, token_id: int) -> HttpResponse:
    """End somebody's token, which may be in wrong hands; safe to press twice."""
    refuse_limited(request)
    known = accounts.person(person_id)
    token = None if known is None else personal_tokens.token_of(known, token_id)
    if known is None or token is None:
        raise Http404("There is no such token.")
    done = taken(request, lambda: taking.token(known, token, request.user, reason_of(request)))
    if done:
        messages.success(request, f"{token.name} was revoked and does not work any more.")
    elif done is not None:
        messages.info(request, f"{token.name} was already revoked.")
    return see("person", person_id)


def taken(request: HttpRequest, take: Callable[[], Count]) -> Count | None:
    """What a verb of `taking` returns.

    None where nothing is posted, or where it is refused, which a message tells. Raises
    PermissionDenied, Http404.
    """
    if request.method != "POST":
        return None
    try:
        return take()
    except ChangedMeanwhileError as gone:
        raise Http404("There is no such person.") from gone
    except PersonProtectedError as problem:
        tell_problem(request, problem)
        return None


def refuse_limited(request: HttpRequest) -> None:
    """People are shared: raises PermissionDenied for whoever is limited to some systems."""
    if not scope_of(request.user).is_whole:
        raise PermissionDenied(LIMITED)


def _guard_password(request: HttpRequest, known: User, form: PersonForm) -> None:
    """Whoever sits at a session of somebody else must not make it last by a password."""
    if known.pk == request.user.pk and known.has_usable_password():
        link = '<a href="{}">Change my password</a> asks for the current one.'
        form.take_no_password(
            "Your own password is not set here.", format_html(link, reverse("password_change"))
        )
    elif not is_recent(request):
        link = 'To set one, <a href="{}">confirm first that it is you</a>.'
        form.take_no_password(
            "You logged in more than half an hour ago, so no password is set.",
            format_html(link, confirming(request)),
        )


def _answered(
    request: HttpRequest, known: User | None, form: PersonForm, *, is_new: bool = False
) -> HttpResponse:
    history = accounts.history(known.pk) if known is not None else []
    # The form writes what was typed onto its account; the page speaks of the stored one.
    name = known.get_username() if known is not None and not form.is_bound else ""
    tokens = [one for one in personal_tokens.tokens_of(known) if one.is_valid] if known else []
    context: dict[str, object] = {
        "form": form,
        "person": known,
        "history": history,
        "name": name,
        "tokens": tokens,
        "sessions": sessions.sessions_of(known) if known and not settings.SLUICE_IS_GUEST else None,
        "identity": entering.identity_of(known) if known else None,
        "factors": factors.factors_of(known) if known else [],
        "seen": _seen(request, known, is_new=is_new),
    }
    if request.method != "POST":
        return render(request, "console/people/person.html", context)
    if not form.is_valid():
        return render(request, "console/people/person.html", context, status=422)
    wanted = form.wanted()
    made = "" if not is_new or wanted.password else secrets.token_urlsafe(PASSWORD_BYTES)
    wanted = replace(wanted, password=made) if made else wanted
    try:
        why, seen = form.cleaned_data["why"], _seen(request, known, is_new=is_new)
        account = accounts.store(known, wanted, request.user, why, seen=seen)
    except ChangedMeanwhileError as problem:
        context |= _conflict(problem, known, wanted)
        return render(request, "console/people/person.html", context, status=409)
    except PersonProtectedError as problem:
        form.add_error(None, str(problem))
        return render(request, "console/people/person.html", context, status=422)
    if made:
        # Never through a cookie or a redirect: this answer is the only place that has it.
        return render(request, "console/people/made.html", {"person": account, "password": made})
    messages.success(request, f"{account.get_username()} was saved.")
    return see("people")


def _conflict(
    problem: ChangedMeanwhileError, known: User | None, wanted: Wanted
) -> dict[str, object]:
    """The stored account beside what was entered. Raises Http404 where it is gone."""
    stored = None if known is None else accounts.person(str(known.pk))
    if stored is None:
        raise Http404(str(problem)) from problem
    theirs, ours = accounts.compared(stored, wanted)
    seen = {"seen": accounts.stamp(stored)}
    return seen | compared(problem, "user", stored.pk, theirs, ours)


def _seen(request: HttpRequest, known: User | None, *, is_new: bool) -> str | None:
    """The stamp of the account that the form was made from; of a new one there is none."""
    if known is None or is_new:
        return None
    return accounts.stamp(known) if request.method != "POST" else request.POST.get("seen", "")
