"""What tests of the set-up pages begin with: people, filled-in forms, one row of each noun."""

from typing import Any
from urllib.parse import urlencode

from django.contrib.auth.models import User
from django.http import QueryDict
from django.test import Client
from django.urls import reverse

from console.models import Limit
from console.setup import urls as nouns
from integration.actions.configuration import Author
from integration.models import (
    ConfigurationChange,
    Endpoint,
    EnterpriseService,
    ExternalSystem,
    ObjectStructure,
    Provider,
    PublishChannel,
)
from integration.selectors.scope import EVERYTHING
from tests.support.rows import a_person

NOUNS = ("system", "service", "structure", "endpoint", "provider", "channel")


def logged_in(role: str = "Administrators", name: str = "") -> Client:
    client = Client()
    client.force_login(a_person(role, name))
    return client


def limited_to(*systems: ExternalSystem) -> Client:
    client = logged_in()
    limit = Limit.objects.create(person=User.objects.get(pk=client.session["_auth_user_id"]))
    limit.systems.set(systems)
    return client


def forms() -> dict[str, dict[str, Any]]:
    """What a person enters for a new one of each noun."""
    partner = ExternalSystem.objects.get_or_create(name="partner")[0]
    return {
        "system": {"name": "eam", "description": "the plant", "enabled": "on"},
        "service": {"interface": "MXASSET", "enabled": "on"},
        "structure": {"name": "assets", "key_paths": "$.assetnum\n$.siteid", "tombstone": "hold"},
        "channel": {
            "name": "MXPO",
            "description": "orders",
            "enabled": "on",
            "format": "json",
            "envelope": "on",
            "key_path": "$.ponum",
            "search_paths": "$.vendor",
        },
        "endpoint": {
            "name": "post",
            "system": partner.pk,
            "endpoint_type": "http",
            "url": "https://partner.example/in",
            "max_concurrent": 8,
            "open_after": 5,
        },
        "provider": {
            "name": "main",
            "bootstrap_servers": "127.0.0.1:1",
            "shards": "1",
            "security_protocol": "PLAINTEXT",
            "properties": "{}",
        },
    }


def a_form(noun: str, **values: Any) -> Any:
    """The noun's form, filled in and sent, with some values in the place of sound ones."""
    [kind] = (one for one in nouns.NOUNS if one.one == noun)
    return kind.form(QueryDict(urlencode({**forms()[noun], **values})), scope=EVERYTHING)


def a_row(noun: str) -> Any:
    """One of each noun, made by its form, as its page would."""
    form = a_form(noun)
    assert form.is_valid(), form.errors
    assert form.saved(Author("adam")), form.errors
    ConfigurationChange.objects.all().delete()
    model: Any = {
        "system": ExternalSystem.objects.exclude(name="partner"),
        "service": EnterpriseService.objects,
        "structure": ObjectStructure.objects,
        "endpoint": Endpoint.objects,
        "provider": Provider.objects,
        "channel": PublishChannel.objects,
    }[noun]
    return model.get()


def as_entered(client: Client, noun: str, row: Any) -> dict[str, Any]:
    """The change form's values as a browser would send them back."""
    answer = client.get(reverse(f"{noun}-change", args=[row.pk]))
    form = answer.context["form"]
    # A browser is never given a stored secret, so it sends none back.
    shown = [name for name in form.fields if name not in getattr(form, "secret_fields", ())]
    found = {name: form[name].value() for name in shown}
    sent = {name: "on" if v is True else v for name, v in found.items() if v not in (None, False)}
    return {**sent, "seen": answer.context["seen"]}
