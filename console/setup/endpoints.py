"""Endpoints: where messages of a partner will be delivered. A record only, so far."""

from typing import Any, ClassVar

import django_filters
import django_tables2 as tables
from django import forms
from django.core.exceptions import ValidationError

from console.setup.columns import Named
from console.setup.filters import Words
from console.setup.forms import SetupForm
from console.setup.noun import Noun
from integration import endpoint_properties
from integration.models import Endpoint
from integration.selectors.setup import nouns

ROWS = 6


class PropertyLines(forms.CharField):
    """Properties as lines of `name = value`."""

    widget = forms.Textarea(attrs={"rows": ROWS, "class": "lines", "spellcheck": "false"})

    def prepare_value(self, value: Any) -> Any:  # noqa: ANN401 - Django's signature
        return endpoint_properties.to_lines(value) if isinstance(value, dict) else value

    def to_python(self, value: Any) -> Any:  # noqa: ANN401 - Django's signature
        try:
            return endpoint_properties.from_lines(super().to_python(value) or "")
        except ValueError as problem:
            raise ValidationError(str(problem)) from problem

    def has_changed(self, initial: Any, data: Any) -> bool:  # noqa: ANN401 - Django's signature
        return bool(self.prepare_value(initial) != data)


class EndpointForm(SetupForm):
    """Where messages of a partner will be delivered."""

    parts = (
        ("", "", ("name", "system", "handler_type")),
        (
            "How it is reached",
            (
                "Nothing delivers to endpoints yet: outgoing messages end in their Kafka topic. "
                "What is entered here is checked and kept for later."
            ),
            ("properties",),
        ),
    )
    properties = PropertyLines(
        required=False,
        help_text="One name = value a line. HTTP needs url, and knows method and timeout_seconds; "
        "File needs folder, and knows file_name; Database needs database, and knows table; Python "
        "function needs function. No secrets: everybody who sees this page sees them.",
    )

    class Meta:
        model = Endpoint
        fields = ("name", "system", "handler_type", "properties")
        help_texts: ClassVar[dict[str, str]] = {
            "name": "Letters, digits, - and _.",
            "system": "The partner it belongs to. People limited to this system may change it.",
            "handler_type": "How a delivery will happen; it decides which properties are needed.",
        }

    def __init__(self, *args: Any, **kwargs: Any) -> None:  # noqa: ANN401 - Django's signature
        super().__init__(*args, **kwargs)
        system: Any = self.fields["system"]
        system.queryset = nouns.systems(self.scope)


class EndpointTable(tables.Table):
    """The list of endpoints."""

    name = Named("endpoint")
    system = tables.Column(linkify=("system", [tables.A("system_id")]))
    handler_type = tables.Column("Type")

    class Meta:
        fields = ("name", "system", "handler_type")


class EndpointFilter(django_filters.FilterSet):
    """By words in the name, and by the type."""

    words = Words("name", "system__name")
    handler_type = django_filters.ChoiceFilter(
        choices=Endpoint.HandlerType.choices, label="Type", empty_label="all types"
    )

    class Meta:
        model = Endpoint
        fields: ClassVar[list[str]] = []


ENDPOINTS = Noun(
    one="endpoint",
    many="endpoints",
    word="endpoint",
    title="Endpoints",
    about="Where messages of a partner will be delivered. Nothing delivers to endpoints yet: what "
    "is entered is checked and kept for later.",
    model=Endpoint,
    form=EndpointForm,
    table=EndpointTable,
    filters=EndpointFilter,
    rows=nouns.endpoints,
    card_page="console/setup/endpoint.html",
)
