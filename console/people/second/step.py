"""The second step of a login: after the password, before anybody is logged in."""

import time
from http import HTTPStatus
from typing import Any, Final

from django.contrib.auth import login
from django.contrib.auth.models import User
from django.http import HttpRequest, HttpResponse
from django.shortcuts import render

from console.layout import trail
from console.layout.answers import SeeOther, own_page, see
from console.layout.trail import address_of
from console.people import accounts
from console.people.second import enforcing, factors, passkeys
from console.people.tries import TooManyLoginsError, count_code, count_try, forgive, forgive_code
from integration.actions.access import Act

HALF: Final = "sluice_half"
HALF_SECONDS: Final = 300
PAGE: Final = "console/people/second_step.html"
BY_SECOND: Final = "By password and second factor."


def begin(request: HttpRequest, person: User, typed: str, wanted: str) -> HttpResponse:
    """The password was right: ask for the second factor. Nobody is logged in yet."""
    request.session.cycle_key()
    request.session[HALF] = {
        "person": str(person.pk),
        "typed": typed,
        "backend": getattr(person, "backend", accounts.login_backend()),
        # A password that is changed meanwhile ends this, too.
        "hash": person.get_session_auth_hash(),
        "next": wanted,
        "at": int(time.time()),
    }
    return see("login-second")


def second_step(request: HttpRequest) -> HttpResponse:
    """Ask for a code or a passkey, and log in."""
    half = request.session.get(HALF)
    person = _person(half)
    if half is None or person is None:
        request.session.pop(HALF, None)
        return see("login")
    if request.method != "POST":
        return _page(request, person)
    name, address = half["typed"], address_of(request)
    # A new password, which nobody else knows yet, begins a new count.
    counted = f"{person.pk} {half['hash']}"
    try:
        count_try(name, address)
        count_code(counted)
    except TooManyLoginsError as problem:
        trail.note_login(request, Act.LOGIN_REFUSED, name)
        return _page(request, person, HTTPStatus.TOO_MANY_REQUESTS, problem=problem)
    if not _is_shown(request, person):
        trail.note_login(request, Act.LOGIN_FAILED, name, "The second factor was wrong.")
        return _page(request, person, HTTPStatus.UNPROCESSABLE_ENTITY, is_wrong=True)
    forgive(name, address)
    forgive_code(counted)
    del request.session[HALF]
    login(request, person, half["backend"])
    enforcing.note(request, person)
    trail.note_login(request, Act.LOGIN, person.get_username(), BY_SECOND)
    wanted = own_page(half["next"])
    return SeeOther(wanted) if wanted else see("overview")


def _person(half: dict[str, Any] | None) -> User | None:
    """Who has entered the password a moment ago."""
    if half is None or time.time() - half["at"] > HALF_SECONDS:
        return None
    person = accounts.person(half["person"])
    is_same = person is not None and person.get_session_auth_hash() == half["hash"]
    return person if is_same and person is not None and person.is_active else None


def _is_shown(request: HttpRequest, person: User) -> bool:
    answer = request.POST.get("credential", "")
    if not answer:
        return factors.is_code(person, request.POST.get("code", ""))
    key = passkeys.shown(request, factors.keys_of(person), answer)
    if key is not None:
        factors.used_passkey(person, key)
    return key is not None


def _page(request: HttpRequest, person: User, status: int = 200, **more: object) -> HttpResponse:
    keys = factors.keys_of(person)
    options = passkeys.to_show(request, keys) if keys else ""
    return render(request, PAGE, {"options": options, **more}, status=status)
