"""Who must have a second factor, and has none, is led to set one up before anything else."""

from collections.abc import Callable
from typing import Final

from django.contrib.auth.models import User
from django.core.exceptions import PermissionDenied
from django.http import HttpRequest, HttpResponse
from django.urls import reverse

from console.layout.answers import see
from console.people.second import factors
from console.people.sessions import WAY, Way

# In the session, so that no page has to ask the database.
DUE: Final = "sluice_second_due"
# What helps to set one up, and the ways out.
OPEN: Final = (
    *("second-factors", "second-factor-app", "second-factor-passkey", "second-factor-codes"),
    *("confirm", "logout", "login", "theme", "refresh"),
)
FIRST: Final = "Your role needs a second factor. Set one up under “My account” first."


def note(request: HttpRequest, person: User) -> None:
    """Note in the session whether this person has to set one up.

    Only after a password: whoever comes by the company login or a one-time code is not asked.
    """
    is_asked = request.session.get(WAY) == Way.PASSWORD
    request.session[DUE] = is_asked and factors.is_due(person)


def is_due(request: HttpRequest) -> bool:
    return bool(request.session.get(DUE))


class SecondFactorDue:
    """Middleware that leads people to their second factors."""

    def __init__(self, get_response: Callable[[HttpRequest], HttpResponse]) -> None:
        self.get_response = get_response

    def __call__(self, request: HttpRequest) -> HttpResponse:
        if not is_due(request) or request.path in map(reverse, OPEN):
            return self.get_response(request)
        if request.method == "GET" and "HX-Request" not in request.headers:
            return see("second-factors")
        raise PermissionDenied(FIRST)
