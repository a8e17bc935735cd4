"""Endpoints: where messages of a partner are delivered, and how: their endpoint types."""

import json
from collections.abc import Mapping
from typing import Any, ClassVar, Final

import django_filters
import django_tables2 as tables
from crispy_forms.layout import Fieldset, Layout
from django import forms
from django.contrib import messages
from django.core.exceptions import ValidationError
from django.http import HttpRequest, HttpResponse

from console.forms.json_field import JsonField
from console.forms.setup_form import SetupForm
from console.layout.access import Right, needs
from console.layout.answers import actor_of, see
from console.setup.endpoint_fields import (
    fields_of,
    initial_of,
    parts_of,
    properties_in,
    secrets_in,
)
from console.setup.lists import Named, Switched, filters_by
from console.setup.noun import Noun
from console.setup.pages import known_row, refuse, show_card
from integration.actions import endpoint_test
from integration.actions.configuration import Author
from integration.actions.endpoint_test import Sample
from integration.actions.kept_secrets import leads_elsewhere
from integration.endpoints.declared import Properties, declarations
from integration.endpoints.properties import (
    ENDPOINT_TYPES,
    choices,
    mistakes,
    read_secrets,
    secret_mistakes,
)
from integration.models import Endpoint, EndpointTest
from integration.selectors.setup import endpoints as shown
from integration.selectors.setup import nouns

OWN: Final = ("name", "system")
TEST_CHARACTERS: Final = 200
TEST_REASON: Final = "Test of the endpoint"
DELIVERY: Final = ("idempotent", "rate_per_second", "max_concurrent", "open_after")
NOT_YOUR_FOLDER: Final = (
    "Your account is limited to some external systems: choose the folder {own}, or one below it. "
    "Other folders may contain files of other partners; only an administrator without that limit "
    "can choose one."
)
ENTER_AGAIN: Final = (
    "Enter it again: the destination has changed, and a stored secret is only ever sent to the "
    "destination it was stored for."
)


class EndpointForm(SetupForm):
    """The form of an endpoint; its fields are those of its endpoint type."""

    endpoint_types = ENDPOINT_TYPES
    # Assembled of the type's own fields, and never entered as a whole.
    properties = JsonField(required=False, widget=forms.HiddenInput)

    class Meta:
        model = Endpoint
        fields = (*OWN, "endpoint_type", "properties", *DELIVERY)
        widgets: ClassVar[dict[str, Any]] = {"endpoint_type": forms.HiddenInput}
        labels: ClassVar[dict[str, str]] = {
            "endpoint_type": "Type",
            "idempotent": "Drops repeats",
            "rate_per_second": "Messages a second, at most",
            "max_concurrent": "Calls at the same time, at most",
            "open_after": "Counts as down after so many failures in a row",
        }
        help_texts: ClassVar[dict[str, str]] = {
            "name": "Letters, digits, - and _.",
            "system": "The partner it belongs to. People limited to this system may change it.",
            "idempotent": "On: a message that may have arrived is sent again with the same message "
            "id. Off: it is put on hold until a person has checked.",
            "rate_per_second": "Empty: no limit. 0.5 is one message in two seconds.",
            "max_concurrent": "For each queue that delivers here: two queues make twice as many. A "
            "queue makes no more calls than its concurrency, a sequential one makes one.",
            "open_after": "Failures of different messages count. It then gets no messages, except "
            "one at a time that tests whether it is back; no retry is spent meanwhile.",
        }

    def __init__(self, *args: Any, **kwargs: Any) -> None:
        super().__init__(*args, **kwargs)
        system: Any = self.fields["system"]
        system.queryset = nouns.systems(self.scope)
        if self.instance.pk is not None:
            self.fields["endpoint_type"].disabled = True
        is_stored = self.instance.pk is not None
        said = self.instance.endpoint_type if is_stored else self.entered("endpoint_type")
        self.endpoint_type = str(said)
        self.properties_class = ENDPOINT_TYPES.get(self.endpoint_type)
        self._stored = read_secrets(self.instance.secrets) if self.instance.pk else {}
        if self.properties_class is not None:
            self._add_typed(self.properties_class)

    def _add_typed(self, properties_class: type[Properties]) -> None:
        """The fields of its type, with what is stored or said by the address."""
        self.fields.update(fields_of(properties_class, self._stored))
        known = self.initial.get("properties")
        of_type = initial_of(properties_class, known if isinstance(known, dict) else {})
        self.initial = {**of_type, **self.initial}
        if properties_class.forwards:
            # No call is made: there is nothing to limit, and nothing may have arrived.
            for name in DELIVERY:
                del self.fields[name]
            return
        repeats = self.fields["idempotent"]
        repeats.help_text = f"{repeats.help_text} {properties_class.repeats}"
        if self.instance.pk is None:
            self.initial.setdefault("idempotent", properties_class.drops_repeats)

    def lay_out(self) -> None:
        own = Fieldset("", *OWN, "endpoint_type")
        typed = (
            [] if self.properties_class is None else parts_of(self.properties_class, self.fields)
        )
        calls = [Fieldset("Deliveries", *DELIVERY)] if DELIVERY[0] in self.fields else []
        self.helper.layout = Layout(own, *typed, *calls, "reason")

    def clean(self) -> dict[str, Any] | None:
        super().clean()
        if self.properties_class is None or any(
            name in self.errors for name in declarations(self.properties_class)
        ):
            return self.cleaned_data
        properties = properties_in(self.properties_class, self.cleaned_data)
        secrets = secrets_in(self.properties_class, self.cleaned_data, self._stored)
        wrong = mistakes(self.endpoint_type, properties) or secret_mistakes(
            self.endpoint_type, properties, secrets
        )
        wrong = wrong or self._foreign_folder(properties) or self._foreign_topic(properties)
        for name, sentence in wrong.items():
            field = self.fields.get(name)
            label = str(field.label or name).rstrip("*") if field is not None else name
            words = f"{label}{sentence.removeprefix(name)}"
            self.add_error(name if field is not None else None, words)
        # The row takes the form's values only after it was judged.
        if leads_elsewhere(self.endpoint_type, self.instance.properties, properties):
            for name, value in self._stored.items():
                if secrets.get(name) == value and not self.cleaned_data.get(name):
                    self.add_error(name, ENTER_AGAIN)
        self.cleaned_data["properties"] = properties
        self.instance.secrets = json.dumps(secrets, sort_keys=True) if secrets else ""
        return self.cleaned_data

    def _foreign_folder(self, properties: Mapping[str, Any]) -> dict[str, str]:
        """Partners share one base folder: limited people stay below their system's name."""
        system = self.cleaned_data.get("system")
        name = ENDPOINT_TYPES[self.endpoint_type].shared_folder
        if not name or self.scope.is_whole or system is None:
            return {}
        own = str(system)
        is_own = f"{properties.get(name, '')}/".startswith(f"{own}/")
        return {} if is_own else {name: NOT_YOUR_FOLDER.format(own=own)}

    def _foreign_topic(self, properties: Mapping[str, Any]) -> dict[str, str]:
        """Limited people forward to topics of their own systems only."""
        if not ENDPOINT_TYPES[self.endpoint_type].forwards:
            return {}
        there = str(properties.get("provider", "")), str(properties.get("topic", ""))
        return shown.topic_mistakes(*there, self.cleaned_data.get("system"), self.scope)

    def _update_errors(self, errors: ValidationError) -> None:
        """Leave out what the row says of its properties: their fields say it already."""
        known = {n: e for n, e in errors.error_dict.items() if n not in {"properties", "secrets"}}
        super()._update_errors(ValidationError(known))  # type: ignore[misc] # Django has no types


class EndpointTable(tables.Table):
    """The list of endpoints."""

    name = Named("endpoint")
    system = tables.Column(linkify=("system", [tables.A("system_id")]))
    endpoint_type = tables.Column("Type")
    enabled = Switched()


def _more(_request: HttpRequest, endpoint: Endpoint) -> Mapping[str, object]:
    return shown.about(endpoint)


ENDPOINTS = Noun(
    one="endpoint",
    title="Endpoints",
    about="Where messages of a partner are delivered: over HTTP, as files, into another database, "
    "to your own function, to a JMS broker, or to another topic. A queue, or a target of a publish "
    "channel, refers to it.",
    form=EndpointForm,
    table=EndpointTable,
    filters=filters_by(
        "name",
        "system__name",
        endpoint_type=django_filters.ChoiceFilter(
            choices=choices, label="Type", empty_label="all types"
        ),
    ),
    rows=nouns.endpoints,
    uses=shown.uses_of_endpoint,
    stops=shown.stopped_with_endpoint,
    more=_more,
)


@needs(Right.VIEW, Right.CONFIGURE)
def run_test(request: HttpRequest, number: int) -> HttpResponse:
    """Test it now; its page again, with what was found on top of its history.

    `kind=sample` sends `body`; anything else connects only.
    """
    row = known_row(request, ENDPOINTS, number)
    refuse(ENDPOINTS.hindrance(request.user))
    if request.method != "POST":
        return see("endpoint", number)
    author = Author(actor_of(request), TEST_REASON)
    if request.POST.get("kind") != "sample":
        _show_result(request, endpoint_test.run_test(row, author, None))
        return see("endpoint", number)
    sample = Sample(
        body=request.POST.get("body", ""),
        interface=request.POST.get("interface", "").strip()[:TEST_CHARACTERS] or "TEST",
        key=request.POST.get("key", "").strip()[:TEST_CHARACTERS] or "TEST",
    )
    if mistake := endpoint_test.mistake_in(sample):
        return show_card(request, ENDPOINTS, row, status=422, sample=sample, sample_mistake=mistake)
    _show_result(request, endpoint_test.run_test(row, author, sample))
    return see("endpoint", number)


def _show_result(request: HttpRequest, done: EndpointTest) -> None:
    """The page shows all of it; the sentence above is for those who do not scroll."""
    if done.is_good:
        messages.success(request, f"{done.get_kind_display()}: good. {done.text}")
    else:
        messages.warning(request, f"{done.get_kind_display()}: {done.text}")
