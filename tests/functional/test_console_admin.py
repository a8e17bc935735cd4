"""Configuration: secrets are write-only, queues are judged when they are saved."""

import re
import uuid
from html import unescape
from typing import Any

import pytest
from django.contrib import admin as site
from django.contrib.auth.models import User
from django.db import connection
from django.test import Client
from django.urls import reverse
from django.utils import timezone

from console.admin.queues import FIELDS
from crontasks.models import Heartbeat, Notice
from devstack.server import Server
from integration.kafka import admin
from integration.models import (
    BatchLog,
    Gap,
    MessageError,
    ObjectStructure,
    OutboxRow,
    Provider,
    Queue,
    QueuePartition,
    RelayLease,
    StoredObject,
)
from tests.support.rows import a_place, a_queue_row

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


@pytest.fixture
def real(kafka: Server) -> Provider:
    return Provider.objects.create(name="real", bootstrap_servers=kafka.bootstrap)


def queue_form(provider: Provider, topic: str, **fields: Any) -> dict[str, Any]:
    """The form as a browser sends it: a new queue's defaults, without a start."""
    blank = Queue()
    form: dict[str, Any] = {}
    for name in FIELDS:
        value = getattr(blank, name, None) if name not in {"provider", "system"} else None
        if value is not None and value is not False and value != "":
            form[name] = value
    form["retry_delays_seconds"] = "[]"
    form |= {"name": f"q-{uuid.uuid4().hex[:8]}", "provider": provider.pk, "topic": topic}
    return form | {"kind": "continuous", **fields}


def a_topic(provider: Provider, partitions: int = 1) -> str:
    name = f"admin-{uuid.uuid4().hex[:8]}"
    admin.create_topic(
        provider, name, partitions=partitions, settings={"retention.ms": "604800000"}
    )
    return name


class TestQueueForm:
    add = "admin:integration_queue_add"

    def test_where_reading_begins_has_no_default_and_each_choice_is_counted(
        self, client: Client, real: Provider
    ) -> None:
        form = queue_form(real, a_topic(real))
        assert "start_from" not in form
        page = client.post(reverse(self.add), form).text
        assert "The oldest message the topic still has: reads 0 messages, skips 0" in page
        assert not Queue.objects.exists()

    def test_saving_resolves_the_first_position(self, client: Client, real: Provider) -> None:
        form = queue_form(real, a_topic(real, 2), start_from="end")
        answer = client.post(reverse(self.add), form)
        assert answer.status_code == 302, re.findall(r"errorlist.*?</ul>", answer.text)
        assert Queue.objects.get().partitions.count() == 2

    def test_what_the_topic_forbids_is_told_at_its_field(
        self, client: Client, real: Provider
    ) -> None:
        form = queue_form(real, a_topic(real, 2), start_from="end", kind="sequential")
        page = client.post(reverse(self.add), form).text
        assert "has 2 partitions" in page
        absent = queue_form(real, "no-such-topic", start_from="end")
        assert "does not exist" in client.post(reverse(self.add), absent).text
        assert not Queue.objects.exists()

    def test_a_broker_that_is_down_is_told_and_other_changes_can_still_be_saved(
        self, client: Client
    ) -> None:
        queue = a_queue_row()
        a_place(queue)
        change = reverse("admin:integration_queue_change", args=[queue.pk])
        form = queue_form(queue.provider, queue.topic, name=queue.name, kind="sequential")
        form["carrier"] = queue.carrier
        assert client.post(change, {**form, "batch_size": 77}).status_code == 302
        queue.refresh_from_db()
        assert queue.batch_size == 77
        refused = client.post(change, {**form, "retention_seconds": 5})
        [told] = refused.context["adminform"].form.errors["provider"]
        assert told.startswith(f"Kafka does not answer at the provider {queue.provider.name}: ")
        assert told in unescape(refused.text)
        queue.refresh_from_db()
        assert queue.retention_seconds != 5

    def test_the_topic_of_a_queue_with_a_position_stays(self, client: Client) -> None:
        queue = a_queue_row()
        a_place(queue)
        change = reverse("admin:integration_queue_change", args=[queue.pk])
        form = queue_form(queue.provider, "another", name=queue.name, kind="sequential")
        page = client.post(change, form).text
        assert "This cannot change while the queue has a position" in page
