"""Schedules of bulk jobs: filled in from a run, and no way to do what one may not do by hand."""

import io
import json
from pathlib import Path
from typing import Any

import pytest
from django.contrib.auth.models import Group, Permission
from django.core.management import call_command
from django.test import Client
from django.urls import reverse

from console.layout.access import Right
from crontasks.definitions import Definition, registry
from crontasks.models import CronInstance
from integration.models import BulkRun, ConfigurationChange, Queue
from tests.functional.test_masking_planted import somebody
from tests.support.bulk_pages import a_run, assets, logged_in, see
from tests.support.rows import a_person

pytestmark = [pytest.mark.servers, pytest.mark.django_db]
UNREADABLE = {"open": "{", "a list": "[]", "deep": "[" * 9_000}


@pytest.fixture
def queue() -> Queue:
    return assets()


class the_scheduling_task:  # noqa: N801 - reads as a sentence where it is used
    """The cron task that asks for bulk jobs, put there for a test where it is not installed."""

    def __enter__(self) -> None:
        self._is_ours = registry.get("bulk_job") is None
        if self._is_ours:
            from tests.support.world.crontasks import Scheduling  # noqa: PLC0415

            registry.add(Definition("bulk_job", Scheduling))

    def __exit__(self, *_: object) -> None:
        if self._is_ours:
            registry._by_name.pop("bulk_job")


def test_it_is_scheduled_with_its_words_filled_in(queue: Queue) -> None:
    run = a_run(queue)
    with the_scheduling_task():
        client = logged_in("Administrators")
        page = see(client, run)
        assert f"task=bulk_job&amp;bulk_run={run.pk}" in page
        address = f"{reverse('cron-new')}?task=bulk_job&bulk_run={run.pk}"
        form = client.get(address).context["form"]
    assert form["parameter-job"].value() == "import"
    assert '"structure": "ASSET"' in form["parameter-job_request"].value()


@pytest.mark.parametrize(("but", "is_kept"), [([Right.REVEAL], False), ([], True)])
def test_it_agrees_to_true_values_by_who_may_reveal(but: list[Right], *, is_kept: bool) -> None:
    job_request = {"kind": "messages", "masked": False}
    run = a_run(job="archive", job_request=job_request)
    with the_scheduling_task():
        address = f"{reverse('cron-new')}?task=bulk_job&bulk_run={run.pk}"
        form = somebody(*but).get(address).context["form"]
    said = json.loads(form["parameter-job_request"].value())
    assert said == (job_request if is_kept else {"kind": "messages"})


def test_a_run_of_the_command_line_has_what_was_said_and_no_defaults(
    settings: Any, tmp_path: Path
) -> None:
    settings.SLUICE_BULK_ROOT = tmp_path
    out = io.StringIO()
    call_command("bulk_archive", "messages", "--older-than-days", "90", "--leave", stdout=out)
    run = BulkRun.objects.get(pk=json.loads(out.getvalue())["run"])
    assert run.job_request == {"kind": "messages", "older_than_days": "90"}


def test_a_schedule_does_no_more_than_the_person_who_stores_it(queue: Queue) -> None:
    person = a_person("Administrators")
    client = Client()
    client.force_login(person)
    with the_scheduling_task():
        address = f"{reverse('cron-new')}?task=bulk_job"

        def stored(job: str, **job_request: str) -> int:
            typed = {"parameter-job": job, "parameter-job_request": json.dumps(job_request)}
            form = client.get(address).context["form"]
            asked = {name: form[name].value() or "" for name in form.fields} | typed
            asked |= {"name": f"nightly-{job}", "interval_seconds": "3600"}
            client.post(address, asked)
            return CronInstance.objects.filter(task="bulk_job").count()

        outside = stored("import", source="/etc/passwd", queue=queue.name)
        person.groups.clear()
        person.user_permissions.set(
            Permission.objects.exclude(codename__in=["edit_payload"]).filter(
                content_type__app_label="integration"
            )
        )
        assert (outside, stored("repair", queue=queue.name)) == (0, 0)
        person.groups.set(Group.objects.filter(name="Administrators"))
        assert stored("repair", queue=queue.name) == 1


@pytest.mark.usefixtures("valkey")
def test_a_run_once_does_no_more_than_the_person_who_asks_for_it(queue: Queue) -> None:
    person = a_person("Administrators")
    client = Client()
    client.force_login(person)
    with the_scheduling_task():
        fields = {"name": "nightly", "task": "bulk_job", "interval_seconds": 3_600}
        instance = CronInstance.objects.create(**fields, parameters={"job": "import"})

        def asked(job: str, **job_request: str) -> int:
            typed = {"parameter-job": job, "parameter-job_request": json.dumps(job_request)}
            address = reverse("run-now", args=[instance.pk])
            return client.post(address, {"with-parameters": "1", **typed}).status_code

        assert asked("import", source="/etc/passwd", queue=queue.name) == 422
        person.groups.clear()
        person.user_permissions.set(
            Permission.objects.exclude(codename="edit_payload").filter(
                content_type__app_label="integration"
            )
        )
        assert asked("repair", queue=queue.name) == 422
        assert not ConfigurationChange.objects.filter(kind="croninstance").exists()
        person.groups.set(Group.objects.filter(name="Administrators"))
        assert asked("repair", queue=queue.name) == 303


@pytest.mark.parametrize("text", UNREADABLE.values(), ids=UNREADABLE)
def test_a_job_request_that_cannot_be_read_is_told_in_the_form(queue: Queue, text: str) -> None:
    client = logged_in("Administrators")
    with the_scheduling_task():
        fields = {"name": "nightly", "task": "bulk_job", "interval_seconds": 3_600}
        instance = CronInstance.objects.create(**fields, parameters={"job": "import"})
        typed = {"parameter-job": "archive", "parameter-job_request": text}
        address = f"{reverse('cron-new')}?task=bulk_job"
        form = client.get(address).context["form"]
        asked = {name: form[name].value() or "" for name in form.fields} | typed
        asked |= {"name": "weekly", "interval_seconds": "3600"}
        run_now = reverse("run-now", args=[instance.pk])
        for answer in (
            client.post(address, asked),
            client.post(run_now, {"with-parameters": "1", **typed}),
        ):
            assert answer.status_code == 422
            assert "BAD_PARAMETERS" in str(answer.context["form"].non_field_errors())
        assert CronInstance.objects.filter(task="bulk_job").count() == 1
