"""The way to the identity provider and back, and the connection of an account with it."""

import logging
import time
from typing import Final, cast

from django.conf import settings
from django.contrib import messages
from django.contrib.auth import login, logout
from django.contrib.auth.models import User
from django.core.exceptions import BadRequest
from django.http import Http404, HttpRequest, HttpResponse
from django.shortcuts import render
from django.urls import reverse

from console.layout import trail
from console.layout.access import Right, needs
from console.layout.answers import SeeOther, actor_of, own_page, reason_of, see
from console.layout.trail import address_of
from console.people import accounts, recent, taking
from console.people.company import connecting, entering, provider, rechecks
from console.people.company.errors import (
    CompanyLoginError,
    IdentityAnswerRefusedError,
    IdentityProviderDownError,
)
from console.people.company.told import Told
from console.people.pages import refuse_limited, taken
from console.people.recent import needs_recent
from console.people.sessions import WAY, Way
from console.people.tries import TooManyLoginsError, count_nameless, forgive_nameless
from integration.actions.access import Act
from integration.actions.configuration import Author

log = logging.getLogger(__name__)
# What a login that is sent to the provider is for.
CONNECT: Final = "connect"
CONFIRM: Final = "confirm"
ENTER: Final = "enter"
BY_COMPANY: Final = "By the company login."
# The provider's clock may be a little behind this host's, and the person slow.
FRESH_SECONDS: Final = 600


def begin(request: HttpRequest) -> HttpResponse:
    """Send the browser to the identity provider; `next` is the page to see afterwards."""
    _refuse_unset()
    purpose = request.GET.get("for", ENTER)
    wanted = own_page(request.GET.get("next", ""))
    if purpose not in {ENTER, CONFIRM} or (purpose == CONFIRM and request.user.is_anonymous):
        raise BadRequest("The address does not say what the company login is for.")
    return _sent(request, purpose, wanted)


@needs()
@needs_recent
def begin_connecting(request: HttpRequest) -> HttpResponse:
    """Send the browser to the identity provider, to connect the account that is logged in."""
    _refuse_unset()
    if not connecting.is_marked(request):
        messages.info(request, "Use the button here to connect your account.")
        return see("account")
    return _sent(request, CONNECT, reverse("account"))


def callback(request: HttpRequest) -> HttpResponse:
    """The browser comes back from the identity provider."""
    _refuse_unset()
    try:
        note = provider.noted(request)
        if not note and request.user.is_authenticated:
            # Of two tabs that ask at once one may be forgotten, and an answer may be asked for
            # again by going back. Nothing is lost: if the provider is to be asked, a page does.
            return see("overview")
        told = provider.came_back(request)
        forgive_nameless(note.get("counted", ""))
        return _done(request, note["for"], note["next"], told)
    except CompanyLoginError as problem:
        return _refused(request, problem)


@needs()
def disconnect(request: HttpRequest) -> HttpResponse:
    """Let one's own account no longer be entered by the company login."""
    person = cast("User", request.user)
    if request.method != "POST":
        return see("account")
    if not (settings.SLUICE_LOCAL_LOGIN and person.has_usable_password()):
        messages.warning(
            request,
            "You have no password to log in with: without the company login you could not get in.",
        )
    elif entering.disconnect(person, Author(actor_of(request), "Disconnected by its person.")):
        # With its other sessions this one has ended, too.
        logout(request)
        return see("login")
    return see("account")


@needs(Right.PEOPLE)
def disconnect_person(request: HttpRequest, person_id: str) -> HttpResponse:
    """Let somebody's account no longer be entered by the company login."""
    refuse_limited(request)
    known = accounts.person(person_id)
    if known is None:
        raise Http404("There is no such person.")
    if taken(request, lambda: taking.company_login(known, request.user, reason_of(request))):
        messages.success(request, f"{known.get_username()} was disconnected.")
    return see("person", person_id)


def _sent(request: HttpRequest, purpose: str, wanted: str) -> HttpResponse:
    # Not who is logged in, who is sent again and again: a full count would end their work.
    counted = "" if request.user.is_authenticated else address_of(request)
    try:
        count_nameless(counted)
        back_to = request.build_absolute_uri(reverse("company-callback"))
        note = {"for": purpose, "next": wanted, "counted": counted}
        answer = provider.sent(request, back_to, note, again=purpose == CONFIRM)
    except TooManyLoginsError as problem:
        trail.note_login(request, Act.LOGIN_REFUSED, BY_COMPANY)
        return _page(request, problem, 429)
    except IdentityProviderDownError as problem:
        forgive_nameless(counted)
        if purpose == ENTER and rechecks.goes_on(request):
            messages.warning(
                request, "The company login cannot be asked now; your rights stay as they were."
            )
            return SeeOther(wanted or reverse("overview"))
        return _page(request, problem, problem.status)
    return answer


def _done(request: HttpRequest, purpose: str, wanted: str, told: Told) -> HttpResponse:
    """Raises CompanyLoginError."""
    if purpose == CONNECT and request.user.is_authenticated:
        entering.connect(request.user, told)
        messages.success(request, "Your account can be entered by the company login now.")
        return see("account")
    person = entering.account_of(told)
    if purpose == CONFIRM:
        _confirmed(request, person, told)
    if request.user.pk != person.pk:
        # Whoever was logged in before is not any more: the session is another one.
        setattr(request, WAY, Way.COMPANY)
        login(request, person, accounts.login_backend())
        trail.note_login(request, Act.LOGIN, person.get_username(), BY_COMPANY)
    rechecks.note(request)
    return SeeOther(wanted or reverse("overview"))


def _confirmed(request: HttpRequest, person: User, told: Told) -> None:
    """Raises IdentityAnswerRefusedError where somebody else came back, or nobody was asked."""
    if request.user.pk != person.pk:
        raise IdentityAnswerRefusedError("somebody else has confirmed it")
    if told.at is None or time.time() - told.at > FRESH_SECONDS:
        raise IdentityAnswerRefusedError("it does not say that you have just logged in there")
    recent.confirm(request)


def _refused(request: HttpRequest, problem: CompanyLoginError) -> HttpResponse:
    why = f"{BY_COMPANY} {problem.code}: {problem.sentence}"
    trail.note_login(request, Act.LOGIN_FAILED, BY_COMPANY, why)
    if rechecks.is_due(request) and not isinstance(problem, IdentityProviderDownError):
        # The provider no longer stands by who is logged in.
        name = request.user.get_username()
        logout(request)
        trail.note_logout(request, name, why)
    return _page(request, problem, problem.status)


def _page(request: HttpRequest, problem: Exception, status: int) -> HttpResponse:
    context = {"problem": problem}
    return render(request, "console/people/company_refused.html", context, status=status)


def _refuse_unset() -> None:
    if not provider.is_set_up():
        raise Http404("No company login is set up (SLUICE_OIDC_ISSUER).")
