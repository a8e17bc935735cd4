"""The page of one's own personal tokens: make one, see it once, revoke it."""

from datetime import timedelta
from typing import Any, Final, cast

from django import forms
from django.contrib import messages
from django.contrib.auth.models import User
from django.http import Http404, HttpRequest, HttpResponse
from django.shortcuts import render

from console.forms.setup_form import inner_helper, reason_field
from console.layout.access import Right, has, needs
from console.layout.answers import actor_of, origin_of, reason_of, see
from console.people import personal_tokens
from console.people.personal_tokens import PersonalTokenTakenError
from console.people.recent import needs_recent
from integration.actions.configuration import Author

LIVES: Final = (
    ("1", "a day"),
    ("7", "a week"),
    ("30", "30 days"),
    ("90", "90 days"),
    ("365", "a year"),
)


class PersonalTokenForm(forms.Form):
    """The form of a new token: its name, what it may do, and how long."""

    name = forms.SlugField(
        max_length=100,
        label="Name",
        help_text="Where it is used, such as “nightly-pipeline”. It stands in the history.",
    )
    rights = forms.MultipleChoiceField(
        required=False,
        label="It may also",
        widget=forms.CheckboxSelectMultiple,
        help_text="Every token may see queues and failures. Give it no more than its program "
        "needs; a right that you lose, your tokens lose too.",
    )
    days = forms.ChoiceField(choices=LIVES, initial="90", label="Valid for")
    reason = reason_field("Kept in the history of changes.")

    def __init__(self, *args: Any, person: User, **kwargs: Any) -> None:
        super().__init__(*args, **kwargs)
        field = self.fields["rights"]
        assert isinstance(field, forms.MultipleChoiceField)  # noqa: S101 - declared above
        further = [one for one in personal_tokens.grantable(person) if one is not Right.VIEW]
        field.choices = [(one.word, one.words) for one in further]
        self.helper = inner_helper()

    @property
    def given(self) -> list[Right]:
        """The rights asked for; only of a valid form."""
        asked = self.cleaned_data["rights"]
        return [right for right in Right if right is Right.VIEW or right.word in asked]


@needs()
def token_list(request: HttpRequest) -> HttpResponse:
    """One's own tokens."""
    context = {"tokens": personal_tokens.tokens_of(_person(request)), "hindrance": _why(request)}
    return render(request, "console/people/tokens.html", context)


@needs()
@needs_recent
def new(request: HttpRequest) -> HttpResponse:
    """Make a token. The answer itself shows it, once: it is kept nowhere."""
    person, why = _person(request), _why(request)
    if why:
        return see("personal-tokens")
    form = PersonalTokenForm(request.POST if request.method == "POST" else None, person=person)
    if form.is_valid():
        said = form.cleaned_data
        lasts = timedelta(days=int(said["days"]))
        try:
            made = personal_tokens.make(
                person, said["name"], form.given, valid_for=lasts, reason=said["reason"]
            )
        except PersonalTokenTakenError as problem:
            form.add_error("name", str(problem))
        else:
            context = {"made": made, "origin": origin_of(request)}
            return render(request, "console/people/token_made.html", context)
    status = 422 if form.is_bound else 200
    return render(request, "console/people/token_form.html", {"form": form}, status=status)


@needs()
def revoke(request: HttpRequest, token_id: int) -> HttpResponse:
    """Nobody gets in with it from now on; safe to press twice."""
    token = personal_tokens.token_of(_person(request), token_id)
    if token is None:
        raise Http404("You have no such token.")
    if request.method == "POST":
        author = Author(actor_of(request), reason_of(request))
        if personal_tokens.revoke(token, author):
            messages.success(request, f"{token.name} was revoked and does not work any more.")
        else:
            messages.info(request, f"{token.name} was already revoked.")
    return see("personal-tokens")


def _why(request: HttpRequest) -> str:
    """The reason why this person can make no token; else empty."""
    return "" if has(request.user, Right.VIEW) else Right.VIEW.missing


def _person(request: HttpRequest) -> User:
    # Strangers are sent to the login. Another project's people are of a model of its own.
    return cast("User", request.user)
