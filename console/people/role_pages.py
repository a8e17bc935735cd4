"""The pages of roles: what each lets people do, and a form that gives and takes rights."""

from collections.abc import Iterable
from typing import Any

from django import forms
from django.contrib import messages
from django.contrib.auth.models import AnonymousUser, Group, User
from django.http import Http404, HttpRequest, HttpResponse
from django.shortcuts import render

from console.forms.setup_form import compared, inner_helper, reason_field
from console.layout.access import Right, has, needs
from console.layout.answers import see
from console.people import roles
from console.people.accounts import PersonProtectedError, exceeds
from console.people.pages import refuse_limited
from console.people.second import factors
from integration.actions.errors import ChangedMeanwhileError
from integration.selectors import changes


class RightBoxes(forms.CheckboxSelectMultiple):
    """A box for each right; those in `closed` cannot be changed by the person who asks."""

    closed: frozenset[str] = frozenset()

    def create_option(self, name: str, value: Any, *args: Any, **kwargs: Any) -> dict[str, Any]:
        option = super().create_option(name, value, *args, **kwargs)
        if str(value) in self.closed:
            option["attrs"]["disabled"] = True
        return option


class RoleForm(forms.Form):
    """The rights of a role. `had` are those it has, `by` is who gives or takes them."""

    rights = forms.MultipleChoiceField(
        required=False,
        label="Whoever has this role may",
        widget=RightBoxes,
        help_text="A change takes effect for everybody with this role at their next click.",
    )
    reason = reason_field("Kept in the history of changes.")

    def __init__(self, data: Any, *, had: frozenset[Right], by: User | AnonymousUser) -> None:
        closed = frozenset(right for right in Right if not has(by, right))
        if data is not None:
            # A browser sends no box that is closed: what cannot be changed stays.
            data = data.copy()
            data.setlist("rights", [*data.getlist("rights"), *words_of(had & closed)])
        super().__init__(data, initial={"rights": words_of(had)})
        field: Any = self.fields["rights"]
        field.choices = [(right.word, _offered(right, closed)) for right in Right]
        field.widget.closed = frozenset(words_of(closed))
        self.helper = inner_helper()

    def wanted(self) -> frozenset[Right]:
        """The rights that are asked for; call it when the form is valid."""
        chosen = set(self.cleaned_data["rights"])
        return frozenset(right for right in Right if right.word in chosen)


def words_of(rights: Iterable[Right]) -> list[str]:
    return [right.word for right in rights]


def _offered(right: Right, closed: frozenset[Right]) -> str:
    return f"{right.words} (you do not have it yourself)" if right in closed else right.words


@needs(Right.PEOPLE)
def role_list(request: HttpRequest) -> HttpResponse:
    refuse_limited(request)
    every = [(one, _in_order(roles.rights_of(one))) for one in roles.roles()]
    return render(request, "console/people/roles.html", {"roles": every})


@needs(Right.PEOPLE)
def role_page(request: HttpRequest, role_id: int) -> HttpResponse:
    """Show what a role lets people do; a post gives and takes rights."""
    refuse_limited(request)
    known = _known(role_id)
    form = RoleForm(request.POST or None, had=roles.rights_of(known), by=request.user)
    is_sent = request.method == "POST"
    seen = request.POST.get("seen", "") if is_sent else roles.stamp(known)
    context: dict[str, object] = {
        "form": form,
        "role": known,
        "seen": seen,
        "others": roles.others_of(known),
        "exceeds": exceeds(known, request.user),
        "groups": roles.groups_giving(known),
        "needs_factor": factors.needs_one(known),
        "history": changes.history_of(roles.KIND, known.pk),
    }
    page = "console/people/role.html"
    if not is_sent:
        return render(request, page, context)
    if not form.is_valid():
        return render(request, page, context, status=422)
    try:
        why = form.cleaned_data["reason"]
        is_new = roles.change(known, form.wanted(), request.user, why, seen=seen)
    except ChangedMeanwhileError as problem:
        return render(request, page, context | _conflict(problem, known, form), status=409)
    except PersonProtectedError as problem:
        form.add_error(None, str(problem))
        return render(request, page, context, status=422)
    if is_new:
        messages.success(request, f"The role {known.name} was saved.")
    else:
        messages.info(request, f"The role {known.name} has these rights already.")
    return see("roles")


def _conflict(problem: ChangedMeanwhileError, known: Group, form: RoleForm) -> dict[str, object]:
    """The stored role beside what was entered. Raises Http404 where it is gone."""
    stored = _known(known.pk)
    theirs, ours = roles.compared(stored, form.wanted())
    more = {"seen": roles.stamp(stored)}
    return more | compared(problem, roles.KIND, stored.pk, theirs, ours)


def _in_order(rights: frozenset[Right]) -> list[str]:
    return [right.words for right in Right if right in rights]


def _known(role_id: int) -> Group:
    known = roles.role(role_id)
    if known is None:
        raise Http404("There is no such role; it may have been removed.")
    return known
