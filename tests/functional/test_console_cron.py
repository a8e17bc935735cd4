"""Cron instances over HTTP: when they run, how it went, and running one now."""

import pytest
from django.contrib.admin.models import LogEntry
from django.test import Client
from django.urls import reverse
from django.utils import timezone

from crontasks.models import CronInstance, CronRun
from devstack.server import Server
from tests.support.rows import a_person, a_queue_row

pytestmark = [pytest.mark.servers, pytest.mark.django_db]


@pytest.fixture
def client() -> Client:
    client = Client()
    client.force_login(a_person("Operators", "otto"))
    return client


@pytest.fixture
def cleanup() -> CronInstance:
    return CronInstance.objects.get(task="errors_cleanup")


def a_run(instance: CronInstance, **fields: object) -> CronRun:
    values = {"started_at": timezone.now(), "state": "DONE", "counts": {"deleted": 12}, **fields}
    return CronRun.objects.create(instance=instance, **values)


def test_the_list_tells_schedule_next_moment_and_last_run(
    client: Client, cleanup: CronInstance
) -> None:
    a_run(cleanup, state="FAILED", text="first")
    a_run(cleanup, text="removed twelve rows")
    page = client.get(reverse("cron")).text
    assert "every hour at minute 17" in page
    assert "removed twelve rows" in page
    assert "first" not in page.split("removed twelve rows")[0].split(cleanup.name)[-1]


def test_the_page_tells_runs_rules_and_next_moments(client: Client, cleanup: CronInstance) -> None:
    a_run(cleanup, text="removed twelve rows", log_excerpt="<b>line</b>")
    page = client.get(reverse("cron-instance", args=[cleanup.pk])).text
    assert "deleted 12" in page
    assert "&lt;b&gt;line" in page
    assert "Skip it" in page
    assert page.count("<li>") >= 5


def test_the_number_of_statements_does_not_grow(
    client: Client, django_assert_num_queries: object
) -> None:
    for _ in range(2):
        for _ in range(5):
            a_queue_row("continuous")
        for instance in CronInstance.objects.all():
            a_run(instance)
        # The session, the person and their rights (4), the deployment, and two of the page.
        with django_assert_num_queries(7):  # type: ignore[operator] # pytest-django's fixture
            client.get(reverse("cron"))


def test_run_now_sends_it_to_the_workers_and_notes_who_asked(
    client: Client, cleanup: CronInstance, valkey: Server
) -> None:
    answer = client.post(reverse("run-now", args=[cleanup.pk]))
    assert answer.status_code == 303
    cleanup.refresh_from_db()
    assert cleanup.asked_at is not None
    entry = LogEntry.objects.get()
    assert (entry.user.get_username(), entry.change_message) == ("otto", "Run now.")


def test_an_instance_that_is_gone_is_a_page_of_its_own(client: Client) -> None:
    assert client.get(reverse("cron-instance", args=[999_999])).status_code == 404
    assert client.post(reverse("run-now", args=[999_999])).status_code == 404
