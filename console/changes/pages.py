"""The audit: every change and access, newest first, and each by its own link."""

from datetime import datetime
from typing import Final

from django import forms
from django.http import Http404, HttpRequest, HttpResponse, QueryDict
from django.shortcuts import render
from django.utils.dateparse import parse_datetime
from django.views.decorators.http import require_GET

from console.layout.access import Right, has, needs, scope_of
from console.layout.asked import number_of
from console.layout.list_filter import ListFilterForm, MomentField
from console.layout.standby import from_standby
from console.setup.urls import NOUNS
from integration.actions.access import Act
from integration.selectors import changes
from integration.selectors.changes import ChangeFilter, Place
from integration.selectors.scope import Scope

# What the audit rows name by their model's name, in the words of the pages.
KINDS: Final = {
    **{noun.kind: noun.word for noun in NOUNS},
    "endpointtest": "test of an endpoint",
    "notice": "notice",
    "queue": "queue",
    "testmessage": "test message",
    "croninstance": "cron instance",
    "operation": "bulk operation",
    "bulkrun": "bulk run",
    "user": "person",
    "apitoken": "token",
    "personaltoken": "personal token",
    "grouprule": "rule for a group",
    "group": "role",
    "messageerror": "failure",
    "messagetrack": "tracked message",
    "outboxrow": "outgoing message",
    "storedobject": "stored document",
    "bulkpreview": "preview of a bulk job",
    "session": "login",
    "page": "page",
}
CHANGES: Final = (
    ("create", "Added"),
    ("change", "Changed"),
    ("delete", "Deleted"),
    ("send", "Sent"),
)
ACTS: Final = (
    (Act.LOGIN.value, "Logged in"),
    (Act.LOGIN_FAILED.value, "Login failed"),
    (Act.LOGIN_REFUSED.value, "Login refused after too many tries"),
    (Act.LOGOUT.value, "Logged out"),
    (Act.REFUSE.value, "Not permitted"),
    (Act.VIEW.value, "Saw a payload"),
    (Act.DOWNLOAD.value, "Downloaded"),
    (Act.REVEAL.value, "Revealed masked values"),
)
ACCESSES: Final = (
    ("Accesses", ((changes.ACCESSES, "All accesses"), *ACTS)),
    (changes.EVERY, "Changes and accesses"),
)
ACCESS_KINDS: Final = (
    "bulkpreview",
    "messageerror",
    "messagetrack",
    "outboxrow",
    "page",
    "session",
    "storedobject",
)


class ChangeFilterForm(ListFilterForm):
    """The filter of the list of changes."""

    action = forms.ChoiceField(required=False, label="Done")
    kind = forms.ChoiceField(required=False, label="What")
    actor = forms.ChoiceField(required=False, label="Who")
    name = forms.CharField(required=False, max_length=100, label="Name contains")
    since = MomentField(required=False, label="Since (UTC)")
    until = MomentField(required=False, label="Until (UTC)")

    def __init__(self, query: QueryDict, scope: Scope, *, accesses: bool) -> None:
        super().__init__(query)
        self.accesses = accesses
        more = ACCESS_KINDS if accesses and query.get("action") else ()
        self._offer("kind", sorted({*changes.kinds(scope), *more}), "Everything")
        known = changes.everybody() if accesses else changes.actors(scope)
        self._offer("actor", known, "Everybody")
        done = self.fields["action"]
        assert isinstance(done, forms.ChoiceField)  # noqa: S101 - declared above
        done.choices = [("", "All changes"), *CHANGES, *(ACCESSES if accesses else ())]
        field = self.fields["kind"]
        assert isinstance(field, forms.ChoiceField)  # noqa: S101 - declared above
        offered: list[tuple[str, str]] = list(field.choices)  # type: ignore[arg-type] # by _offer
        field.choices = [(value, KINDS.get(value, label)) for value, label in offered]
        self._lay_out()

    def wanted(self) -> ChangeFilter:
        """The filter without the fields that could not be read."""
        self.is_valid()
        given = {name: value for name, value in self.cleaned_data.items() if value}
        return ChangeFilter(**given, accesses=self.accesses)


@require_GET
@needs(Right.VIEW)
@from_standby
def change_list(request: HttpRequest) -> HttpResponse:
    """Newest first; `at` is where the page begins, as the link to older ones says."""
    scope = scope_of(request.user)
    form = ChangeFilterForm(request.GET, scope, accesses=sees_accesses(request))
    context = {
        "form": form,
        "page": changes.page(form.wanted(), scope, place_in(request.GET.get("at", ""))),
        "query": form.query(),
        "kinds": KINDS,
        "sees_accesses": form.accesses,
    }
    return render(request, "console/setup/changes.html", context)


@require_GET
@needs(Right.VIEW)
def change_page(request: HttpRequest, number: int) -> HttpResponse:
    """One change, for a link in a mail."""
    known = changes.change(number, scope_of(request.user), accesses=sees_accesses(request))
    if known is None:
        raise Http404("There is no such change.")
    return render(request, "console/setup/change.html", {"change": known, "kinds": KINDS})


def sees_accesses(request: HttpRequest) -> bool:
    """Accesses are for those who manage people and have no limit."""
    return has(request.user, Right.PEOPLE) and scope_of(request.user).is_whole


def place_in(text: str) -> Place | None:
    """`moment~number`, as the list writes it; anything else begins at the newest."""
    at, _, number = text.partition("~")
    try:
        moment: datetime | None = parse_datetime(at)
    except ValueError:
        return None
    known = number_of(number)
    return None if moment is None or moment.tzinfo is None or known is None else (moment, known)
