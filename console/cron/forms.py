"""The forms of cron tasks: an instance with its schedule and typed parameters; one run of it."""

from collections.abc import Mapping
from typing import Any, ClassVar, Final
from zoneinfo import available_timezones

from crispy_forms.layout import HTML, Div, Field, Fieldset, Layout
from django import forms
from django.core.exceptions import NON_FIELD_ERRORS, ValidationError
from django.urls import reverse_lazy

from console.cron.rights import Judge
from console.forms.durations import WholeSecondsField
from console.forms.parameters import fields_of, values_of
from console.forms.setup_form import SetupForm, inner_helper, reason_field
from crontasks import parameters
from crontasks.bulk.errors import BulkError
from crontasks.definitions import Definition
from crontasks.errors import BadParametersError
from crontasks.instances.effects import Effect, effect
from crontasks.models import CronInstance

MOMENTS: Final = ("crontab", "interval_seconds", "time_zone")
EXAMPLES: Final = (
    ("*/5 * * * *", "every 5 minutes"),
    ("0 * * * *", "every hour"),
    ("30 2 * * *", "at 02:30 every day"),
    ("0 6 * * mon-fri", "at 06:00 on working days"),
    ("0 3 1 * *", "at 03:00 on the first of the month"),
)


class CronForm(SetupForm):
    """One configured schedule of one cron task, which is chosen before."""

    examples = EXAMPLES
    zones = sorted(available_timezones())

    interval_seconds = WholeSecondsField(
        required=False,
        least_seconds=1,
        label="Or every",
        help_text="Instead of fixed times: 30 s, 5 min, 2 h, at most 31 d. Leave the other empty.",
    )
    timeout_seconds = WholeSecondsField(
        least_seconds=1,
        label="Time limit",
        help_text="A run that takes longer is stopped and marked as timed out; at most 1 d.",
    )

    class Meta:
        model = CronInstance
        fields = (
            "name",
            "active",
            "crontab",
            "interval_seconds",
            "time_zone",
            "overlap",
            "misfire",
            "timeout_seconds",
            "keep_runs",
            "run_as",
            "with_rights",
        )
        labels: ClassVar[dict[str, str]] = {
            "crontab": "At fixed times",
            "overlap": "If the previous run is still in progress",
            "misfire": "If runs were missed",
            "keep_runs": "Runs to keep",
            "run_as": "Runs as",
            "with_rights": "With this user's rights",
        }
        help_texts: ClassVar[dict[str, str]] = {
            "name": "The name that people see. The configuration file refers to it, too.",
            "active": "Off: it does not run automatically; Run now still works.",
            "crontab": "Minute, hour, day of month, month, day of week: numbers, ranges, lists, "
            "*/n, and names such as mon-fri.",
            "time_zone": "The time zone of the fixed times, for example Europe/Berlin.",
            "overlap": "What happens when a run is due and the previous one has not ended.",
            "misfire": "What happens after a time when nothing could run, such as an upgrade.",
            "keep_runs": "The history cleanup removes older ones.",
            "run_as": "The name recorded for changes that its runs make.",
            "with_rights": "On: each run asks first whether this user may have it done, and ends "
            "as failed if not. Off: the user is a name only and grants no rights.",
        }
        widgets: ClassVar[dict[str, forms.Widget]] = {
            "overlap": forms.RadioSelect(),
            "misfire": forms.RadioSelect(),
            "time_zone": forms.TextInput(attrs={"list": "time-zones"}),
            "crontab": forms.TextInput(attrs={"list": "crontabs", "spellcheck": "false"}),
        }

    def __init__(
        self,
        *args: Any,
        definition: Definition,
        judge: Judge,
        **kwargs: Any,
    ) -> None:
        super().__init__(*args, **kwargs)
        self.definition, self.judge = definition, judge
        self.described = parameters.describe(definition.task.parameters)
        self.stored: Mapping[str, Any] = dict(self.instance.parameters)
        self.typed = fields_of(self.described, self.stored)
        self.fields.update(self.typed)
        self.instance.task = definition.name
        run_as = self.fields["run_as"]
        assert isinstance(run_as, forms.ModelChoiceField)  # noqa: S101 - a foreign key's field
        run_as.empty_label = "Nobody: changes are recorded as “cron task”"
        self._watch_moments()

    def clean(self) -> dict[str, Any] | None:
        cleaned = super().clean()
        given = values_of(self.described, self.cleaned_data, self.stored)
        self.instance.parameters = given
        if not any(name in self.errors for name in self.typed):
            _read(self, self.definition, given, self.judge)
        user = self.cleaned_data.get("run_as") if self.cleaned_data.get("with_rights") else None
        if why := self.judge.hindrance_of_user(user):
            self.add_error("with_rights", why)
        return cleaned

    def effect(self) -> Effect:
        """The effect of the schedule in the form, even if the form is not valid."""
        if not self.is_bound:
            one = self.instance
            crontab, interval, zone = (self.initial.get(n, getattr(one, n)) for n in MOMENTS)
            if not crontab and interval is None:
                return Effect()
            return effect(crontab, interval, zone, number=one.pk or 0)
        self.is_valid()
        said = self.cleaned_data
        for name in MOMENTS:
            if name in self.errors and name not in said and self.data.get(name):
                return Effect(mistake=str(self.errors[name][0]))
        return effect(
            said.get("crontab") or "",
            said.get("interval_seconds"),
            said.get("time_zone") or str(self.data.get("time_zone", "")),
            number=self.instance.pk or 0,
        )

    def lay_out(self) -> None:
        """Schedule first, with what it comes to beside it; then the task's own parameters."""
        lead = Fieldset("", Field("name"), Field("active"))
        schedule = Fieldset(
            "When it runs",
            HTML('{% include "console/cron/_lists.html" %}'),
            Div(
                Div("crontab", "interval_seconds", "time_zone", css_class="col-lg-6"),
                Div(HTML('{% include "console/cron/_effect.html" %}'), css_class="col-lg-6"),
                css_class="row",
            ),
        )
        typed = [Field(name) for name in self.typed]
        about = [Fieldset("What it does", *typed)] if typed else []
        rules = Fieldset("Rules", "overlap", "misfire", "timeout_seconds", "keep_runs")
        who = Fieldset("In whose name", "run_as", "with_rights")
        self.helper.layout = Layout(lead, schedule, *about, rules, who, Field("reason"))

    def clean_time_zone(self) -> str:
        zone: str = self.cleaned_data["time_zone"]
        if zone not in self.zones:
            raise ValidationError(f"“{zone[:60]}” is not a time zone such as Europe/Berlin.")
        return zone

    def _update_errors(self, errors: ValidationError) -> None:
        """Leave out what the row says of its parameters: their fields say it already."""
        if hasattr(errors, "error_dict"):
            for name in ("parameters", "task"):
                mistakes = errors.error_dict.pop(name, [])
                if mistakes and not self.errors:
                    errors.error_dict.setdefault(NON_FIELD_ERRORS, []).extend(mistakes)
        super()._update_errors(errors)  # type: ignore[misc] # not in the stubs

    def _watch_moments(self) -> None:
        watched = ", ".join(f"[name={name}]" for name in MOMENTS)
        for name in MOMENTS:
            self.fields[name].widget.attrs.update(
                {
                    "hx-get": reverse_lazy("cron-effect"),
                    "hx-trigger": "input changed delay:400ms",
                    "hx-include": watched,
                    "hx-target": "#effect",
                    "autocomplete": "off",
                }
            )


class OneRunForm(forms.Form):
    """Parameters for a single run; what is stored stays as it is."""

    reason = reason_field("Optional. It is recorded with your request for this run.")

    def __init__(
        self,
        *args: Any,
        definition: Definition,
        instance: CronInstance,
        judge: Judge,
    ) -> None:
        super().__init__(*args)
        self.definition, self.judge = definition, judge
        self.user = instance.user_with_rights
        self.described = parameters.describe(definition.task.parameters)
        self.stored: Mapping[str, Any] = dict(instance.parameters)
        self.typed = fields_of(self.described, self.stored)
        self.fields = {**self.typed, **self.fields}
        self.helper = inner_helper()

    def clean(self) -> dict[str, Any] | None:
        cleaned = super().clean()
        if not self.errors:
            _read(self, self.definition, self.given(), self.judge)
        if why := self.judge.hindrance_of_user(self.user):
            self.add_error(None, why)
        return cleaned

    def given(self) -> dict[str, object]:
        return values_of(self.described, self.cleaned_data, self.stored)


def _read(
    form: forms.BaseForm,
    definition: Definition,
    given: Mapping[str, object],
    judge: Judge,
) -> None:
    """Let the parameters' own reader judge them; its sentences name the parameter."""
    try:
        parameters.read(definition.task.parameters, given)
    except BadParametersError as problem:
        for mistake in problem.mistakes:
            form.add_error(None, mistake)
        return
    try:
        why = judge.hindrance_of_parameters(definition, given)
    except BulkError as problem:
        why = f"{problem.job_code}: {problem}"
    if why:
        form.add_error(None, why)
