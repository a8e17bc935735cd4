"""Cron tasks that run with a user's rights: asked at each run, and given by nobody who lacks them.

How: the task `guarded` wants a permission of its own; its run is ticked here.
"""

from datetime import timedelta
from typing import Any

import pytest
from django.contrib.auth.models import Permission, User
from django.test import Client
from django.urls import reverse
from django.utils import timezone

from console.layout.access import Right
from console.models import Limit
from crontasks import ticks
from crontasks.models import CronInstance
from crontasks.outcome import Outcome
from tests.support.http_api import problem
from tests.support.operator_api import a_program, facts
from tests.support.rows import a_person
from tests.support.world.crontasks import GUARDED_BY

pytestmark = [pytest.mark.servers, pytest.mark.django_db(transaction=True)]
FILE = """format: 1
cron_instances:
- name: By file
  task: guarded
  interval_seconds: 3600
  run_as: {}
  with_rights: true
"""


def permit(person: User, permission: str = GUARDED_BY) -> User:
    app, _, codename = permission.partition(".")
    found = Permission.objects.get(content_type__app_label=app, codename=codename)
    person.user_permissions.add(found)
    return person


@pytest.fixture
def clerk() -> User:
    return permit(a_person(name="clerk"))


@pytest.fixture
def instance(clerk: User) -> CronInstance:
    made = CronInstance(
        name="Guarded", task="guarded", interval_seconds=3600, run_as=clerk, with_rights=True
    )
    made.save()
    return made


def outcome_of(instance: CronInstance) -> Outcome:
    return ticks.tick(instance.pk, timezone.now() + timedelta(hours=1))


def refused(outcome: Outcome) -> bool:
    return outcome.state == "FAILED" and outcome.text.startswith("RUN_AS_REFUSED:")


def test_a_run_has_the_user_whose_rights_it_runs_with(instance: CronInstance, clerk: User) -> None:
    assert outcome_of(instance).text == "for clerk"
    assert instance.runs.get().state == "DONE"
    CronInstance.objects.filter(pk=instance.pk).update(with_rights=False, last_scheduled_at=None)
    clerk.user_permissions.clear()
    assert outcome_of(instance).text == "for nobody", "a name alone grants and takes nothing"


def test_what_the_user_lost_since_is_missed_at_the_next_run(
    instance: CronInstance, clerk: User
) -> None:
    clerk.user_permissions.clear()
    assert refused(outcome_of(instance))
    assert instance.runs.get().state == "FAILED"


@pytest.mark.parametrize("lost", ["active", "account", "systems"])
def test_who_is_gone_or_limited_has_nothing_done(
    instance: CronInstance, clerk: User, lost: str
) -> None:
    match lost:
        case "active":
            User.objects.filter(pk=clerk.pk).update(is_active=False)
        case "account":
            clerk.delete()
        case _:
            Limit.objects.create(person=clerk)
    assert refused(outcome_of(instance))


def add(client: Client, user: User) -> Any:
    form = {
        "name": "By hand",
        "active": "on",
        "interval_seconds": "1 h",
        "time_zone": "UTC",
        "overlap": "skip",
        "misfire": "run_once",
        "timeout_seconds": "10 min",
        "keep_runs": "10",
        "run_as": user.pk,
        "with_rights": "on",
        "reason": "by night",
    }
    return client.post(f"{reverse('cron-new')}?task=guarded", form)


def test_nobody_gives_rights_that_they_do_not_have(clerk: User) -> None:
    configurer = a_person("Administrators")
    client = Client()
    client.force_login(configurer)
    program = a_program("Administrators")
    root = User.objects.create_superuser("root")
    for user in (clerk, root):
        answer = add(client, user)
        file = FILE.format(user.username).encode()
        said = problem(program.put("/configuration", file), 403, "RIGHT_MISSING")["detail"]
        assert answer.status_code == 422
        assert said.startswith(answer.context["form"].errors["with_rights"][0]), "in the same words"
    assert not CronInstance.objects.filter(task="guarded").exists()
    for person in (configurer, program.person):
        permit(person)
    assert add(client, clerk).status_code == 303
    assert facts(program.put("/configuration", FILE.format("clerk").encode()))["steps"]
    assert CronInstance.objects.filter(task="guarded", with_rights=True).count() == 2


def test_nor_other_parameters_to_a_run_with_such_rights(instance: CronInstance) -> None:
    place = f"/cron/{instance.pk}/runs"
    problem(a_program("Administrators").post(place, {"parameters": {}}), 403, "RIGHT_MISSING")
    client = Client()
    client.force_login(a_person("Administrators"))
    answer = client.post(reverse("run-now", args=[instance.pk]), {"with-parameters": "1"})
    assert answer.status_code == 422
    assert answer.context["form"].non_field_errors()


def test_a_token_with_some_rights_hands_out_no_others_of_its_person() -> None:
    program = a_program("Administrators", rights=[Right.VIEW, Right.CONFIGURE])
    permit(program.person)
    file = FILE.format(program.person.username).encode()
    problem(program.put("/configuration", file), 403, "RIGHT_MISSING")


def test_a_queues_run_is_in_nobodys_name() -> None:
    anna = a_person("Viewers", "anna")
    file = FILE.replace("guarded", "relay").format(anna.username).encode()
    said = problem(a_program().post("/configuration/plans", file), 422, "CONFIG_FILE")
    assert "with_rights" in str(said["mistakes"])
