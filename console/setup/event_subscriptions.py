"""Subscriptions to events: which kinds, of which systems, are published by which channel."""

from collections.abc import Mapping
from typing import Any, ClassVar, Final

import django_tables2 as tables
from django import forms
from django.http import HttpRequest

from console.forms.setup_form import SetupForm, names_in
from console.layout.access import scope_of
from console.setup.lists import Named, Switched, SwitchFilter, filters_by
from console.setup.noun import Noun
from integration.models import EventKind, EventSubscription, ExternalSystem
from integration.selectors.setup import foreign, nouns

PARTS: Final = (
    ("", "", ("name", "description", "enabled")),
    ("What is published", "", ("kinds", "system")),
    ("Where", "", ("channel",)),
)


class EventSubscriptionForm(SetupForm):
    """A subscription."""

    parts = PARTS
    kinds = forms.MultipleChoiceField(
        choices=[(kind.value, f"{kind.label} ({kind.value})") for kind in EventKind],
        widget=forms.CheckboxSelectMultiple,
        label="Kinds of events",
    )

    class Meta:
        model = EventSubscription
        fields = names_in(PARTS)
        labels: ClassVar[dict[str, str]] = {
            "enabled": "Switched on",
            "system": "External system",
        }
        help_texts: ClassVar[dict[str, str]] = {
            "name": "Letters, digits, - and _.",
            "description": "Who hears of it, in a few words.",
            "enabled": "Off: nothing is published, and events that wait are dropped.",
            "system": "Only events of its queues and of its own set-up.",
            "channel": "Its targets get the events. What happens to their queues causes no events.",
        }

    def __init__(self, *args: Any, **kwargs: Any) -> None:
        super().__init__(*args, **kwargs)
        field: Any = self.fields["system"]
        field.empty_label = "All"


class EventSubscriptionTable(tables.Table):
    """The list of subscriptions."""

    name = Named("event-subscription")
    enabled = Switched()
    kinds = tables.Column("Kinds of events", orderable=False, attrs={"td": {"class": "wide long"}})
    system = tables.Column("External system", empty_values=())
    channel = tables.Column()
    description = tables.Column()

    def render_kinds(self, value: list[str]) -> str:
        return ", ".join(value)

    def render_system(self, value: ExternalSystem | None) -> str:
        return _system(value, self.request)


def _system(system: ExternalSystem | None, request: HttpRequest) -> str:
    return "all" if system is None else foreign.name_of(system, scope_of(request.user))


def _more(request: HttpRequest, row: EventSubscription) -> Mapping[str, object]:
    return {"system": _system(row.system, request)}


def _stopped(subscription: EventSubscription) -> str:
    return f"every event of {subscription}. Events that wait for it are dropped."


SUBSCRIPTIONS: Final = Noun(
    one="event-subscription",
    title="Event subscriptions",
    about="Which events other systems are told of through a publish channel: a failure on hold, "
    "a blocked queue, a change. Events contain no payloads, keys or texts.",
    form=EventSubscriptionForm,
    table=EventSubscriptionTable,
    filters=filters_by("name", "description", enabled=SwitchFilter()),
    rows=nouns.event_subscriptions,
    stops=_stopped,
    more=_more,
    is_shared=True,
)
