"""The page of groups: which group of the identity provider has which role here."""

from typing import Any

from django import forms
from django.conf import settings
from django.contrib import messages
from django.contrib.auth.models import Group
from django.http import Http404, HttpRequest, HttpResponse
from django.shortcuts import render
from django.urls import reverse

from console.forms.setup_form import compared, inner_helper, reason_field
from console.layout.access import Right, needs
from console.layout.answers import reason_of, see, tell_problem
from console.models import GroupRule
from console.people.accounts import PersonProtectedError
from console.people.company import rules
from console.people.forms import RoleField
from console.people.pages import refuse_limited
from integration.actions.errors import ChangedMeanwhileError
from integration.models import ExternalSystem


class SingleRoleField(forms.ModelChoiceField):  # type: ignore[type-arg] # Django's
    """One role, with what it allows beside its name."""

    def label_from_instance(self, obj: Any) -> str:
        return RoleField.label_from_instance(self, obj)  # type: ignore[arg-type] # the same words


class RuleForm(forms.ModelForm):  # type: ignore[type-arg] # Meta names the model
    """A rule: a group, its role, and with which partners."""

    role = SingleRoleField(
        queryset=Group.objects.prefetch_related("permissions__content_type").order_by("pk"),
        widget=forms.RadioSelect,
        empty_label=None,
    )
    is_limited = forms.BooleanField(
        required=False,
        label="Only for some external systems",
        help_text="A limit counts for the whole person: who is in several groups is limited to "
        "the systems of all their limited rules.",
    )
    systems = forms.ModelMultipleChoiceField(
        queryset=ExternalSystem.objects.all(),
        required=False,
        widget=forms.CheckboxSelectMultiple,
        label="External systems",
        help_text="Applies only if the box above is ticked. A partner who is not listed is set up "
        "under External systems first.",
    )
    reason = reason_field("Kept in the history of changes.")

    class Meta:
        model = GroupRule
        fields = ("group", "role", "is_limited", "systems")
        labels = {"group": "Group"}
        help_texts = {
            "group": "As the identity provider writes it, capitals and slashes included; with "
            "Entra the object id of the group."
        }
        error_messages = {"__all__": {"unique_together": "This group has this role already."}}

    def __init__(self, *args: Any, **kwargs: Any) -> None:
        super().__init__(*args, **kwargs)
        self.helper = inner_helper()
        self.fields["group"].widget.attrs["list"] = "told-groups"
        self.fields["group"].widget.attrs["autocomplete"] = "off"

    def clean_systems(self) -> Any:
        """Raises ValidationError where ticked systems would limit nothing: nobody means that."""
        systems = self.cleaned_data["systems"]
        if systems and not self.cleaned_data.get("is_limited"):
            raise forms.ValidationError(
                "Systems are ticked, but the rule is not limited to them. Tick “Only for some "
                "external systems” too, or untick the systems."
            )
        return systems


@needs(Right.PEOPLE)
def rule_list(request: HttpRequest) -> HttpResponse:
    refuse_limited(request)
    known = rules.rules()
    named = {one.group for one in known}
    context = {
        "rules": known,
        "unnamed": [group for group in rules.told_groups() if group not in named],
        "issuer": settings.SLUICE_OIDC_ISSUER,
        "claim": settings.SLUICE_OIDC_GROUPS_CLAIM,
        "callback": request.build_absolute_uri(reverse("company-callback")),
    }
    return render(request, "console/people/company_groups.html", context)


@needs(Right.PEOPLE)
def add_rule(request: HttpRequest) -> HttpResponse:
    refuse_limited(request)
    begun = {"group": request.GET.get("group", "")}
    return _answered(request, None, RuleForm(request.POST or None, initial=begun))


@needs(Right.PEOPLE)
def change_rule(request: HttpRequest, rule_id: int) -> HttpResponse:
    refuse_limited(request)
    known = _known(rule_id)
    return _answered(request, known, RuleForm(request.POST or None, instance=_known(rule_id)))


@needs(Right.PEOPLE)
def delete_rule(request: HttpRequest, rule_id: int) -> HttpResponse:
    """Remove a rule; safe to press twice."""
    refuse_limited(request)
    known = rules.rule(rule_id)
    if known is None:
        _tell_gone(request)
    elif request.method == "POST":
        _delete(request, known)
    return see("company-groups")


def _delete(request: HttpRequest, known: GroupRule) -> None:
    try:
        is_new = rules.delete(known, request.user, reason_of(request))
    except PersonProtectedError as problem:
        tell_problem(request, problem)
        return
    if is_new:
        messages.success(request, f"The rule for {known.group} was removed.")
    else:
        _tell_gone(request)


def _tell_gone(request: HttpRequest) -> None:
    messages.info(request, "The rule was removed already.")


def _answered(request: HttpRequest, known: GroupRule | None, form: RuleForm) -> HttpResponse:
    context: dict[str, object] = {"form": form, "rule": known, "told": rules.told_groups()}
    seen = None
    if known is not None:
        is_sent = request.method == "POST"
        seen = context["seen"] = request.POST.get("seen", "") if is_sent else rules.stamp(known)
    page = "console/people/company_group_form.html"
    if request.method != "POST":
        return render(request, page, context)
    if not form.is_valid():
        return render(request, page, context, status=422)
    given = form.cleaned_data
    try:
        systems, why = given["systems"], given["reason"]
        rules.store(known, form.instance, systems, request.user, why, seen=seen)
    except ChangedMeanwhileError as problem:
        context |= _conflict(problem, form)
        return render(request, page, context, status=409)
    except PersonProtectedError as problem:
        form.add_error(None, str(problem))
        return render(request, page, context, status=422)
    messages.success(request, f"The rule for {given['group']} was saved.")
    return see("company-groups")


def _conflict(problem: ChangedMeanwhileError, form: RuleForm) -> dict[str, object]:
    """The stored rule beside the one that was entered. Raises Http404 where it is gone."""
    stored = rules.rule(form.instance.pk)
    if stored is None:
        raise Http404(str(problem)) from problem
    theirs, ours = rules.compared(stored, form.instance, form.cleaned_data["systems"])
    seen = {"seen": rules.stamp(stored)}
    return seen | compared(problem, "grouprule", stored.pk, theirs, ours)


def _known(rule_id: int) -> GroupRule:
    known = rules.rule(rule_id)
    if known is None:
        raise Http404("There is no such rule; it may have been removed.")
    return known
