"""The page of a system's HTTP API: its tokens, and how its partner uses it."""

from datetime import timedelta
from typing import Any, Final

from crispy_forms.helper import FormHelper
from django import forms
from django.contrib import messages
from django.http import Http404, HttpRequest, HttpResponse
from django.shortcuts import render

from console.layout.access import Right, needs, scope_of
from console.layout.answers import actor_of, see, tell_problem
from console.setup.pages import found_row, refuse
from console.setup.systems import SYSTEMS
from integration.actions import tokens
from integration.actions.configuration import Author
from integration.actions.tokens import (
    Made,
    TokenNameTakenError,
    TokenReachesOthersError,
    TokenRequest,
)
from integration.errors import IntegrationError
from integration.models import ApiToken, ExternalSystem
from integration.selectors.scope import Scope
from integration.selectors.setup.sample_document import example_of
from integration.selectors.setup.tokens import (
    inbound_queues,
    names_to_limit_to,
    services_at,
    token_of,
    tokens_of,
)

LIVES: Final = (
    ("30", "30 days"),
    ("90", "90 days"),
    ("365", "a year"),
    ("", "until it is revoked"),
)
OVERLAPS: Final = (("1", "one day"), ("7", "a week"), ("30", "30 days"))
SCOPES: Final = ("may_post", "may_call", "may_read", "may_publish")


class TokenForm(forms.Form):
    """What a new token shall allow."""

    name = forms.SlugField(
        max_length=100,
        label="Name",
        help_text="Who or what uses it, such as “erp-production”. It is the user of Basic "
        "authentication, and stands in the history.",
    )
    may_post = forms.BooleanField(
        required=False,
        initial=True,
        label="Put messages into queues",
        help_text="POST /esqueue/…: answered as soon as the message is stored.",
    )
    may_read = forms.BooleanField(
        required=False,
        initial=True,
        label="Ask what became of messages",
        help_text="GET /esqueue/…/messages/…: of this system only, never a payload.",
    )
    may_call = forms.BooleanField(
        required=False,
        label="Run services at once",
        help_text="POST /es/…: the sender waits for the handler, and nothing waits in a queue.",
    )
    may_publish = forms.BooleanField(
        required=False,
        label="Publish to channels",
        help_text="POST /api/publish/…: for programs of your own. It sends to all partners of a "
        "channel, so give it to no partner.",
    )
    services = forms.MultipleChoiceField(
        required=False,
        label="Only these services or channels",
        help_text="None chosen: all of them, also those that are added later. To run services or "
        "publish, people who may know of some systems only must choose.",
    )
    days = forms.ChoiceField(
        required=False,
        choices=LIVES,
        initial="365",
        label="Valid for",
        help_text="A new token can be made before the old one ends, so that nothing stops.",
    )
    reason = forms.CharField(
        required=False, max_length=500, label="Why", help_text="Kept in the history of changes."
    )

    def __init__(self, *args: Any, scope: Scope, **kwargs: Any) -> None:
        super().__init__(*args, **kwargs)
        field = self.fields["services"]
        assert isinstance(field, forms.MultipleChoiceField)  # noqa: S101 - declared above
        field.choices = [(name, name) for name in names_to_limit_to(scope)]
        self.helper = FormHelper()
        self.helper.form_tag = False
        self.helper.disable_csrf = True

    def clean(self) -> dict[str, Any]:
        given: dict[str, Any] = super().clean() or {}
        if not any(given.get(scope) for scope in SCOPES):
            raise forms.ValidationError("Allow at least one thing; this token could do nothing.")
        return given

    def asked(self) -> TokenRequest:
        given = self.cleaned_data
        days = given["days"]
        return TokenRequest(
            name=given["name"],
            services=tuple(given["services"]),
            valid_for=timedelta(days=int(days)) if days else None,
            **{scope: bool(given[scope]) for scope in SCOPES},
        )


@needs(Right.VIEW)
def http_api(request: HttpRequest, number: int) -> HttpResponse:
    """The tokens of a system, and examples of requests."""
    return _show(request, found_row(request, SYSTEMS, number))


@needs(Right.CONFIGURE)
def new(request: HttpRequest, number: int) -> HttpResponse:
    """Make a token. The answer itself shows it, once: it is kept nowhere."""
    system = found_row(request, SYSTEMS, number)
    refuse(SYSTEMS.hindrance(request.user))
    if request.method != "POST":
        return _show_form(request, system, TokenForm(scope=scope_of(request.user)))
    form = TokenForm(request.POST, scope=scope_of(request.user))
    if not form.is_valid():
        return _show_form(request, system, form, status=422)
    author = Author(actor_of(request), form.cleaned_data["reason"])
    try:
        made = tokens.make(system, form.asked(), author, scope_of(request.user))
    except TokenNameTakenError as problem:
        form.add_error("name", str(problem))
        return _show_form(request, system, form, status=422)
    except TokenReachesOthersError as problem:
        form.add_error("services", str(problem))
        return _show_form(request, system, form, status=422)
    return _show_made(request, system, made)


@needs(Right.CONFIGURE)
def rotate(request: HttpRequest, number: int, token_id: int) -> HttpResponse:
    """Make its successor, and let the old one end after the days chosen."""
    system, token = _found(request, number, token_id)
    if request.method != "POST":
        return see("http-api", number)
    days = request.POST.get("days", "")
    if days not in dict(OVERLAPS):
        days = OVERLAPS[1][0]
    author = Author(actor_of(request), request.POST.get("reason", "")[:500])
    try:
        overlap = timedelta(days=int(days))
        made = tokens.rotate(token, author, overlap=overlap, scope=scope_of(request.user))
    except IntegrationError as problem:
        tell_problem(request, problem)
        return see("http-api", number)
    return _show_made(request, system, made, old=token, days=dict(OVERLAPS)[days])


@needs(Right.CONFIGURE)
def revoke(request: HttpRequest, number: int, token_id: int) -> HttpResponse:
    """Nobody gets in with it from now on; safe to press twice."""
    _, token = _found(request, number, token_id)
    if request.method == "POST":
        author = Author(actor_of(request), request.POST.get("reason", "")[:500])
        if tokens.revoke(token, author):
            messages.success(request, f"{token.name} is revoked: within a second it opens nothing.")
        else:
            messages.info(request, f"{token.name} was revoked already.")
    return see("http-api", number)


def _found(request: HttpRequest, number: int, token_id: int) -> tuple[ExternalSystem, ApiToken]:
    system = found_row(request, SYSTEMS, number)
    refuse(SYSTEMS.hindrance(request.user))
    token = token_of(system, token_id)
    if token is None:
        raise Http404("There is no such token (any more).")
    return system, token


def _show(request: HttpRequest, system: ExternalSystem) -> HttpResponse:
    context = {
        "row": system,
        "noun": SYSTEMS,
        "hindrance": SYSTEMS.hindrance(request.user),
        "tokens": tokens_of(system),
        "queues": inbound_queues(system),
        "example": example_of(next(iter(services_at(system)), "")),
        "origin": f"{request.scheme}://{request.get_host()}",
        "overlaps": OVERLAPS,
    }
    return render(request, "console/setup/http_api.html", context)


def _show_form(
    request: HttpRequest, system: ExternalSystem, form: TokenForm, *, status: int = 200
) -> HttpResponse:
    context = {"row": system, "noun": SYSTEMS, "form": form}
    return render(request, "console/setup/token_form.html", context, status=status)


def _show_made(
    request: HttpRequest, system: ExternalSystem, made: Made, **more: object
) -> HttpResponse:
    origin = f"{request.scheme}://{request.get_host()}"
    context = {
        "row": system,
        "noun": SYSTEMS,
        "made": made,
        "origin": origin,
        "example": example_of(next(iter(services_at(system)), "")),
        **more,
    }
    return render(request, "console/setup/token_made.html", context)
