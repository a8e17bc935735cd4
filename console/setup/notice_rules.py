"""Notice rules: thresholds, recipients, quiet hours; each is tried on the last seven days."""

from collections.abc import Mapping
from typing import Any, ClassVar, Final

import django_filters
import django_tables2 as tables
from django import forms
from django.http import HttpRequest

from console.forms.durations import EXAMPLE, WholeSecondsField
from console.forms.setup_form import SetupForm, names_in
from console.setup.lists import Named, Switched, SwitchFilter, filters_by
from console.setup.noun import Noun
from crontasks.models import NoticeRule
from crontasks.models.notice import NoticeKind
from crontasks.models.notice_kinds import FACTS, KindFacts
from crontasks.notices import preview, selectors
from crontasks.notices.preview import Preview
from integration.durations import written
from integration.selectors.scope import EVERYTHING
from integration.selectors.setup import nouns

WIDER: Final = "Empty: as a wider rule says, else the default of the kind."
PARTS: Final = (
    ("", "", ("name", "description", "enabled")),
    (
        "What it is about",
        (
            "A rule of a queue goes before one of its system, and that before one for everything; "
            "at each of these, a rule of one kind goes before one of every kind."
        ),
        ("kind", "system", "queue", "code"),
    ),
    (
        "From when on",
        WIDER,
        ("at_least", "longer_than_seconds", "window_seconds", "after_seconds"),
    ),
    ("Who is told", "", ("recipients", "repeat_seconds")),
    ("When nobody is told", "", ("quiet_hours", "time_zone", "quiet_for_urgent")),
)


class RuleForm(SetupForm):
    """A rule of notices."""

    parts = PARTS
    taken = "There is such a rule already: choose another name, or change that one."
    longer_than_seconds = WholeSecondsField(
        required=False,
        least_seconds=1,
        label="Longer than",
        help_text=f"For kinds that measure a time. {EXAMPLE}",
    )
    window_seconds = WholeSecondsField(
        required=False,
        least_seconds=60,
        label="Counted within",
        help_text="For HOLD_BURST and FAILURES: the time in which messages are counted.",
    )
    after_seconds = WholeSecondsField(
        required=False,
        label="Tell after",
        help_text="How long it must last before people are told; what is over sooner is not told.",
    )
    recipients = forms.MultipleChoiceField(
        required=False,
        label="Recipients",
        widget=forms.CheckboxSelectMultiple,
        help_text="None: as a wider rule says, else the addresses of SLUICE_NOTIFY_EMAILS.",
    )
    repeat_seconds = WholeSecondsField(
        required=False,
        label="Remind every",
        help_text="As long as it lasts and nobody has acknowledged it. 0 s: never, which is the "
        "default.",
    )

    class Meta:
        model = NoticeRule
        fields = names_in(PARTS)
        labels: ClassVar[dict[str, str]] = {
            "enabled": "People are told",
            "kind": "Kind",
            "system": "External system",
            "queue": "Queue",
            "code": "Cause",
            "at_least": "At least",
            "quiet_hours": "Quiet hours",
            "time_zone": "Time zone",
            "quiet_for_urgent": "For urgent kinds, too",
        }
        help_texts: ClassVar[dict[str, str]] = {
            "name": "Letters, digits, - and _.",
            "description": "What it is for, in a few words.",
            "enabled": "Off: nobody is told there. Such notices still stand on the page Notices.",
            "kind": "Empty: every kind.",
            "system": "Only the queues of this system.",
            "queue": "Only this queue.",
            "code": "With the kind FAILURES: only failures with this code, such as HTTP_REFUSED. "
            "They are counted apart from the others.",
            "at_least": "For kinds that count.",
            "quiet_hours": "Such as 22:00-06:00, sat-sun 00:00-24:00. What lasts is told at their "
            "end, what is over by then is not. “none” overrides a wider rule.",
            "time_zone": "Whose clocks count, such as Europe/Berlin.",
            "quiet_for_urgent": "Off: what is urgent comes in quiet hours, too.",
        }

    def __init__(self, *args: Any, **kwargs: Any) -> None:
        super().__init__(*args, **kwargs)
        fields: Any = self.fields
        kinds = [(value, f"{title} ({value})") for value, title in NoticeKind.choices]
        fields["kind"].choices = [("", "Every kind"), *kinds]
        fields["system"].queryset = nouns.systems(self.scope)
        fields["system"].empty_label = "All"
        fields["queue"].queryset = selectors.queues_of(self.scope)
        fields["queue"].empty_label = "All"
        named = [one.name for one in selectors.recipients(self.scope)]
        stored = self.instance.recipients or []
        # One that is gone stays visible, so that it can be taken out.
        fields["recipients"].choices = [(n, n) for n in dict.fromkeys([*named, *stored])]

    @property
    def facts(self) -> KindFacts | None:
        """What the chosen kind is about; None while there is none."""
        kind = self.entered("kind")
        return FACTS[NoticeKind(kind)] if kind in NoticeKind.values else None

    @property
    def tried(self) -> Preview | None:
        """What the entered rule would have done; None while a mistake is in the way."""
        if not self.is_bound or self.errors:
            return None
        return preview.preview(self.instance, self.scope)


def scope_words(rule: NoticeRule) -> str:
    """What a rule is about, such as "queue eam-assets"."""
    if rule.queue is not None:
        return f"queue {rule.queue}"
    return f"system {rule.system}" if rule.system is not None else "everything"


def threshold_words(rule: NoticeRule) -> str:
    """The thresholds that a rule gives itself; a dash for none."""
    said = []
    if rule.at_least is not None:
        said.append(f"at least {rule.at_least:,}")
    if rule.code:
        said.append(f"by {rule.code}")
    for words, seconds in (
        ("within", rule.window_seconds),
        (FACTS[NoticeKind(rule.kind)].bound if rule.kind else "", rule.longer_than_seconds),
        ("told after", rule.after_seconds),
    ):
        if seconds is not None:
            said.append(f"{words} {written(seconds)}")
    return ", ".join(said) or "\N{EN DASH}"


class RuleTable(tables.Table):
    """The list of rules."""

    name = Named("notice-rule")
    kind = tables.TemplateColumn(
        "{% if value %}{{ record.get_kind_display }}{% else %}every kind{% endif %}",
        empty_values=(),
    )
    about = tables.Column("About", empty_values=(), orderable=False)
    thresholds = tables.Column("From when on", empty_values=(), orderable=False)
    recipients = tables.TemplateColumn(
        "{{ value|join:', '|default:'as a wider rule says' }}",
        empty_values=(),
        orderable=False,
    )
    enabled = Switched()

    def render_about(self, record: NoticeRule) -> str:
        return scope_words(record)

    def render_thresholds(self, record: NoticeRule) -> str:
        return threshold_words(record)


def _more(_request: HttpRequest, rule: NoticeRule) -> Mapping[str, object]:
    facts = FACTS[NoticeKind(rule.kind)] if rule.kind else None
    return {
        "facts": facts,
        "about": scope_words(rule),
        "thresholds": threshold_words(rule),
        "repeat": written(rule.repeat_seconds or 0),
        "tried": preview.preview(rule, EVERYTHING),
    }


def _stopped(rule: NoticeRule) -> str:
    kind = str(rule.get_kind_display()) if rule.kind else "every kind"
    return f"telling people of “{kind}”, about {scope_words(rule)}."


RULES = Noun(
    one="notice-rule",
    title="Notice rules",
    about="From when on people are told that something is wrong, whom, how often, and when not. "
    "Without any rule the defaults hold.",
    form=RuleForm,
    table=RuleTable,
    filters=filters_by(
        "name",
        "description",
        kind=django_filters.ChoiceFilter(
            field_name="kind", label="Kind", choices=NoticeKind.choices, empty_label="Every kind"
        ),
        enabled=SwitchFilter(),
    ),
    rows=selectors.rules_of,
    stops=_stopped,
    more=_more,
    is_shared=True,
)
