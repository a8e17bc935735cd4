"""The form of a queue: what people write, judged by the model, the rules and the broker."""

from collections.abc import Sequence
from datetime import datetime
from typing import Any, ClassVar, Final

from crispy_forms.layout import HTML, Field, Fieldset, Layout
from django import forms
from django.core.exceptions import NON_FIELD_ERRORS, ValidationError
from django.db.models import Model

from console.forms.durations import EXAMPLE, DurationField, DurationListField, WholeSecondsField
from console.forms.setup_form import Part, SetupForm, names_in
from console.setup.queues import fields as words
from console.setup.queues import outbound
from console.setup.targets import EndpointChoice, ProviderSelect
from integration import registration
from integration.actions import queue_setup
from integration.actions.configuration import Author
from integration.actions.queue_setup import Making
from integration.errors import IntegrationError
from integration.models import Queue
from integration.models.two_phase import other_databases
from integration.policy.retry import Backoff
from integration.selectors.setup import queues as selectors
from integration.values import is_readable

EFFECT: Final = '{{% include "console/setup/_queue_effect.html" with part="{}" %}}'
FOLD: Final = '<details class="part {}" data-stays{}><summary>{}</summary>'
# Parts whose effect is shown below their fields.
TELLING: Final = (
    "part-topic",
    "part-delivery",
    "part-start",
    "part-order",
    "part-retry",
    "part-failures",
)
TAKEN_TOPIC: Final = (
    "Another queue of this direction already uses this topic, and each message has one reader "
    "here. Use that queue, or another topic."
)
TAKEN_ADDRESS: Final = (
    "Another queue of this direction already reads this JMS address with the same selector and "
    "subscription, and each message has one reader here. Use that queue, or choose others."
)
FOREIGN_TOPIC: Final = (
    "You may not use this topic. You may use topics of your queues, and those whose name begins "
    "with the name of the queue's external system and a dot, hyphen or underscore. Ask an "
    "administrator without that limit."
)
TAKEN_NAMES: Final = frozenset({"new"})
SHOW: Final = "show"


class QueueForm(SetupForm):
    """New: with the choice of the topic and of the start. Stored: what may still change.

    `asks_broker` off judges without the cluster, as the button SHOW does, for the effects that are
    shown while typing.
    """

    topic_from = forms.ChoiceField(choices=words.TOPIC_FROM, widget=forms.RadioSelect())
    partitions = forms.IntegerField(
        min_value=1, max_value=queue_setup.MOST_PARTITIONS, initial=1, required=False
    )
    create_error_queue = forms.BooleanField(required=False)
    error_queue_strict = forms.BooleanField(required=False)
    second_database = forms.ChoiceField(required=False)
    endpoint = EndpointChoice(None, required=False, empty_label=outbound.NO_ENDPOINT)
    retention_seconds = WholeSecondsField(least_seconds=1)
    retry_delay_seconds = DurationField()
    retry_delays_seconds = DurationListField(required=False)
    retry_cap_seconds = DurationField()
    retry_total_seconds = DurationField(required=False, least_seconds=1)
    stay_seconds = DurationField()
    handler_timeout_seconds = DurationField(least_seconds=1)

    class Meta:
        model = Queue
        fields = words.MODEL_FIELDS
        widgets: ClassVar[dict[str, Any]] = {
            "provider": ProviderSelect(),
            "selector": forms.TextInput(attrs={"spellcheck": "false"}),
            "kind": forms.RadioSelect(),
            "start_from": forms.RadioSelect(),
            "on_gap": forms.RadioSelect(),
            "on_head_expired": forms.RadioSelect(),
            "carrier": forms.RadioSelect(),
            "ordering": forms.RadioSelect(),
            "group_protocol": forms.RadioSelect(),
            "start_time": forms.DateTimeInput(
                attrs={"type": "datetime-local", "step": "1"}, format="%Y-%m-%dT%H:%M:%S"
            ),
        }

    marks = words.MARKS
    taken = "Somebody else has just taken this name or this topic. Choose another one."

    def __init__(self, *args: Any, asks_broker: bool = True, **kwargs: Any) -> None:
        super().__init__(*args, **kwargs)
        self.asks_broker = asks_broker and SHOW not in self.data
        self.is_new = self.instance.pk is None
        self.is_outbound = self._direction() == Queue.Direction.OUTBOUND
        self.all_parts = outbound.PARTS if self.is_outbound else words.PARTS
        self._drop_fields()
        self._dress_fields()
        self._limit_choices()
        if not self.is_new:
            self._close_bound()
        self.is_jms = self._is_jms()
        self._settle_delivery()
        self._settle_provider()

    # what is shown

    def lay_out(self) -> None:
        mistaken = set(self.errors)
        self.fields.update(self._unjudged)
        laid = [
            shown
            for css_id, part in self.all_parts.items()
            if any(name in self.fields for name in part[2])
            for shown in self._shown_part(css_id, part, is_wrong=bool(mistaken & set(part[2])))
        ]
        self.helper.layout = Layout(*laid, Field("reason"))

    def _shown_part(self, css_id: str, part: Part, *, is_wrong: bool) -> list[Fieldset | HTML]:
        laid = self._with_effect(css_id, part)
        marks = f"{laid.css_class or ''} {self._marks(css_id, is_wrong=is_wrong)}".strip()
        laid.css_class = marks
        if css_id not in words.FOLDED:
            return [laid]
        laid.legend = ""
        is_open = " open" if is_wrong else ""
        return [HTML(FOLD.format(marks, is_open, part[0])), laid, HTML("</details>")]

    def _with_effect(self, css_id: str, part: Part) -> Fieldset:
        laid = self._part(part)
        laid.css_id = css_id
        if css_id in TELLING:
            laid.fields.append(HTML(EFFECT.format(css_id.removeprefix("part-"))))
        return laid

    def _marks(self, css_id: str, *, is_wrong: bool) -> str:
        """By what a part of an outbound queue is hidden; a mistake in it shows it."""
        if not self.is_outbound or is_wrong or css_id not in outbound.DELIVERING:
            return ""
        marks = [outbound.MARKS.get(css_id, ""), "" if self.by_target else outbound.ONLY_DELIVERS]
        return " ".join(mark for mark in marks if mark)

    def _direction(self) -> str:
        """A new queue's direction is settled by the page it is made on."""
        if self.is_new:
            asked = self.data.get("direction") if self.is_bound else self.initial.get("direction")
            self.instance.direction = asked or self.instance.direction
        return str(self.instance.direction)

    def _drop_fields(self) -> None:
        kept = {*names_in(self.all_parts.values()), "reason"}
        if not self.is_new:
            kept -= set(words.ONLY_NEW)
        is_stored_out = self.is_outbound and not self.is_new
        self.has_position = is_stored_out and self.instance.partitions.exists()
        if is_stored_out and not self.has_position:
            kept |= set(words.STARTS)
        for name in [name for name in self.fields if name not in kept]:
            del self.fields[name]

    def _settle_delivery(self) -> None:
        """Without an endpoint the fields of the delivery are shown, and not judged or stored."""
        targets = self.instance.targets if self.is_outbound and not self.is_new else None
        self.by_target = targets is not None and targets.filter(endpoint__isnull=False).exists()
        self.was_delivered = not self.is_new and self.instance.endpoint_id is not None
        self.delivers = self.is_outbound and (self.by_target or bool(self.entered("endpoint")))
        self.goes_on = self.has_position and not (self.was_delivered or self.by_target)
        if self.is_outbound and not self.is_new and not (self.was_delivered or self.by_target):
            # Nobody was asked so far.
            self.initial["start_from"] = ""
        self._unjudged: dict[str, forms.Field] = {}
        if self.is_outbound and self.is_bound and not self.delivers:
            parts = [self.all_parts[css_id] for css_id in outbound.DELIVERING]
            kept = [name for name in names_in(parts) if name in self.fields]
            self._unjudged = {name: self.fields.pop(name) for name in kept}

    def _is_jms(self) -> bool:
        """Return whether the provider, as it is chosen now, is a JMS broker."""
        is_known = self.fields["provider"].disabled or not self.is_bound
        chosen = self.instance.provider_id if is_known else self.data.get("provider")
        if not chosen and not self.is_bound:
            chosen = self.initial.get("provider")
        return selectors.is_at_jms(chosen)

    def _settle_provider(self) -> None:
        """What the chosen provider does not have is shown, and not judged or stored."""
        other = words.KAFKA_ALONE if self.is_jms else words.JMS_ALONE
        popped = [name for name in other if name in self.fields] if self.is_bound else []
        self._unjudged |= {name: self.fields.pop(name) for name in popped}
        self._put_back = [n for n in popped if n in {*words.REFUSED_AT_JMS, *words.JMS_ALONE}]

    def _dress_fields(self) -> None:
        other = (outbound.LABELS, outbound.HELPS) if self.is_outbound else ({}, {})
        labels, helps = {**words.LABELS, **other[0]}, {**words.HELPS, **other[1]}
        for name, field in self.fields.items():
            field.label = labels.get(name, field.label)
            field.help_text = helps.get(name, field.help_text)
        choices: dict[str, Any] = {"direction": words.DIRECTIONS, "backoff": words.BACKOFFS}
        if self.is_outbound:
            choices["kind"] = outbound.KINDS
        for name, field in self.fields.items():
            if isinstance(field.widget, forms.RadioSelect) and name not in choices:
                offered: Any = field.choices  # type: ignore[attr-defined] # radio buttons have them
                choices[name] = [choice for choice in offered if choice[0]]
            if name in choices:
                field.choices = choices[name]  # type: ignore[attr-defined] # as above
        if "start_from" in self.fields:
            self.fields["start_from"].required = False
        if self.is_new:
            self.fields["direction"].widget = forms.HiddenInput()
            self.fields["topic_from"].initial = words.NEW
            self.fields["kind"].initial = self.initial.get("kind")

    def _limit_choices(self) -> None:
        """Only what this person may know of can be chosen; the limited ones have to choose."""
        system = self.fields["system"]
        for name, rows in selectors.choices(self.scope, self.instance).items():
            if name in self.fields:
                self.fields[name].queryset = rows  # type: ignore[attr-defined] # choices are rows
        for name, label in words.EMPTY.items():
            if name in self.fields:
                self.fields[name].empty_label = label  # type: ignore[attr-defined] # as above
        if "second_database" in self.fields:
            self._offer_databases()
        if not self.scope.is_whole:
            system.required = True
            system.empty_label = None  # type: ignore[attr-defined] # as above

    def _offer_databases(self) -> None:
        """Offer the other databases; where there is none, nothing is asked."""
        stored = self.instance.second_database
        offered = sorted({*other_databases(), *filter(None, [stored])})
        choices = [("", "None"), *((alias, alias) for alias in offered)]
        if not offered:
            del self.fields["second_database"]
            return
        self.fields["second_database"].choices = choices  # type: ignore[attr-defined] # as above

    def _close_bound(self) -> None:
        """Close the fields that the stored position refers to, and say why."""
        self.fields["retention_seconds"].help_text = words.RETENTION_KEPT
        # An outbound queue never had a start to choose; there is no way back to that question.
        self.fields["direction"].disabled = True
        self.fields["direction"].help_text = words.DIRECTION_STAYS
        for name, why in registration.staying(self.instance).items():
            field = self.fields[name]
            field.disabled = True
            field.help_text = why

    # what is judged

    def clean_name(self) -> str:
        name = str(self.cleaned_data["name"])
        if name in TAKEN_NAMES:
            raise ValidationError(
                f"“{name}” is reserved for an address of this console: choose another name."
            )
        return name

    def clean_start_time(self) -> datetime | None:
        moment: datetime | None = self.cleaned_data["start_time"]
        if moment is not None and not is_readable(moment):
            raise ValidationError("Enter a time from 0001-01-02 to 9999-12-30, in UTC.")
        return moment

    def clean(self) -> dict[str, Any] | None:
        super().clean()
        self._settle_start()
        given = self.cleaned_data
        is_list = given.get("backoff") == Backoff.LIST.value
        if is_list and not given.get("retry_delays_seconds", True):
            self.add_error("retry_delays_seconds", f"List at least one pause. {EXAMPLE}")
        if given.get("create_error_queue") and given.get("error_queue"):
            self.add_error("create_error_queue", "Choose an error queue or create one, not both.")
        return given

    def _settle_start(self) -> None:
        """A topic that is made now is read from its beginning; where nobody reads it, it ends."""
        if self.is_jms and (self.is_new or "start_from" in self._unjudged):
            self.instance.start_from = Queue.StartFrom.BEGINNING
            return
        if self.is_new and self.is_outbound and not self.delivers:
            self.instance.start_from = Queue.StartFrom.END
        elif self.creates_topic and not self.cleaned_data.get("start_from"):
            self.cleaned_data["start_from"] = Queue.StartFrom.BEGINNING.value
        if self.creates_topic and not self.cleaned_data.get("partitions"):
            self.cleaned_data["partitions"] = 1

    def _post_clean(self) -> None:
        """Django's place for checks of the whole instance; the broker is asked at the end."""
        self.put_back(self._put_back)
        super()._post_clean()  # type: ignore[misc] # not in the stubs
        if self.has_error(NON_FIELD_ERRORS, "unique_together"):
            # Django tells this above the form; it is the topic that has to be another.
            del self.errors[NON_FIELD_ERRORS]
            place = "topic" if "topic" in self.fields else "selector"
            self.add_error(place, TAKEN_ADDRESS if self.is_jms else TAKEN_TOPIC)
        elif {"provider", "topic"}.intersection(self.changed_data) and self.is_foreign:
            self.add_error("topic", FOREIGN_TOPIC)
        if self.errors or not self.asks_broker:
            return
        try:
            queue_setup.judge(self.instance, self.making)
        except ValidationError as mistakes:
            self._add_errors(mistakes)

    @property
    def is_foreign(self) -> bool:
        """Return True when this person may not use the topic; its facts are then hidden."""
        is_made = self.is_bound and self.creates_topic
        return selectors.is_foreign(self.instance, self.scope, is_made=is_made)

    @property
    def creates_topic(self) -> bool:
        is_asked = self.is_new and not self.is_jms
        return is_asked and self.cleaned_data.get("topic_from") == words.NEW

    def _add_errors(self, mistakes: ValidationError) -> None:
        """A mistake in a field that this page does not show stands above the form."""
        for name, sentences in mistakes.message_dict.items():
            place = name if name in self.fields else None
            for sentence in sentences:
                is_general = place is not None or name == NON_FIELD_ERRORS
                self.add_error(place, sentence if is_general else f"{name}: {sentence}")

    def show_problem(self, problem: IntegrationError | ValidationError) -> None:
        if isinstance(problem, ValidationError):
            self._add_errors(problem)
        else:
            self.add_error("topic", str(problem))

    def store(self, author: Author, seen: str | None) -> bool:
        """With its topics, its error queue and the first positions."""
        return queue_setup.store(self.instance, author, self.making, seen=seen)

    @property
    def rows(self) -> Sequence[Model]:
        """The queue, and the error queue that is made along with it."""
        errors = self.making.error_queue
        return [self.instance] if errors is None else [self.instance, errors]

    @property
    def making(self) -> Making:
        """The topic and error queue to be made along with the queue."""
        errors = None
        # Without a provider, which is shown at its field, there is none to make it at.
        if self.cleaned_data.get("create_error_queue") and self.instance.provider_id is not None:
            strict = bool(self.cleaned_data.get("error_queue_strict"))
            errors = queue_setup.error_queue_for(self.instance, strict=strict)
        partitions = self.cleaned_data.get("partitions") if self.creates_topic else None
        return Making(partitions=partitions, error_queue=errors)
