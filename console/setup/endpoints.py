"""Endpoints: where messages of a partner are delivered, and by which handler type."""

import json
from collections.abc import Mapping
from typing import Any, ClassVar, Final
from urllib.parse import urlsplit

import django_filters
import django_tables2 as tables
from crispy_forms.layout import Field, Fieldset, Layout
from django import forms
from django.core.exceptions import ValidationError
from django.http import HttpRequest

from console.forms.setup_form import SetupForm
from console.layout.access import scope_of
from console.setup.columns import Named, Switched
from console.setup.endpoint_fields import fields_of, initial_of, properties_in, secrets_in
from console.setup.endpoint_parts import laid_out
from console.setup.filters import Words
from console.setup.noun import Noun
from integration.endpoints.declared import Properties, declarations
from integration.endpoints.properties import (
    KINDS,
    choices,
    mistakes,
    read_secrets,
    secret_mistakes,
)
from integration.models import Endpoint
from integration.selectors.setup import endpoints as shown
from integration.selectors.setup import nouns

OWN: Final = ("name", "system")
DELIVERY: Final = ("idempotent", "rate_per_second", "max_concurrent", "open_after")
# Where a secret goes: whoever changes it has to know the secret.
DESTINATION: Final = ("host", "port", "username", "sslmode", "ca_certificate", "client_id")
ADDRESSES: Final = ("url", "token_url")
NOT_YOUR_FOLDER: Final = (
    "You may know of some external systems only: choose the folder {own}, or one below it. Other "
    "folders may hold files of other partners; an administrator whom nothing limits can choose one."
)
ENTER_AGAIN: Final = (
    "Enter it again: it would be sent to another place, and a stored secret goes only where it "
    "was stored for."
)


class EndpointForm(SetupForm):
    """Where messages of a partner are delivered; its fields are those of its handler type."""

    # Assembled of the type's own fields, and never entered as a whole.
    properties = forms.JSONField(required=False, widget=forms.HiddenInput)

    class Meta:
        model = Endpoint
        fields = (*OWN, "handler_type", "properties", *DELIVERY)
        widgets: ClassVar[dict[str, Any]] = {"handler_type": forms.HiddenInput}
        labels: ClassVar[dict[str, str]] = {
            "handler_type": "Type",
            "idempotent": "It drops repeats by itself",
            "rate_per_second": "Messages a second, at most",
            "max_concurrent": "Calls at the same time, at most",
            "open_after": "Failures in a row until it counts as down",
        }
        help_texts: ClassVar[dict[str, str]] = {
            "name": "Letters, digits, - and _.",
            "system": "The partner it belongs to. People limited to this system may change it.",
            "idempotent": "What may have arrived is then sent again with the same message id; "
            "otherwise it is held until a person has looked.",
            "rate_per_second": "Empty: no limit. 0.5 is one message in two seconds.",
            "max_concurrent": "Of each queue that delivers here: two queues make twice as many. A "
            "queue makes no more than its lanes, a sequential one makes one.",
            "open_after": "Of different messages. It is then left alone, and one message at a "
            "time tries whether it is back; no retry is spent meanwhile.",
        }

    def __init__(self, *args: Any, **kwargs: Any) -> None:
        super().__init__(*args, **kwargs)
        system: Any = self.fields["system"]
        system.queryset = nouns.systems(self.scope)
        if self.instance.pk is not None:
            self.fields["handler_type"].disabled = True
        self.kind = self._kind()
        self._stored = read_secrets(self.instance.secrets) if self.instance.pk else {}
        if self.kind:
            self.fields.update(fields_of(self.kind, self._stored))
            known = self.initial.get("properties")
            self.initial.update(
                {
                    **initial_of(self.kind, known if isinstance(known, dict) else {}),
                    **{k: v for k, v in self.initial.items() if k in declarations(self._class)},
                }
            )
            repeats = self.fields["idempotent"]
            repeats.help_text = f"{repeats.help_text} {self._class.repeats}"
            if self.instance.pk is None:
                self.initial.setdefault("idempotent", self._class.drops_repeats)

    @property
    def _class(self) -> type[Properties]:
        return KINDS[self.kind]

    @property
    def kind_word(self) -> str:
        return self._class.label if self.kind else ""

    @property
    def kind_about(self) -> str:
        return self._class.about if self.kind else ""

    @property
    def types(self) -> list[tuple[str, str, str]]:
        """What can be chosen: value, word, and what it is for."""
        return [(name, kind.label, kind.about) for name, kind in KINDS.items()]

    def lay_out(self) -> None:
        own = Fieldset("", *(Field(name) for name in OWN), Field("handler_type"))
        typed = laid_out(self.kind, self.fields) if self.kind else []
        delivery = Fieldset("Deliveries", *(Field(name) for name in DELIVERY))
        self.helper.layout = Layout(own, *typed, delivery, Field("reason"))

    def clean(self) -> dict[str, Any] | None:
        super().clean()
        if not self.kind or self._has_typed_errors():
            return self.cleaned_data
        found = properties_in(self.kind, self.cleaned_data)
        secrets = secrets_in(self.kind, self.cleaned_data, self._stored)
        told = mistakes(self.kind, found) or secret_mistakes(self.kind, found, secrets)
        told = told or self._foreign_folder(found)
        for name, sentence in told.items():
            field = self.fields.get(name)
            label = str(field.label or name).rstrip("*") if field is not None else name
            words = f"{label}{sentence.removeprefix(name)}"
            self.add_error(name if field is not None else None, words)
        if self._is_elsewhere(found):
            for name, value in self._stored.items():
                if secrets.get(name) == value and not self.cleaned_data.get(name):
                    self.add_error(name, ENTER_AGAIN)
        self.cleaned_data["properties"] = found
        self.instance.secrets = json.dumps(secrets, sort_keys=True) if secrets else ""
        return self.cleaned_data

    def _foreign_folder(self, found: Mapping[str, Any]) -> dict[str, str]:
        """Partners share one base folder: limited people stay below their system's name."""
        system = self.cleaned_data.get("system")
        if self.kind != "file" or self.scope.is_whole or system is None:
            return {}
        own = str(system)
        is_own = f"{found.get('folder', '')}/".startswith(f"{own}/")
        return {} if is_own else {"folder": NOT_YOUR_FOLDER.format(own=own)}

    def _update_errors(self, errors: ValidationError) -> None:
        """What is wrong was told beside the fields; the row would tell it once more."""
        known = {n: e for n, e in errors.error_dict.items() if n not in {"properties", "secrets"}}
        super()._update_errors(ValidationError(known))  # type: ignore[misc] # Django has no types

    def _kind(self) -> str:
        said = (
            self.instance.handler_type
            if self.instance.pk is not None
            else self.data.get("handler_type") or self.initial.get("handler_type")
        )
        return str(said) if said in KINDS else ""

    def _has_typed_errors(self) -> bool:
        return any(name in self.errors for name in declarations(self._class))

    def _is_elsewhere(self, found: Mapping[str, Any]) -> bool:
        """Whether these values lead a secret to another place than the stored ones did."""
        # The row takes the form's values only after it was judged.
        before = self.instance.properties
        if any(before.get(name) != found.get(name) for name in DESTINATION):
            return True
        return any(_place(before.get(n, "")) != _place(found.get(n, "")) for n in ADDRESSES)


def _place(address: str) -> tuple[str, str]:
    """The host of an address and how it is spoken to."""
    try:
        parts = urlsplit(address)
    except ValueError:
        return ("", address)
    return (parts.scheme, parts.netloc.lower())


class EndpointTable(tables.Table):
    """The list of endpoints."""

    name = Named("endpoint")
    system = tables.Column(linkify=("system", [tables.A("system_id")]))
    handler_type = tables.Column("Type")
    enabled = Switched()

    class Meta:
        fields = ("name", "system", "handler_type", "enabled")


class EndpointFilter(django_filters.FilterSet):
    """By words in the name, and by the type."""

    words = Words("name", "system__name")
    handler_type = django_filters.ChoiceFilter(
        choices=choices, label="Type", empty_label="all types"
    )

    class Meta:
        model = Endpoint
        fields: ClassVar[list[str]] = []


def _more(request: HttpRequest, endpoint: Endpoint) -> Mapping[str, object]:
    return shown.about(endpoint, scope_of(request.user))


ENDPOINTS = Noun(
    one="endpoint",
    many="endpoints",
    word="endpoint",
    title="Endpoints",
    about="Where messages of a partner are delivered: over HTTP, as files, into another database, "
    "or by a function of your own. A queue, or a target of a publish channel, names it.",
    model=Endpoint,
    form=EndpointForm,
    table=EndpointTable,
    filters=EndpointFilter,
    rows=nouns.endpoints,
    uses=shown.uses_of_endpoint,
    stops=shown.stopped_with_endpoint,
    more=_more,
    card_page="console/setup/endpoint.html",
    form_page="console/setup/endpoint_form.html",
)
