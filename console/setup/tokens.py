"""The page of a system's HTTP API: its tokens, and how its partner uses it."""

from collections.abc import Sequence
from datetime import timedelta
from typing import Any, Final, cast

from django import forms
from django.contrib import messages
from django.contrib.auth.models import User
from django.http import Http404, HttpRequest, HttpResponse
from django.shortcuts import render
from django.urls import get_script_prefix

from console.forms.setup_form import inner_helper, reason_field
from console.layout.access import Right, may_act_for, needs, scope_of
from console.layout.answers import see, tell_problem
from console.setup.pages import author_of, known_row, refuse
from console.setup.systems import SYSTEMS
from integration.actions import tokens
from integration.actions.tokens import Made, TokenNameTakenError, TokenReachesOthersError
from integration.errors import IntegrationError
from integration.models import ApiToken, ExternalSystem
from integration.selectors.setup.samples import example_of
from integration.selectors.setup.tokens import (
    inbound_queues,
    names_to_limit_to,
    services_at,
    takes_no_posts,
    token_of,
    tokens_of,
    users_named,
)

LIVES: Final = (
    ("30", "30 days"),
    ("90", "90 days"),
    ("365", "a year"),
    ("", "until it is revoked"),
)
OVERLAPS: Final = (("1", "one day"), ("7", "a week"), ("30", "30 days"))
SCOPES: Final = ("may_post", "may_call", "may_read", "may_publish")


NOT_YOURS: Final = (
    "It would speak for {}, who may do what you may not, is switched off, or has no account. Leave "
    "the name out, or ask somebody who has all of these rights."
)


def beyond_of(person: User, names: Sequence[str]) -> list[str]:
    """Return those of the names that this person may let nobody speak for."""
    known = users_named(names)
    return [name for name in names if name not in known or not may_act_for(person, known[name])]


class TokenForm(forms.Form):
    """The form of a new token."""

    name = forms.SlugField(
        max_length=100,
        label="Name",
        help_text="Who or what uses it, such as “erp-production”. It is the user name of Basic "
        "authentication, and is shown in the history.",
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
        help_text="GET /esqueue/…/messages/…: for this system only, never a payload.",
    )
    may_call = forms.BooleanField(
        required=False,
        label="Run services at once",
        help_text="POST /es/…: the sender waits for the handler, and nothing waits in a queue.",
    )
    may_publish = forms.BooleanField(
        required=False,
        label="Publish to channels",
        help_text="POST /api/publish/…: for your own programs. It sends to all partners of a "
        "channel, so do not give this right to a partner.",
    )
    services = forms.MultipleChoiceField(
        required=False,
        label="Only these services or channels",
        help_text="None chosen: all of them, including those added later. If your account is "
        "limited to some external systems, you must choose to allow running services or "
        "publishing.",
    )
    users = forms.CharField(
        required=False,
        label="Users it may speak for",
        widget=forms.Textarea(attrs={"rows": 2}),
        help_text="User names, one per line. If it posts in the name of one of them (USER), "
        "handlers may rely on that user's rights. Any other name is only a label.",
    )
    days = forms.ChoiceField(
        required=False,
        choices=LIVES,
        initial="365",
        label="Valid for",
        help_text="You can make a new token before the old one expires, so that nothing stops.",
    )
    reason = reason_field("Kept in the history of changes.")

    def __init__(self, *args: Any, person: User, **kwargs: Any) -> None:
        super().__init__(*args, **kwargs)
        self.person, scope = person, scope_of(person)
        field = self.fields["services"]
        assert isinstance(field, forms.MultipleChoiceField)  # noqa: S101 - declared above
        field.choices = [(name, name) for name in names_to_limit_to(scope)]
        self.helper = inner_helper()

    def clean(self) -> dict[str, Any]:
        given: dict[str, Any] = super().clean() or {}
        if not any(given.get(scope) for scope in SCOPES):
            raise forms.ValidationError(
                "Allow at least one thing; otherwise the token is of no use."
            )
        return given

    def clean_users(self) -> list[str]:
        # Line by line: a name may have blanks and commas, and its parts are other users' names.
        lines = map(str.strip, self.cleaned_data["users"].splitlines())
        names = sorted(set(filter(None, lines)))
        if beyond := beyond_of(self.person, names):
            raise forms.ValidationError(NOT_YOURS.format(", ".join(beyond)))
        return names

    def token_of(self, system: ExternalSystem) -> ApiToken:
        """The token that a good form asks for, not stored yet."""
        given = {name: self.cleaned_data[name] for name in ("name", "services", "users", *SCOPES)}
        return ApiToken(system=system, **given)

    @property
    def valid_for(self) -> timedelta | None:
        days = self.cleaned_data["days"]
        return timedelta(days=int(days)) if days else None


@needs(Right.VIEW)
def http_api(request: HttpRequest, number: int) -> HttpResponse:
    """The tokens of a system, and examples of requests."""
    system = known_row(request, SYSTEMS, number)
    context = {
        **_about(request, system),
        "hindrance": SYSTEMS.hindrance(request.user),
        "tokens": tokens_of(system),
        "queues": inbound_queues(system).exists(),
        "overlaps": OVERLAPS,
    }
    return render(request, "console/setup/http_api.html", context)


@needs(Right.CONFIGURE)
def new(request: HttpRequest, number: int) -> HttpResponse:
    """Make a token. The answer itself shows it, once: it is kept nowhere."""
    system = known_row(request, SYSTEMS, number)
    refuse(SYSTEMS.hindrance(request.user))
    scope = scope_of(request.user)
    person = cast("User", request.user)
    form = TokenForm(request.POST if request.method == "POST" else None, person=person)
    if form.is_valid():
        asked, author = form.token_of(system), author_of(request)
        try:
            made = tokens.make(asked, author, scope, valid_for=form.valid_for)
        except (TokenNameTakenError, TokenReachesOthersError) as problem:
            is_name = isinstance(problem, TokenNameTakenError)
            form.add_error("name" if is_name else "services", str(problem))
        else:
            return _show_made(request, system, made)
    context = {**_about(request, system), "form": form}
    status = 422 if form.is_bound else 200
    return render(request, "console/setup/token_form.html", context, status=status)


@needs(Right.CONFIGURE)
def rotate(request: HttpRequest, number: int, token_id: int) -> HttpResponse:
    """Make its successor, and let the old one end after the days chosen."""
    system, token = _known_token(request, number, token_id)
    if request.method != "POST":
        return see("http-api", number)
    days = request.POST.get("days", "")
    if days not in dict(OVERLAPS):
        days = OVERLAPS[1][0]
    overlap, scope = timedelta(days=int(days)), scope_of(request.user)
    if beyond := beyond_of(cast("User", request.user), token.users):
        # Whoever makes a text knows it.
        messages.error(request, NOT_YOURS.format(", ".join(beyond)))
        return see("http-api", number)
    try:
        made = tokens.rotate(token, author_of(request), overlap=overlap, scope=scope)
    except IntegrationError as problem:
        tell_problem(request, problem)
        return see("http-api", number)
    return _show_made(request, system, made, old=token, days=dict(OVERLAPS)[days])


@needs(Right.CONFIGURE)
def revoke(request: HttpRequest, number: int, token_id: int) -> HttpResponse:
    """Nobody gets in with it from now on; safe to press twice."""
    _, token = _known_token(request, number, token_id)
    if request.method == "POST":
        if tokens.revoke(token, author_of(request)):
            messages.success(
                request, f"{token.name} was revoked and stops working within a second."
            )
        else:
            messages.info(request, f"{token.name} was already revoked.")
    return see("http-api", number)


def _known_token(
    request: HttpRequest, number: int, token_id: int
) -> tuple[ExternalSystem, ApiToken]:
    system = known_row(request, SYSTEMS, number)
    refuse(SYSTEMS.hindrance(request.user))
    token = token_of(system, token_id)
    if token is None:
        raise Http404("There is no such token; it may have been deleted.")
    return system, token


def _show_made(
    request: HttpRequest, system: ExternalSystem, made: Made, **more: object
) -> HttpResponse:
    context = {**_about(request, system), "made": made, **more}
    return render(request, "console/setup/token_made.html", context)


def _about(request: HttpRequest, system: ExternalSystem) -> dict[str, object]:
    """Facts of the system for the pages, with an example of a post to it."""
    return {
        "row": system,
        "noun": SYSTEMS,
        "example": example_of(next(iter(services_at(system)), "")),
        "at_jms": takes_no_posts(system),
        "origin": request.build_absolute_uri(get_script_prefix()).rstrip("/"),
    }
