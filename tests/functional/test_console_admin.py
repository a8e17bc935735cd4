"""Django's admin: the engine's rows can only be looked at, and no configuration is changed."""

import pytest
from django.apps import apps
from django.contrib import admin as site
from django.contrib.auth.models import User
from django.db import connection
from django.db.models.expressions import RawSQL
from django.test import Client
from django.test.utils import CaptureQueriesContext
from django.urls import reverse
from django.utils import timezone

from crontasks.models import Heartbeat, Notice
from integration.models import (
    BatchLog,
    Gap,
    MessageError,
    ObjectStructure,
    OutboxRow,
    QueuePartition,
    RelayLease,
    Rescue,
    StoredObject,
)
from payments.models import Charge
from tests.support.rows import PASSWORD

pytestmark = [pytest.mark.servers, pytest.mark.django_db]


@pytest.fixture
def client() -> Client:
    client = Client()
    client.force_login(User.objects.create_superuser("root"))
    return client


# What Sluice itself writes can be looked at only; all else can be added.
LOOKED_AT = {
    BatchLog,
    Charge,
    Gap,
    Heartbeat,
    Notice,
    OutboxRow,
    QueuePartition,
    RelayLease,
    Rescue,
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


def test_people_and_their_rights_are_changed_on_the_audited_pages_alone(client: Client) -> None:
    for model in ("user", "group"):
        assert client.get(f"/admin/auth/{model}/").status_code == 404
        assert client.post(f"/admin/auth/{model}/add/", {"username": "eva"}).status_code == 404


def test_ones_own_password_is_changed_where_tries_are_counted_alone(client: Client) -> None:
    root = User.objects.get(username="root")
    root.set_password(PASSWORD)
    root.save()
    client.force_login(root)
    new = {"new_password1": "quite-another-1", "new_password2": "quite-another-1"}
    place = reverse("admin:password_change")
    for old in ("wrong", PASSWORD):
        answer = client.post(place, {"old_password": old, **new})
        assert (answer.status_code, answer["Location"]) == (303, reverse("password_change"))
    root.refresh_from_db()
    assert root.check_password(PASSWORD)
    assert client.get(place)["Location"] == reverse("password_change")
    assert client.get(f"{place}done/")["Location"] == reverse("password_change")


def test_schedules_are_changed_on_the_audited_pages_alone(client: Client) -> None:
    for model in apps.get_app_config("django_celery_beat").get_models():
        assert not site.site.is_registered(model)
    for model in ("periodictask", "intervalschedule", "crontabschedule"):
        assert client.get(f"/admin/django_celery_beat/{model}/add/").status_code == 404


def test_each_list_and_row_says_what_it_is_and_that_it_is_only_looked_at(client: Client) -> None:
    beat = Heartbeat.objects.create(
        kind="beat", node="beat@host", pid=1, started_at=timezone.now(), seen_at=timezone.now()
    )
    row = reverse("admin:crontasks_heartbeat_change", args=[beat.pk])
    assert "Heartbeat, read-only" in client.get(row).text
    assert "reported that it is alive" in client.get(row).text
    abouts = set()
    for model in LOOKED_AT:
        page = client.get(
            reverse(f"admin:{model._meta.app_label}_{model._meta.model_name}_changelist")
        )
        assert "read-only" in page.text
        about = site.site._registry[model].about
        assert page.context["subtitle"] == about
        abouts.add(about)
    assert len(abouts - {""}) == len(LOOKED_AT)


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
    assert page.count('field-deleted">deleted</td>') == page.count('field-deleted"></td>') == 1
    assert 'alt="True"' not in page, "a green tick beside a document reads as if all were well"
    listed = reverse("admin:integration_storedobject_changelist")
    link = f"{listed}?structure__id__exact={structure.pk}"
    assert link in client.get(reverse("structure", args=[structure.pk])).text
    assert client.get(link).text.count('field-deleted"') == 2


def test_the_list_of_documents_reads_none_of_them(client: Client) -> None:
    structure = ObjectStructure.objects.create(name="places", key_paths=["$.location"])
    stored = {"structure": structure, "arrival_batch": 1, "arrival_index": 0}
    row = StoredObject.objects.create(key="K", updated_at=timezone.now(), document={}, **stored)
    # What PostgreSQL keeps as text of 4,301 digits, more than Python reads as a number.
    StoredObject.objects.update(document=RawSQL("""'{"w": 1e4300, "n": 7}'::jsonb""", ()))
    with CaptureQueriesContext(connection) as queries:
        page = client.get(reverse("admin:integration_storedobject_changelist"))
    assert page.status_code == 200
    asked = [query["sql"] for query in queries if 'FROM "integration_storedobject"' in query["sql"]]
    assert not [sql for sql in asked if '"document",' in sql or '"xml",' in sql]
    shown = client.get(reverse("admin:integration_storedobject_change", args=[row.pk]))
    assert shown.status_code == 200
    assert "1" + "0" * 4_300 in shown.text


def test_configuration_is_changed_on_the_audited_pages_alone() -> None:
    offered = {model._meta.model_name for model in site.site._registry}
    set_up = {"provider", "externalsystem", "endpoint", "enterpriseservice", "objectstructure"}
    assert offered.isdisjoint(set_up | {"queue"})


def test_the_error_table_is_not_reachable_past_the_rights_of_the_console() -> None:
    assert not site.site.is_registered(MessageError)
