"""The page where a one-time code is entered: in a form, since addresses stand in logs."""

from datetime import timedelta
from http import HTTPStatus
from typing import Final

from django.contrib.auth import login
from django.http import HttpRequest, HttpResponse
from django.shortcuts import render
from django.utils import timezone

from console.layout import trail
from console.layout.answers import see
from console.layout.trail import address_of
from console.people import codes
from console.people.accounts import login_backend
from console.people.codes import LoginCodeRefusedError
from console.people.sessions import WAY, Way
from console.people.tries import TooManyLoginsError, count_nameless, forgive_nameless
from integration.actions.access import Act

BY_CODE: Final = "By a one-time code."


def enter(request: HttpRequest) -> HttpResponse:
    """Log in by a code; the session ends after the minutes that belong to it."""
    if request.method != "POST":
        return render(request, "console/people/code.html")
    address = address_of(request)
    try:
        count_nameless(address)
        person, minutes = codes.taken(request.POST.get("code", "").strip())
    except TooManyLoginsError as problem:
        trail.note_login(request, Act.LOGIN_REFUSED, BY_CODE)
        return _refused(request, problem, HTTPStatus.TOO_MANY_REQUESTS)
    except LoginCodeRefusedError as problem:
        trail.note_login(request, Act.LOGIN_FAILED, BY_CODE)
        return _refused(request, problem, HTTPStatus.UNPROCESSABLE_ENTITY)
    forgive_nameless(address)
    setattr(request, WAY, Way.CODE)
    login(request, person, login_backend())
    request.session.set_expiry(timezone.now() + timedelta(minutes=minutes))
    trail.note_login(request, Act.LOGIN, person.get_username(), BY_CODE)
    return see("overview")


def _refused(request: HttpRequest, problem: Exception, status: int) -> HttpResponse:
    return render(request, "console/people/code.html", {"problem": problem}, status=status)
