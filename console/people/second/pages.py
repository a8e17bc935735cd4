"""The page of one's second factors: an app, passkeys, recovery codes; each added and removed."""

from typing import Any, Final, cast

import segno
from django import forms
from django.conf import settings
from django.contrib import messages
from django.contrib.auth.models import User
from django.db import transaction
from django.http import Http404, HttpRequest, HttpResponse
from django.shortcuts import render

from console.layout.access import Right, needs
from console.layout.answers import actor_of, reason_of, see
from console.people import accounts, taking
from console.people.pages import refuse_limited, taken
from console.people.recent import needs_recent
from console.people.second import enforcing, factors, passkeys
from integration.actions.configuration import Author
from integration.actions.shown_once import just_before
from integration.counting import so_many
from integration.sealed import seal, unseal

# The secret of an app that has not shown a code yet.
BEGUN: Final = "sluice_app"
ELSEWHERE = "Second factors are the affair of the project that the console is installed in."


class FactorForm(forms.Form):
    """How a new one is called, and what proves that it works."""

    name = forms.CharField(max_length=100, label="Name", initial="My telephone")
    code = forms.CharField(required=False, max_length=20, label="Code")
    credential = forms.CharField(required=False, max_length=passkeys.LONGEST_ANSWER)


@needs()
def factor_list(request: HttpRequest) -> HttpResponse:
    """What the person can show after the password."""
    person = _person(request)
    context = {
        "factors": factors.factors_of(person),
        "is_due": enforcing.is_due(request),
        "has_one": factors.has_one(person),
        "has_codes": factors.has_codes(person),
        "offered": settings.SLUICE_SECOND_FACTORS,
    }
    return render(request, "console/people/second_factors.html", context)


@needs()
@needs_recent
def add_app(request: HttpRequest) -> HttpResponse:
    """Show the secret of a new authenticator app, until a code proves that the app has it."""
    person = _person(request, "app")
    form = FactorForm(request.POST if request.method == "POST" else None)
    kept = request.session.get(BEGUN)
    secret = unseal(kept) if kept else factors.new_secret()
    if form.is_valid():
        code, name = form.cleaned_data["code"], form.cleaned_data["name"]
        with transaction.atomic():
            # Of a form that is sent twice the second waits for the first.
            accounts.locked(person)
            is_again = factors.is_sent_twice(person, code, name)
            if is_again or (kept and factors.add_app(person, secret, code, name)):
                request.session.pop(BEGUN, None)
                return _added(request, person, name, is_again=is_again)
        form.add_error("code", "That code is not valid now. Enter the next one.")
    request.session[BEGUN] = seal(secret)
    picture = segno.make(factors.address_for(secret, person)).svg_data_uri(scale=5, border=4)
    context = {"form": form, "secret": secret, "picture": picture}
    status = 422 if form.is_bound else 200
    return render(request, "console/people/second_factor_app.html", context, status=status)


@needs()
@needs_recent
def add_passkey(request: HttpRequest) -> HttpResponse:
    """Have the browser make a passkey."""
    person = _person(request, "passkey")
    form = FactorForm(
        request.POST if request.method == "POST" else None, initial={"name": "My computer"}
    )
    if form.is_valid():
        key = passkeys.made(request, form.cleaned_data["credential"])
        if key is not None:
            factors.add_passkey(person, key, form.cleaned_data["name"])
            return _added(request, person, form.cleaned_data["name"])
        form.add_error(None, "The browser made no passkey that can be used here. Try again.")
    options = passkeys.to_make(request, person, factors.keys_of(person))
    context = {"form": form, "options": options}
    status = 422 if form.is_bound else 200
    return render(request, "console/people/second_factor_passkey.html", context, status=status)


@needs()
@needs_recent
def new_codes(request: HttpRequest) -> HttpResponse:
    """Make recovery codes. The answer itself shows them, once."""
    person = _person(request)
    if request.method != "POST" or not factors.has_one(person):
        return see("second-factors")
    codes = factors.new_codes(person)
    return render(request, "console/people/recovery_codes.html", {"codes": codes})


@needs()
@needs_recent
def remove(request: HttpRequest, factor_id: int) -> HttpResponse:
    """Take one away; safe to press twice."""
    person = _person(request)
    if request.method == "POST":
        author = Author(actor_of(request), reason_of(request))
        if factors.remove(person, author, number=factor_id):
            messages.success(request, "It was removed, and is not asked for any more.")
        enforcing.note(request, person)
    return see("second-factors")


@needs(Right.PEOPLE)
def remove_of_person(request: HttpRequest, person_id: str) -> HttpResponse:
    """Somebody has lost all of theirs: the password alone lets them in, until they add new ones."""
    refuse_limited(request)
    known = accounts.person(person_id)
    if known is None or settings.SLUICE_IS_GUEST:
        raise Http404("There is no such person.")
    why = reason_of(request)
    count = taken(request, lambda: taking.second_factors(known, request.user, why))
    if count is not None:
        messages.success(request, f"{so_many(count, 'second factor').capitalize()} removed.")
    return see("person", person_id)


def _added(
    request: HttpRequest, person: User, name: str, *, is_again: bool = False
) -> HttpResponse:
    enforcing.note(request, person)
    messages.success(request, f"{name} was added; it is asked for after the password from now on.")
    # Codes that the answer to the same form has just shown were seen by nobody.
    if factors.has_codes(person, before=just_before() if is_again else None):
        return see("second-factors")
    codes = factors.new_codes(person)
    return render(request, "console/people/recovery_codes.html", {"codes": codes})


def _person(request: HttpRequest, kind: str = "") -> User:
    """Raises Http404 where there is no such second factor here."""
    if settings.SLUICE_IS_GUEST:
        raise Http404(ELSEWHERE)
    if kind and kind not in settings.SLUICE_SECOND_FACTORS:
        raise Http404("This installation does not offer it (SLUICE_SECOND_FACTORS).")
    person: Any = request.user
    return cast("User", person)
