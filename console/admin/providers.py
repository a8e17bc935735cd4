"""Kafka clusters and how to reach them."""

from typing import Any

from django import forms
from django.contrib import admin
from django.http import HttpRequest

from console.admin.secrets import KeepsSecrets, SecretInput, SecretText
from integration.models import Provider


class ProviderForm(KeepsSecrets):
    """Reaching a cluster; what is secret is write-only."""

    secret_fields = ("password", "client_key")

    class Meta:
        model = Provider
        fields = (
            "name",
            "bootstrap_servers",
            "security_protocol",
            "sasl_mechanism",
            "username",
            "password",
            "ca_certificate",
            "client_certificate",
            "client_key",
            "properties",
        )
        widgets = {
            "password": SecretInput(),
            "client_key": SecretText(attrs={"rows": 4, "cols": 64}),
            "bootstrap_servers": forms.TextInput(attrs={"size": 60}),
        }


@admin.register(Provider)
class ProviderAdmin(admin.ModelAdmin):  # type: ignore[type-arg] # not subscriptable at run time
    """Kafka clusters."""

    form = ProviderForm
    list_display = ("name", "bootstrap_servers", "security_protocol")
    search_fields = ("name", "bootstrap_servers")

    def get_fieldsets(self, request: HttpRequest, obj: Provider | None = None) -> Any:  # noqa: ANN401, ARG002 - Django's signature
        removals = [f"remove_{name}" for name in _stored_secrets(obj)]
        login = ["sasl_mechanism", "username", "password"]
        certificates = ["ca_certificate", "client_certificate", "client_key"]
        return (
            (None, {"fields": ["name", "bootstrap_servers", "security_protocol"]}),
            ("Login (SASL)", {"fields": login + [n for n in removals if n.endswith("password")]}),
            (
                "Certificates (SSL)",
                {"fields": certificates + [n for n in removals if n.endswith("key")]},
            ),
            ("Further client properties", {"fields": ["properties"], "classes": ["collapse"]}),
        )

    def get_form(self, *_: Any, **__: Any) -> Any:  # noqa: ANN401 - Django's signature
        """The fields for removal are not the model's, so the admin must not look for them."""
        return ProviderForm


def _stored_secrets(provider: Provider | None) -> list[str]:
    if provider is None:
        return []
    return [name for name in ProviderForm.secret_fields if getattr(provider, name)]
