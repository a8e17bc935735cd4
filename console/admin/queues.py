"""Queues: what people want of a topic."""

from typing import Any, Final

from django import forms
from django.contrib import admin, messages
from django.core.exceptions import NON_FIELD_ERRORS, ValidationError
from django.http import HttpRequest

from integration import registration
from integration.errors import IntegrationError
from integration.models import Queue

FIELDSETS: Final[Any] = (
    (
        None,
        {"fields": ["name", "description", "provider", "topic", "direction", "kind"]},
    ),
    ("Messages", {"fields": ["system", "default_service", "dedupe"]}),
    (
        "Where reading begins",
        {
            "fields": ["start_from", "start_time", "start_group"],
            "description": "Chosen once; afterwards the position is the truth.",
        },
    ),
    (
        "Retries",
        {
            "fields": [
                "max_retries",
                "unlimited_retries",
                "backoff",
                "retry_delay_seconds",
                "retry_factor",
                "retry_delays_seconds",
                "retry_cap_seconds",
                "retry_jitter",
                "retry_total_seconds",
                "carrier",
            ]
        },
    ),
    (
        "Failures",
        {
            "fields": [
                "error_queue",
                "is_error_queue",
                "strict_order",
                "on_head_expired",
                "on_gap",
                "max_open_errors",
                "brake_after",
                "crash_limit",
                "retention_seconds",
            ]
        },
    ),
    (
        "Pace",
        {
            "fields": ["batch_size", "stay_seconds", "handler_timeout_seconds"],
            "classes": ["collapse"],
        },
    ),
)
FIELDS: Final = [name for _, part in FIELDSETS for name in part["fields"]]


class QueueForm(forms.ModelForm):  # type: ignore[type-arg] # Meta names the model
    """Where reading begins has no default: it is chosen by a person, once."""

    class Meta:
        model = Queue
        fields = FIELDS
        widgets = {
            "start_from": forms.RadioSelect(),
            "kind": forms.RadioSelect(),
            "retry_delays_seconds": forms.TextInput(),
        }

    def __init__(self, *args: Any, **kwargs: Any) -> None:  # noqa: ANN401 - Django's signature
        super().__init__(*args, **kwargs)
        for name in ("start_from", "kind"):
            field = self.fields.get(name)
            if isinstance(field, forms.ChoiceField):
                offered: Any = field.choices
                field.choices = [choice for choice in offered if choice[0]]
        if "start_from" in self.fields:
            self.fields["start_from"].help_text = (
                "Leave it open and save: the page then tells how many messages each choice reads "
                "and skips."
            )

    def _post_clean(self) -> None:
        """Django's place for checks of the whole instance; the broker is asked at the end."""
        super()._post_clean()  # type: ignore[misc] # not in the stubs
        if set(self.errors) == {"start_from"}:
            self._tell_choices()
        if self.errors:
            return
        try:
            registration.check(self.instance)
        except ValidationError as mistakes:
            self._tell(mistakes)

    def _tell(self, mistakes: ValidationError) -> None:
        """A mistake in a field that this page does not show is told above the form."""
        for name, sentences in mistakes.message_dict.items():
            place = name if name in self.fields else None
            for sentence in sentences:
                text = sentence if place or name == NON_FIELD_ERRORS else f"{name}: {sentence}"
                self.add_error(place, text)

    def _tell_choices(self) -> None:
        try:
            choices = registration.preview_start(self.instance)
        except IntegrationError as problem:
            self.add_error(None, str(problem))
            return
        labels = dict(Queue.StartFrom.choices)
        for choice in choices:
            label = labels[choice.start_from]
            text = f"{label}: reads {choice.reads:,} messages, skips {choice.skips:,} (at most)."
            self.add_error("start_from", text)


@admin.register(Queue)
class QueueAdmin(admin.ModelAdmin):  # type: ignore[type-arg] # not subscriptable at run time
    """Queues."""

    form = QueueForm
    list_display = ("name", "topic", "provider", "direction", "kind", "enabled", "paused")
    list_filter = ("kind", "direction", "enabled", "paused", "provider")
    list_select_related = ("provider",)
    search_fields = ("name", "topic", "description")
    fieldsets = FIELDSETS

    def get_readonly_fields(self, request: HttpRequest, obj: Queue | None = None) -> Any:  # noqa: ANN401, ARG002 - Django's signature
        """Switches are on the queue's own page, where they are recorded with a reason."""
        return ("start_from", "start_time", "start_group") if obj is not None else ()

    def save_related(self, request: HttpRequest, form: Any, formsets: Any, change: bool) -> None:  # noqa: ANN401 - Django's signature
        """Resolve where reading begins, now that everything is stored."""
        super().save_related(request, form, formsets, change)
        if form.instance.direction != Queue.Direction.INBOUND:
            return
        try:
            registration.register(form.instance)
        except (IntegrationError, ValidationError) as problem:
            messages.warning(
                request,
                f"Saved, but where reading begins could not be resolved: {problem} "
                "Save it again, or let the first run try.",
            )
