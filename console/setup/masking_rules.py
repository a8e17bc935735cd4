"""Masking rules: what of which messages is hidden, tried on a pasted message before saving."""

from collections.abc import Mapping
from typing import Any, ClassVar, Final

import django_tables2 as tables
from django import forms
from django.http import HttpRequest, HttpResponse

from console.forms.setup_form import SetupForm, names_in
from console.layout.access import Right, needs, scope_of
from console.layout.answers import see
from console.setup.lists import Named, Switched, SwitchFilter, filters_by
from console.setup.noun import Noun
from console.setup.pages import known_row, refuse, seen_in, show_form
from integration.models import MaskingRule
from integration.selectors.masking import tryout
from integration.selectors.scope import Scope
from integration.selectors.setup import foreign, nouns

TRIED: Final = frozenset({"path", "part", "style"})
LIMITS: Final = ("system", "queue", "service", "structure")
PARTS: Final = (
    ("", "", ("name", "description", "enabled")),
    ("What is hidden", "", ("part", "path", "style")),
    (
        "Of which messages",
        "Those that match every limit; with no limits, all messages.",
        LIMITS,
    ),
    (
        "Try it on a sample",
        "Nothing is stored: you see what people without the right to reveal see.",
        ("sample",),
    ),
)


class MaskingRuleForm(SetupForm):
    """A rule; `sample` is tried and never stored."""

    parts = PARTS
    sample = forms.CharField(
        required=False,
        label="Sample message",
        widget=forms.Textarea(attrs={"rows": 6, "class": "lines", "spellcheck": "false"}),
        help_text="A payload as JSON or XML, or the whole envelope. Take an invented one.",
    )

    class Meta:
        model = MaskingRule
        fields = names_in(PARTS)
        labels: ClassVar[dict[str, str]] = {
            "enabled": "Switched on",
            "part": "Part of the message",
            "path": "Path, or the name of the header",
            "style": "What is left of a value",
            "system": "External system",
            "structure": "Object structure",
        }
        help_texts: ClassVar[dict[str, str]] = {
            "name": "Letters, digits, - and _.",
            "description": "Whose data it is, and why it is hidden, in a few words.",
            "enabled": "Off: what it hides is shown to everybody who may see payloads.",
            "path": "JSONPath such as $.person.ssn or $..iban, XPath such as /Person/SSN or "
            "//@iban: names and * only. Arrays are looked through. Of a header its name, * for "
            "all of them; empty for the key. The record key may repeat a value of the payload: "
            "it is hidden by a rule of its own only.",
            "service": "Messages of this enterprise service.",
            "structure": "Messages of every service and channel that has this structure, and the "
            "documents stored under it.",
        }
        widgets: ClassVar[dict[str, Any]] = {
            "path": forms.TextInput(attrs={"class": "lines", "spellcheck": "false"}),
        }

    def __init__(self, *args: Any, **kwargs: Any) -> None:
        super().__init__(*args, **kwargs)
        for name in LIMITS:
            field: Any = self.fields[name]
            field.empty_label = "All"

    def tried(self) -> tryout.Tryout:
        """What the values of this form, saved or not, hide of its sample."""
        given = self.cleaned_data
        rule = MaskingRule(**{name: given.get(name, "") for name in ("part", "path", "style")})
        rule.queue = given.get("queue")
        return tryout.try_out(given.get("sample", ""), rule)


class MaskingRuleTable(tables.Table):
    """The list of rules."""

    name = Named("masking-rule")
    enabled = Switched()
    path = tables.Column("Hides", empty_values=())
    limits = tables.Column("Of messages of", accessor="pk", orderable=False)
    description = tables.Column()

    def render_path(self, record: MaskingRule) -> str:
        return what_of(record)

    def render_limits(self, record: MaskingRule) -> str:
        limits = limits_of(record, scope_of(self.request.user))
        return ", ".join(name for _, name in limits) or "everything"


def what_of(rule: MaskingRule) -> str:
    """What a rule hides, in words."""
    match rule.part:
        case MaskingRule.Of.KEY:
            return "the record key"
        case MaskingRule.Of.HEADER:
            return f"the header {rule.path}"
        case _:
            return rule.path


def limits_of(rule: MaskingRule, scope: Scope) -> list[tuple[str, str]]:
    """The limits of a rule, each with its label; what is out of the scope is not named."""
    labels = MaskingRuleForm.Meta.labels
    found = ((name, getattr(rule, name)) for name in LIMITS)
    return [
        (labels.get(name, name.capitalize()), foreign.name_of(limit, scope))
        for name, limit in found
        if limit
    ]


def _more(request: HttpRequest, rule: MaskingRule) -> Mapping[str, object]:
    return {"what": what_of(rule), "limits": limits_of(rule, scope_of(request.user))}


MASKING_RULES: Final = Noun(
    one="masking-rule",
    title="Masking rules",
    about="Values that are hidden wherever messages are shown: pages, the API, texts of errors, "
    "search. Whoever may reveal sees one message unmasked for some minutes, with a reason that "
    "the audit keeps.",
    form=MaskingRuleForm,
    table=MaskingRuleTable,
    filters=filters_by("name", "path", "description", enabled=SwitchFilter()),
    rows=nouns.masking_rules,
    more=_more,
    is_shared=True,
    is_grave=True,
    also=Right.REVEAL,
)


@needs(Right.VIEW, Right.CONFIGURE)
def try_sample(request: HttpRequest, number: int | None = None) -> HttpResponse:
    """The form again, with what is seen of its sample; nothing is stored."""
    row = None if number is None else known_row(request, MASKING_RULES, number)
    refuse(MASKING_RULES.hindrance(request.user))
    if request.method != "POST":
        return see("masking-rule-new") if number is None else see("masking-rule-change", number)
    form = MaskingRuleForm(request.POST, instance=row)
    form.is_valid()
    # A name that is missing or taken does not keep anybody from trying a path.
    for name in form.errors.keys() - TRIED:
        del form.errors[name]
    tried = form.tried() if not form.errors else None
    mistakes = [str(sentence) for e in form.errors.values() for sentence in e]
    return show_form(
        request, MASKING_RULES, form, seen=seen_in(request), tried=tried, mistakes=mistakes
    )
