"""Setting up cron instances over HTTP: typed parameters, the schedule's effect, one audit row."""

from collections.abc import Mapping
from html import unescape
from typing import Any

import pytest
from django.contrib.auth.models import User
from django.test import Client
from django.urls import reverse
from django.utils import timezone
from django_celery_beat.models import CrontabSchedule, IntervalSchedule

from crontasks import ticks
from crontasks.definitions import registry
from crontasks.models import CronInstance
from integration.models import ConfigurationChange
from tests.support.rows import a_person, a_queue_row

pytestmark = [pytest.mark.servers, pytest.mark.django_db]
SECRET = "s3cret-word"


@pytest.fixture
def client() -> Client:
    client = Client()
    client.force_login(a_person("Administrators", "ada"))
    return client


def filled(**fields: object) -> dict[str, Any]:
    """The form of the task `typed`, as a browser sends it."""
    return {
        "name": "Nightly",
        "active": "on",
        "crontab": "30 2 * * mon-fri",
        "interval_seconds": "",
        "time_zone": "Europe/Berlin",
        "overlap": "skip",
        "misfire": "run_once",
        "timeout_seconds": "10 min",
        "keep_runs": "200",
        "parameter-name": "ours",
        "parameter-days": "7",
        "parameter-rate": "1.5",
        "parameter-on": "on",
        "parameter-colour": "red",
        "reason": "the books close at two",
        **fields,
    }


def create(client: Client, **fields: object) -> Any:
    return client.post(f"{reverse('cron-new')}?task=typed", filled(**fields))


def change(client: Client, instance: CronInstance, form: Mapping[str, Any]) -> Any:
    address = reverse("cron-change", args=[instance.pk])
    seen = client.get(address).context["seen"]
    return client.post(address, {"seen": seen, **form})


def stored() -> CronInstance:
    return CronInstance.objects.get(task="typed")


def changes() -> list[ConfigurationChange]:
    return list(ConfigurationChange.objects.filter(kind="croninstance").order_by("pk"))


def test_a_task_is_chosen_first_and_a_queues_consumers_are_not_among_them(client: Client) -> None:
    page = client.get(reverse("cron-new"))
    offered = {one.name for one in page.context["tasks"]}
    consumers = {"queue_consumer", "error_queue_consumer"}
    assert offered == {one.name for one in registry} - consumers
    assert all(one.description in unescape(page.text) for one in page.context["tasks"])
    for refused in ("queue_consumer", "nowhere"):
        assert "which task?" in client.get(f"{reverse('cron-new')}?task={refused}").text


def test_the_form_has_a_field_for_each_parameter_with_its_help_type_and_default(
    client: Client,
) -> None:
    page = client.get(f"{reverse('cron-new')}?task=typed").text
    assert 'type="number" name="parameter-days" value="7" min="1" max="30"' in page
    assert "Whose it is. Required: it has no default." in page
    assert '<option value="blue">blue</option>' in page
    assert 'type="password" name="parameter-token"' in page
    assert 'name="parameter-on"' in page
    assert "Default: 1.5." in page


def test_creating_stores_what_differs_from_the_defaults_and_writes_one_audit_row(
    client: Client,
) -> None:
    answer = create(client, **{"parameter-colour": "blue", "parameter-limit": "3"})
    assert answer.status_code == 303
    made = stored()
    assert made.parameters == {"name": "ours", "colour": "blue", "limit": 3}
    assert (made.timeout_seconds, made.time_zone) == (600, "Europe/Berlin")
    assert made.periodic_task is not None
    (row,) = changes()
    assert (row.action, row.actor, row.reason) == ("create", "ada", "the books close at two")


def test_every_mistake_is_told_at_its_field_and_nothing_is_stored(client: Client) -> None:
    wrong = {
        "crontab": "61 * * * *",
        "time_zone": "Nowhere/Land",
        "parameter-name": "",
        "parameter-days": "99",
        "parameter-colour": "green",
        "timeout_seconds": "soon",
    }
    answer = create(client, **wrong)
    assert answer.status_code == 422
    form = answer.context["form"]
    assert {"time_zone", "parameter-name", "parameter-days", "timeout_seconds"} <= set(form.errors)
    assert "no minute" in unescape(answer.text)
    assert not CronInstance.objects.filter(task="typed").exists()
    both = create(client, interval_seconds="5 min")
    assert both.status_code == 422
    assert list(both.context["form"].errors) == ["crontab"]
    assert changes() == []


def test_show_the_effect_needs_no_script_and_saves_nothing(client: Client) -> None:
    answer = create(client, **{"show-effect": "1", "parameter-name": ""})
    assert answer.status_code == 200
    assert "(Europe/Berlin)" in answer.text
    assert len(answer.context["effect"].moments) == 5
    assert "Nothing was saved" not in answer.text
    assert not CronInstance.objects.filter(task="typed").exists()


@pytest.mark.parametrize(
    ("asked", "told"),
    [
        ({"crontab": "*/15 * * * *", "time_zone": "UTC"}, "Every 15 minutes"),
        ({"interval_seconds": "90", "time_zone": "UTC"}, "Every 90 seconds"),
        ({"interval_seconds": "2 h", "time_zone": "UTC"}, "Every 2 hours"),
        ({"crontab": "1--100000000 * * * *", "time_zone": "UTC"}, "is no minute"),
        ({"crontab": "* * * * *", "time_zone": "Mars/Base"}, "not a time zone"),
        ({"interval_seconds": "soon", "time_zone": "UTC"}, "is no duration"),
        ({}, "Give either"),
    ],
)
def test_the_effect_is_told_while_the_schedule_is_typed(
    client: Client, asked: dict[str, str], told: str
) -> None:
    answer = client.get(reverse("cron-effect"), asked)
    assert answer.status_code == 200
    assert told in unescape(answer.text)


def test_a_secret_is_stored_encrypted_kept_when_left_empty_and_shown_nowhere(
    client: Client,
) -> None:
    create(client, **{"parameter-token": SECRET})
    made = stored()
    assert set(made.parameters["token"]) == {"sealed"}
    assert SECRET not in str(made.parameters)
    pages = [
        reverse("cron-instance", args=[made.pk]),
        reverse("cron-change", args=[made.pk]),
        reverse("cron-one-run", args=[made.pk]),
    ]
    for address in pages:
        text = client.get(address).text
        assert SECRET not in text
        assert made.parameters["token"]["sealed"] not in text
    assert "A value is stored" in client.get(pages[1]).text
    change(client, made, filled(**{"parameter-days": "9"}))
    assert stored().parameters["token"] == made.parameters["token"]
    assert ticks.tick(made.pk, timezone.now()).counts == {"days": 9, "token": len(SECRET)}
    change(client, made, filled(**{"parameter-token": "another"}))
    assert stored().parameters["token"] != made.parameters["token"]
    change(client, made, filled(**{"remove_parameter-token": "on"}))
    assert "token" not in stored().parameters
    rows = changes()
    assert len(rows) == 4
    told = str([(row.before, row.after) for row in rows])
    assert SECRET not in told
    assert "gAAAA" not in told


def test_changing_is_refused_when_somebody_else_was_faster(client: Client) -> None:
    create(client)
    made = stored()
    address = reverse("cron-change", args=[made.pk])
    seen = client.get(address).context["seen"]
    made.keep_runs = 5
    made.save()
    answer = client.post(address, {"seen": seen, **filled(keep_runs="77")})
    assert answer.status_code == 409
    assert "keep_runs" in answer.text
    assert stored().keep_runs == 5
    again = client.post(address, {"seen": answer.context["seen"], **filled(keep_runs="77")})
    assert again.status_code == 303
    assert stored().keep_runs == 77


def test_saving_without_a_difference_writes_no_audit_row(client: Client) -> None:
    create(client)
    assert change(client, stored(), filled()).status_code == 303
    assert len(changes()) == 1


def test_a_clone_begins_with_everything_and_a_free_name(client: Client) -> None:
    create(client, **{"parameter-token": SECRET, "parameter-days": "12"})
    made = stored()
    address = f"{reverse('cron-new')}?like={made.pk}"
    page = client.get(address)
    assert 'value="Nightly-copy"' in page.text
    assert 'name="parameter-days" value="12"' in page.text
    assert len(page.context["effect"].moments) == 5
    copied = filled(name="Nightly-copy", **{"parameter-days": "12"})
    assert client.post(address, copied).status_code == 303
    copy = CronInstance.objects.get(name="Nightly-copy")
    assert copy.parameters == made.parameters
    taken = client.post(address, copied)
    assert taken.status_code == 422
    assert "already exists" in taken.text


def test_deleting_asks_for_a_reason_and_spares_a_queues_consumer(client: Client) -> None:
    create(client)
    made = stored()
    address = reverse("cron-delete", args=[made.pk])
    assert "history of 0 runs" in client.get(address).text
    assert client.post(address).status_code == 422
    assert client.post(address, {"reason": "not needed"}).status_code == 303
    assert not CronInstance.objects.filter(task="typed").exists()
    assert changes()[-1].action == "delete"
    consumer = CronInstance.objects.get(queue=a_queue_row())
    refused = client.post(reverse("cron-delete", args=[consumer.pk]), {"reason": "x"})
    assert refused.status_code == 409
    assert CronInstance.objects.filter(pk=consumer.pk).exists()


def test_a_task_that_is_not_installed_can_be_looked_at_paused_and_deleted(client: Client) -> None:
    create(client, **{"parameter-token": SECRET})
    CronInstance.objects.filter(task="typed").update(task="gone_away")
    made = CronInstance.objects.get(task="gone_away")
    page = client.get(reverse("cron-instance", args=[made.pk])).text
    assert "not installed" in page.lower()
    assert "gAAAA" not in page
    assert client.get(reverse("cron-change", args=[made.pk])).status_code == 404
    assert client.post(reverse("run-now", args=[made.pk])).status_code == 409


def test_runs_carry_the_name_of_the_person_they_run_as(client: Client) -> None:
    clerk = User.objects.create_user("clerk")
    create(client, run_as=clerk.pk)
    assert stored().actor == "clerk (cron task)"


def test_what_beat_has_twice_by_a_race_keeps_nobody_from_saving(client: Client) -> None:
    """Its tables take two rows of one schedule, and two processes can store them at once."""
    times = {"minute": "30", "hour": "2", "day_of_week": "1,2,3,4,5", "timezone": "Europe/Berlin"}
    twice = [CrontabSchedule.objects.create(**times) for _ in range(2)]
    assert create(client).status_code == 303
    made = CronInstance.objects.get(name="Nightly")
    assert made.periodic_task.crontab == twice[0]
    rows = [IntervalSchedule.objects.create(every=10, period="seconds") for _ in range(2)]
    consumer = a_queue_row().instances.get()
    assert consumer.periodic_task.interval == rows[0]
