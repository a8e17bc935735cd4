"""Targets of publish channels: which partner gets a message, by which queue and endpoint."""

from collections.abc import Mapping
from typing import Any, ClassVar, Final

import django_tables2 as tables
from django import forms
from django.http import HttpRequest

from console.forms.setup_form import SetupForm, names_in
from console.setup.lists import Named, Switched, SwitchFilter, filters_by
from console.setup.noun import Noun
from integration.actions import queue_setup
from integration.actions.configuration import Author
from integration.models import ChannelTarget
from integration.selectors.setup import channels as selectors
from integration.selectors.setup import nouns

FITS = "Only those that fit the external system are offered."


class QueueChoice(forms.ModelChoiceField):  # type: ignore[type-arg] # its model is its queryset's
    """Outbound queues, each with what it keeps and where it ends."""

    def label_from_instance(self, obj: Any) -> str:
        kind = "sequential" if obj.is_sequential else "continuous"
        end = f", to {obj.endpoint}" if obj.endpoint else ", read by the partner"
        return f"{obj.name} ({kind}{end})"


class EndpointChoice(forms.ModelChoiceField):  # type: ignore[type-arg] # as above
    """Endpoints with their type."""

    def label_from_instance(self, obj: Any) -> str:
        return f"{obj.name} ({obj.get_endpoint_type_display()}, {obj.system})"


class ProviderSelect(forms.Select):
    """Providers; each option says of what kind it is, by which the style sheet hides fields."""

    def create_option(self, name: str, value: Any, *args: Any, **kwargs: Any) -> dict[str, Any]:
        option = super().create_option(name, value, *args, **kwargs)
        provider = getattr(value, "instance", None)
        if provider is not None:
            option["attrs"]["data-kind"] = provider.kind
        return option


PARTS: Final = (
    ("", "", ("channel", "system", "enabled")),
    ("Path of its messages", "", ("queue", "endpoint")),
)


class TargetForm(SetupForm):
    """One partner of a channel; which channel and partner is decided once."""

    parts = PARTS
    # What may be chosen depends on the system.
    queue = QueueChoice(None, empty_label="Choose an outbound queue")
    endpoint = EndpointChoice(None, required=False, empty_label="The queue's own, if it has one")

    class Meta:
        model = ChannelTarget
        fields = names_in(PARTS)
        labels: ClassVar[dict[str, str]] = {
            "channel": "Channel",
            "system": "External system",
            "enabled": "Switched on",
        }
        help_texts: ClassVar[dict[str, str]] = {
            "channel": "The message type it gets.",
            "system": "The partner. A channel has one target for each.",
            "enabled": "Off: it gets nothing that is published from then on, not even later. "
            "Switching the external system off keeps its messages instead.",
        }
        error_messages: ClassVar[dict[str, dict[str, str]]] = {
            "__all__": {
                "unique_together": "This channel already has a target for this external system."
            }
        }

    def __init__(self, *args: Any, **kwargs: Any) -> None:
        super().__init__(*args, **kwargs)
        channel: Any = self.fields["channel"]
        channel.queryset = selectors.channels()
        system: Any = self.fields["system"]
        system.queryset = nouns.systems(self.scope)
        if self.instance.pk:
            for name in ("channel", "system"):
                self.fields[name].disabled = True
                self.fields[
                    name
                ].help_text = "Fixed when the target was added; add another target instead."
        self._offer(nouns.number_in(self.instance.system_id or self.entered("system")))
        if not self.instance.pk:
            self._follow_system()

    def store(self, author: Author, seen: str | None) -> bool:
        """With the positions of a queue that sends from now on."""
        return queue_setup.save_target(self.instance, author, seen=seen)

    def _offer(self, system: int | None) -> None:
        """Only queues and endpoints that fit, and what the chosen ones come to."""
        queue: Any = self.fields["queue"]
        endpoint: Any = self.fields["endpoint"]
        queue.queryset = selectors.queues_for(self.scope, system, besides=self.instance.queue_id)
        endpoint.queryset = selectors.endpoints_for(self.scope, system)
        queue.help_text = (
            f"{FITS} A sequential queue keeps the order in which transactions commit. Publish to "
            "it late in a transaction, because others wait for its end."
        )
        way = selectors.way_of(
            nouns.chosen(queue.queryset, self.entered("queue")),
            nouns.chosen(endpoint.queryset, self.entered("endpoint")),
        )
        endpoint.help_text = (
            f"{FITS} Empty: the queue's own endpoint; without any, the partner reads the topic. "
            f"{way}"
        ).strip()

    def _follow_system(self) -> None:
        """Another system: the form comes again with what fits it."""
        self.fields["system"].widget.attrs.update(
            {
                "hx-get": "",
                "hx-trigger": "change",
                "hx-include": "#setup",
                "hx-params": "channel,system",
                "hx-target": "#setup",
                "hx-select": "#setup",
                "hx-swap": "outerHTML",
            }
        )


class TargetTable(tables.Table):
    """The list of targets."""

    channel = Named("target", "Channel")
    system = tables.Column("External system", linkify=("system", [tables.A("system_id")]))
    enabled = Switched()
    queue = tables.Column(linkify=("queue", [tables.A("queue__name")]))
    endpoint = tables.Column(linkify=("endpoint", [tables.A("endpoint_id")]))


def _more(_request: HttpRequest, target: ChannelTarget) -> Mapping[str, object]:
    return {"way": selectors.way_of(target.queue, target.endpoint)}


TARGETS = Noun(
    one="target",
    title="Targets of channels",
    about="A partner of a publish channel: the queue that its messages take, and the endpoint that "
    "they are delivered to.",
    form=TargetForm,
    table=TargetTable,
    filters=filters_by("channel__name", "system__name", "queue__name", enabled=SwitchFilter()),
    rows=selectors.targets,
    stops=selectors.stopped_with_target,
    # A target gets all that is published to its channel, whoever's it is.
    is_founding=True,
    more=_more,
    label="",
    below="channels/",
)
