"""The page of one's own sessions: where one is logged in; ending one, or all of them."""

from typing import cast

from django.conf import settings
from django.contrib import messages
from django.contrib.auth import logout
from django.contrib.auth.models import User
from django.db import transaction
from django.http import Http404, HttpRequest, HttpResponse
from django.shortcuts import render

from console.layout import trail
from console.layout.access import Right, needs
from console.layout.answers import see
from console.people import accounts, sessions, taking
from console.people.pages import refuse_limited, taken

ELSEWHERE = "Sessions are the affair of the project that the console is installed in."


@needs()
def session_list(request: HttpRequest) -> HttpResponse:
    """One's own sessions, the last used first."""
    _refuse_guest()
    person, key = _person(request), request.session.session_key
    rows = sessions.sessions_of(person, key)
    return render(request, "console/people/sessions.html", {"sessions": rows})


@needs()
def end_one(request: HttpRequest, session_id: int) -> HttpResponse:
    """End one of one's own sessions; safe to press twice."""
    _refuse_guest()
    person, key = _person(request), request.session.session_key
    if request.method == "POST":
        with transaction.atomic():
            ended = sessions.end(person, number=session_id, but=key)
            if ended:
                trail.note_logout(request, person.get_username(), "Ended on the page of sessions.")
        if ended:
            messages.success(request, "The session was ended.")
        else:
            messages.info(request, "There is no such session any more.")
    return see("sessions")


@needs()
def end_others(request: HttpRequest) -> HttpResponse:
    """End all other sessions of one's own; with the field `everywhere` this one, too."""
    _refuse_guest()
    if request.method != "POST":
        return see("sessions")
    person, key = _person(request), request.session.session_key
    with transaction.atomic():
        count = sessions.end(person, but=key)
        if count:
            trail.note_logout(request, person.get_username(), f"Ended {count} other sessions.")
    if request.POST.get("everywhere"):
        logout(request)
        trail.note_logout(request, person.get_username())
        return see("login")
    messages.success(request, f"Other sessions that were ended: {count}.")
    return see("sessions")


@needs(Right.PEOPLE)
def end_of_person(request: HttpRequest, person_id: str) -> HttpResponse:
    """Log somebody out everywhere; safe to press twice."""
    _refuse_guest()
    refuse_limited(request)
    known = accounts.person(person_id)
    if known is None:
        raise Http404("There is no such person.")
    count = taken(request, lambda: _ended_with_its_row(request, known))
    if count is not None:
        messages.success(request, f"Sessions of {known.get_username()} that were ended: {count}.")
    return see("person", person_id)


def _ended_with_its_row(request: HttpRequest, known: User) -> int:
    """End this person's sessions and note it: both, or neither where the row cannot be stored."""
    with transaction.atomic():
        own = request.session.session_key
        count = taking.all_sessions(known, request.user, but=own)
        trail.note_ended(request, known.get_username(), count)
        return count


def _refuse_guest() -> None:
    if settings.SLUICE_IS_GUEST:
        raise Http404(ELSEWHERE)


def _person(request: HttpRequest) -> User:
    # Strangers are sent to the login. Another project's people are of a model of its own.
    return cast("User", request.user)
