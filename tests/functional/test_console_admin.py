"""Configuration in the admin: secrets are write-only, engine rows can only be looked at."""

import pytest
from django.contrib import admin as site
from django.contrib.auth.models import User
from django.db import connection
from django.test import Client
from django.urls import reverse
from django.utils import timezone

from crontasks.models import Heartbeat, Notice
from integration.models import (
    BatchLog,
    Gap,
    MessageError,
    ObjectStructure,
    OutboxRow,
    Provider,
    QueuePartition,
    RelayLease,
    StoredObject,
)

pytestmark = [pytest.mark.servers, pytest.mark.django_db]


@pytest.fixture
def client() -> Client:
    client = Client()
    client.force_login(User.objects.create_superuser("root"))
    return client


def provider_form(**fields: str) -> dict[str, str]:
    return {
        "name": "plant",
        "bootstrap_servers": "127.0.0.1:9092",
        "security_protocol": "SASL_SSL",
        "sasl_mechanism": "PLAIN",
        "username": "sluice",
        "properties": "{}",
        **fields,
    }


class TestSecrets:
    def test_a_secret_is_stored_encrypted_kept_and_never_shown(self, client: Client) -> None:
        add = reverse("admin:integration_provider_add")
        client.post(add, provider_form(password="s3cret-word", client_key="PEM-KEY"))
        provider = Provider.objects.get()
        assert (provider.password, provider.client_key) == ("s3cret-word", "PEM-KEY")
        with connection.cursor() as cursor:
            cursor.execute("SELECT password, client_key FROM integration_provider")
            assert not {"s3cret-word", "PEM-KEY"} & set(cursor.fetchone())

        change = reverse("admin:integration_provider_change", args=[provider.pk])
        page = client.get(change).text
        assert "s3cret-word" not in page
        assert "PEM-KEY" not in page
        assert "A value is stored" in page

        client.post(change, provider_form(username="other"))
        provider.refresh_from_db()
        assert (provider.username, provider.password) == ("other", "s3cret-word")
        client.post(change, provider_form(password="second"))
        provider.refresh_from_db()
        assert (provider.password, provider.client_key) == ("second", "PEM-KEY")
        client.post(change, provider_form(remove_password="on"))
        provider.refresh_from_db()
        assert (provider.password, provider.client_key) == ("", "PEM-KEY")

    def test_a_refused_form_does_not_show_the_secret_either(self, client: Client) -> None:
        add = reverse("admin:integration_provider_add")
        answer = client.post(add, provider_form(name="", password="s3cret-word"))
        assert answer.status_code == 200
        assert "s3cret-word" not in answer.text

    def test_the_history_of_changes_does_not_hold_it(self, client: Client) -> None:
        client.post(
            reverse("admin:integration_provider_add"), provider_form(password="s3cret-word")
        )
        provider = Provider.objects.get()
        page = client.get(reverse("admin:integration_provider_history", args=[provider.pk])).text
        assert "s3cret-word" not in page


# What Sluice itself writes can be looked at only; all else can be added.
LOOKED_AT = {
    BatchLog,
    Gap,
    Heartbeat,
    Notice,
    OutboxRow,
    QueuePartition,
    RelayLease,
    StoredObject,
}


def test_every_page_of_the_configuration_opens(client: Client) -> None:
    closed = set()
    for model in site.site._registry:
        name = f"{model._meta.app_label}_{model._meta.model_name}"
        assert client.get(reverse(f"admin:{name}_changelist")).status_code == 200
        answer = client.get(reverse(f"admin:{name}_add"))
        if answer.status_code == 403:
            closed.add(model)
        else:
            assert answer.status_code == 200, name
    assert closed == LOOKED_AT


def test_a_deleted_document_is_told_from_a_stored_one(client: Client) -> None:
    structure = ObjectStructure.objects.create(name="places", key_paths=["$.location"])
    for at, document in enumerate([None, {"location": "HALL"}]):
        StoredObject.objects.create(
            structure=structure,
            key=f"K{at}",
            document=document,
            arrival_batch=1,
            arrival_index=at,
            updated_at=timezone.now(),
        )
    page = client.get(reverse("admin:integration_storedobject_changelist")).text
    assert page.count('alt="True"') == page.count('alt="False"') == 1


def test_the_error_table_is_not_reachable_past_the_rights_of_the_console() -> None:
    assert not site.site.is_registered(MessageError)
