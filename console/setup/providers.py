"""Providers: Kafka clusters and JMS brokers, how to reach them; what is secret is write-only."""

from collections.abc import Mapping
from typing import Any, ClassVar, Final

import django_tables2 as tables
from django import forms
from django.contrib import messages
from django.http import HttpRequest, HttpResponse
from django.views.decorators.http import require_POST

from console.forms.json_field import JsonField
from console.forms.secrets import KeepsSecrets, SecretInput, SecretText
from console.forms.setup_form import ONLY_AT_KAFKA, names_in
from console.layout.access import Right, needs, scope_of
from console.layout.answers import see
from console.setup.lists import Counted, Named, filters_by
from console.setup.noun import Noun
from console.setup.pages import (
    UNEXPLAINED,
    author_of,
    known_row,
    refuse,
    seen_in,
    show_card,
    show_form,
)
from integration.actions import schema_registry
from integration.actions.kept_secrets import LEADING, REGISTRY_SECRETS, redirected_of_provider
from integration.counting import so_many
from integration.models import Provider
from integration.policy import client_properties
from integration.policy.client_properties import PRODUCER
from integration.selectors.outbox import shards
from integration.selectors.setup import examination, nouns, registry

TOPIC_CHARACTERS: Final = 249
OFFERED: Final = {
    "security_protocol": Provider.Security,
    "sasl_mechanism": Provider.Mechanism,
}
ENTER_AGAIN: Final = (
    "Enter it again: the addresses, the protocol or the properties have changed, and a stored "
    "secret is only ever sent where it was stored for."
)
CONNECTION: Final = LEADING | {"__all__"}
ENTER_FOR_REGISTRY: Final = (
    "Enter it again: the registry's address has changed, and a stored secret is only ever sent "
    "where it was stored for."
)
PARTS: Final = (
    ("", "", ("kind", "name", "bootstrap_servers", "security_protocol")),
    (
        "Login",
        "Used if the protocol begins with SASL.",
        ("sasl_mechanism", "username", "password"),
    ),
    (
        "Certificates (TLS)",
        "Used if the protocol ends with SSL.",
        ("ca_certificate", "client_certificate", "client_key"),
    ),
    ("Further client properties", "", ("properties",)),
    ("Relay", "", ("shards",)),
    (
        "Schema registry",
        (
            "For messages in Avro, JSON Schema or Protobuf. Leave the address empty if there is "
            "none. Its login and its certificates are its own, not the cluster's."
        ),
        (
            *("registry_url", "registry_username", "registry_password"),
            *("registry_ca_certificate", "registry_client_certificate", "registry_client_key"),
        ),
    ),
)


# What a JMS broker does not have. The style sheet hides it; without that all of it is seen.
ONLY_KAFKA: Final = frozenset({"sasl_mechanism", "properties", "shards", *PARTS[-1][2]})
KIND_STAYS: Final = "Queues refer to it as what it is. For another kind, add another provider."


class ProviderForm(KeepsSecrets):
    """The form of a provider. What only Kafka has is not judged, and not kept, of a JMS broker."""

    secret_fields = ("password", "client_key", "registry_password", "registry_client_key")
    parts = PARTS
    marks = dict.fromkeys(ONLY_KAFKA, ONLY_AT_KAFKA)

    class Meta:
        model = Provider
        fields = names_in(PARTS)
        labels: ClassVar[dict[str, str]] = {
            "kind": "What it is",
            "bootstrap_servers": "Servers",
            "sasl_mechanism": "SASL mechanism",
            "ca_certificate": "CA certificates",
            "client_certificate": "Our certificate",
            "client_key": "Our private key",
            "properties": "Properties",
            "shards": "Shards of the relay",
            "registry_url": "Address of the registry",
            "registry_username": "User at the registry",
            "registry_password": "Password at the registry",
            "registry_ca_certificate": "The registry's CA certificates",
            "registry_client_certificate": "Our certificate for the registry",
            "registry_client_key": "Our private key for the registry",
        }
        field_classes: ClassVar[dict[str, Any]] = {"properties": JsonField}
        help_texts: ClassVar[dict[str, str]] = {
            "name": "Letters, digits, - and _. It is part of the ids of messages that have no id "
            "of their own, so do not change it later.",
            "kind": "Queues of a cluster read and write topics; those of a JMS broker, such as "
            "Artemis, read its queues and topics. It stays once queues refer to it.",
            "bootstrap_servers": "host:port, several separated by commas. Kafka: bootstrap "
            "servers; one that answers is enough to find the others, two or three survive the loss "
            "of one. JMS broker: the first that answers is taken; without a port 5672, with TLS "
            "5671.",
            "security_protocol": "What the brokers' listener speaks, in Kafka's words: SSL stands "
            "for TLS, SASL for a login. PLAINTEXT and SASL_PLAINTEXT send everything unencrypted.",
            "sasl_mechanism": "The one that the cluster expects.",
            "username": "Kafka: the principal that gets the rights is “User:” followed by this "
            "name; with OAUTHBEARER it is the id of the client at the issuer of the tokens. JMS "
            "broker: a user that may consume. Only SASL_PLAINTEXT and SASL_SSL send it.",
            "password": "Stored encrypted; never shown. With OAUTHBEARER: the client's secret.",
            "ca_certificate": "PEM. Empty: the authorities that this machine already trusts.",
            "client_certificate": "PEM; only if the brokers ask for one. Its subject is then "
            "the principal that gets the rights.",
            "client_key": "PEM; stored encrypted, never shown.",
            "properties": "A JSON object of properties of the Kafka client, for example "
            '{"client.id": "plant-1", "linger.ms": 20}. Sluice itself sets those that its delivery '
            "guarantees depend on (acks, idempotence, partitioner, isolation, offsets); they are "
            "refused here, with the reason.",
            "shards": "How many relays send its outgoing messages side by side, each in Kafka "
            "transactions of its own: 1 to 16. Topics are divided among them by name, so that one "
            "topic is always sent by one shard, in its order. 1 is enough unless the messages of "
            "one topic wait behind those of others; each shard needs three database sessions and "
            "a connection to Kafka. It may be changed at any time: relays hand topics over between "
            "two batches, within seconds.",
            "registry_url": "The root of its Confluent-compatible API, for example "
            "https://registry.example:8081, or of Apicurio …/apis/ccompat/v7.",
            "registry_username": "Empty: without a login.",
            "registry_ca_certificate": "PEM. Empty: the authorities that this machine trusts.",
            "registry_client_certificate": "PEM; only if the registry asks for one.",
        }
        widgets: ClassVar[dict[str, Any]] = {
            "kind": forms.RadioSelect(),
            "bootstrap_servers": forms.TextInput(attrs={"spellcheck": "false"}),
            "password": SecretInput(),
            "ca_certificate": forms.Textarea(attrs={"rows": 3, "class": "lines"}),
            "client_certificate": forms.Textarea(attrs={"rows": 3, "class": "lines"}),
            "client_key": SecretText(attrs={"rows": 3, "class": "lines"}),
            "properties": forms.Textarea(attrs={"rows": 3, "class": "lines"}),
            "registry_url": forms.TextInput(attrs={"spellcheck": "false"}),
            "registry_password": SecretInput(),
            "registry_ca_certificate": forms.Textarea(attrs={"rows": 3, "class": "lines"}),
            "registry_client_certificate": forms.Textarea(attrs={"rows": 3, "class": "lines"}),
            "registry_client_key": SecretText(attrs={"rows": 3, "class": "lines"}),
        }

    def __init__(self, *args: Any, **kwargs: Any) -> None:
        super().__init__(*args, **kwargs)
        for name, none in (("security_protocol", []), ("sasl_mechanism", [("", "none")])):
            field = self.fields[name]
            assert isinstance(field, forms.ChoiceField)  # noqa: S101 - by the model
            # Kafka's own words, as its documentation spells them.
            values = [str(value) for value in OFFERED[name].values]
            field.choices = [*none, *((value, value) for value in values)]
        self._settle_kind()

    def _settle_kind(self) -> None:
        """Show all of the form, and judge only what this kind has."""
        field = self.fields["kind"]
        # Whoever says nothing means what it is.
        field.required = False
        if self.instance.pk is not None and self.instance.queues.exists():
            field.disabled, field.help_text = True, KIND_STAYS
        said = self.instance.kind if field.disabled else self.entered("kind")
        is_jms = (said or self.instance.kind) == Provider.Kind.JMS
        names = [n for n in self.fields if n.removeprefix("remove_") in ONLY_KAFKA]
        self._unjudged = {}
        if is_jms and self.is_bound:
            self._unjudged = {name: self.fields.pop(name) for name in names}

    def lay_out(self) -> None:
        self.fields.update(self._unjudged)
        super().lay_out()

    def _post_clean(self) -> None:
        self.put_back(ONLY_KAFKA.intersection(self._unjudged))
        super()._post_clean()  # type: ignore[misc] # not in the stubs

    def clean(self) -> dict[str, Any] | None:
        """A stored secret goes only where it is stored for, or a form could send it anywhere."""
        cleaned = super().clean()
        for name in self._unjudged:
            self.cleaned_data.pop(name, None)
        kept = set(self.kept_secrets()) - self._unjudged.keys()
        for name in kept & self._redirected():
            self.add_error(name, ENTER_FOR_REGISTRY if name in REGISTRY_SECRETS else ENTER_AGAIN)
        return cleaned

    @property
    def allowed(self) -> list[tuple[str, str, object, bool]]:
        """List the properties that may be set: name, what it takes, default, for producers only."""
        return [
            (name, rule.words, client_properties.DEFAULTS.get(name), name in PRODUCER)
            for name, rule in sorted(client_properties.ALLOWED.items())
        ]

    def connection_mistakes(self) -> list[str]:
        """The mistakes that prevent a test of these values; a missing name does not."""
        self.is_valid()
        for name in self.errors.keys() - CONNECTION - set(self.kept_secrets()):
            del self.errors[name]
        labels = {name: str(field.label or name) for name, field in self.fields.items()}
        return [
            f"{labels.get(name, name)}: {sentence}"
            for name, e in self.errors.items()
            for sentence in e
        ]

    def _redirected(self) -> frozenset[str]:
        """Return the secrets that these values would send elsewhere; what is no value may be."""
        stored = {name: getattr(self.instance, name) for name in LEADING}
        judged = {name: self.cleaned_data.get(name) for name in LEADING.intersection(self.fields)}
        # Whoever says nothing of the kind means what it is.
        judged["kind"] = judged.get("kind") or stored["kind"]
        return redirected_of_provider(stored, {**stored, **judged})


class ProviderTable(tables.Table):
    """The list of providers."""

    name = Named("provider")
    kind = tables.Column("What")
    bootstrap_servers = tables.Column("Servers", attrs={"td": {"class": "long"}})
    security_protocol = tables.Column("Protocol")
    queue_count = Counted("Queues")


def _more(request: HttpRequest, provider: Provider) -> Mapping[str, object]:
    # All partners share a relay: what waits there is nothing for people who may know some of them.
    is_whole = scope_of(request.user).is_whole
    return {
        "has_password": bool(provider.password),
        "has_key": bool(provider.client_key),
        "has_registry_password": bool(provider.registry_password),
        "has_registry_key": bool(provider.registry_client_key),
        "is_registry_by_tls": provider.registry_url.lower().startswith("https:"),
        "schemas": registry.known_schemas(provider),
        "shards": shards.of_provider(provider.pk) if is_whole else [],
    }


PROVIDERS = Noun(
    one="provider",
    title="Providers",
    about="A Kafka cluster or a JMS broker, and how to reach it. There may be several; each queue "
    "is a topic of a cluster, or reads a queue or topic of a broker.",
    form=ProviderForm,
    table=ProviderTable,
    filters=filters_by("name", "bootstrap_servers"),
    rows=nouns.providers,
    uses=nouns.uses_of_provider,
    more=_more,
    is_shared=True,
    is_grave=True,
)


@needs(Right.VIEW, Right.CONFIGURE)
def examine(request: HttpRequest, number: int | None = None) -> HttpResponse:
    """The page asked from again, with what testing the provider just found; nothing is stored.

    A form brings the values to test; without it the stored ones are.
    """
    row = None if number is None else known_row(request, PROVIDERS, number)
    refuse(PROVIDERS.hindrance(request.user))
    if request.method != "POST":
        return see("provider-new") if number is None else see("provider", number)
    topic = request.POST.get("topic", "")[:TOPIC_CHARACTERS]
    if row is not None and "bootstrap_servers" not in request.POST:
        tested = examination.examined(row, topic)
        return show_card(request, PROVIDERS, row, tested=tested, topic=topic)
    return _examine_entered(request, ProviderForm(request.POST, instance=row), topic)


@require_POST
@needs(Right.VIEW, Right.CONFIGURE)
def forget_schemas(request: HttpRequest, number: int) -> HttpResponse:
    """Take the registry at its word again: somebody found out that it is the right one."""
    row = known_row(request, PROVIDERS, number)
    refuse(PROVIDERS.hindrance(request.user))
    author = author_of(request)
    if not author.reason:
        return show_card(request, PROVIDERS, row, status=422, forget_mistake=UNEXPLAINED)
    count = schema_registry.forget_schemas(row, author)
    messages.success(
        request, f"{so_many(count, 'schema')} forgotten. Release the messages that wait for it."
    )
    return see("provider", number)


def _examine_entered(request: HttpRequest, form: ProviderForm, topic: str) -> HttpResponse:
    """Answered with 200 also with mistakes: they are the answer to this question."""
    mistakes = form.connection_mistakes()
    tested = None if mistakes else examination.examined(form.instance, topic)
    return show_form(
        request,
        PROVIDERS,
        form,
        seen=seen_in(request),
        mistakes=mistakes,
        tested=tested,
        topic=topic,
    )
