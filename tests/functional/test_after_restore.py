"""A copied database stays quiet, and acts only when a person says so."""

from io import StringIO

import pytest
from django.core.management import CommandError, call_command
from django.db import connection
from django.test import Client
from django.urls import reverse

from crontasks import ticks
from integration.actions.configuration import Author
from integration.delivery.report import RunEnding
from integration.models import (
    ConfigurationChange,
    Deployment,
    OutboxRow,
    QueuePartition,
    RelayLease,
)
from integration.restore import adopting
from integration.restore.adopting import NothingToAdoptError, TwinRunningError
from integration.runs import relay as wiring
from integration.runs.queues import run_queue
from integration.selectors.deployment import may_act
from integration.store import deployments
from tests.support import restored
from tests.support.builders import a_queue
from tests.support.http_api import a_partner
from tests.support.kafka_world import Kafka
from tests.support.rows import a_person

pytestmark = [pytest.mark.servers, pytest.mark.django_db(transaction=True)]


def said(command: str, *arguments: str) -> str:
    out = StringIO()
    call_command(command, *arguments, stdout=out)
    return out.getvalue()


@pytest.fixture
def copied(settings) -> None:
    """This database belongs to production and lies elsewhere; this process is a rehearsal."""
    restored.own()
    Deployment.objects.update(environment="production", database_mark="1/2/3")
    settings.SLUICE_ENVIRONMENT = "rehearsal"


def test_nothing_moves_and_nothing_is_sent_from_a_copy(servers, copied):
    broker = Kafka(servers.kafka_bootstrap)
    queue = a_queue(broker)
    broker.send(queue.topic, [{"n": 1}])

    assert run_queue(queue.pk).ending is RunEnding.STOPPED
    assert QueuePartition.objects.get(queue=queue).next_offset == 0
    assert wiring.shards() == []
    assert not may_act()
    assert ticks.may_act is may_act
    # Only looked at: the copy keeps what tells whose it is.
    assert Deployment.objects.get().database_mark == "1/2/3"


def test_the_http_api_accepts_nothing_for_a_copy(copied):
    partner = a_partner()
    adopting._Known.fit_at = float("-inf")
    refused = partner.post({"n": 1})
    assert (refused.status_code, refused.json()["code"]) == (503, "COPIED_DATABASE")
    assert "Retry-After" in refused
    assert not OutboxRow.objects.exists()

    Deployment.objects.update(environment="rehearsal")
    refused = partner.post({"n": 1})
    assert (refused.status_code, refused.json()["code"]) == (503, "RESTORED_DATABASE")

    said("after_restore")
    assert partner.post({"n": 1}).status_code == 202


def test_the_page_shows_a_copy_on_every_page_and_lets_an_administrator_adopt_it(copied):
    client = Client()
    client.force_login(a_person("Administrators"))
    assert "belongs to “production”" in client.get("/queues/").content.decode()
    page = client.get("/restore/").content.decode()
    assert reverse("adopt-database") in page

    assert client.post("/restore/adoptions/", {"reason": "x"}).status_code == 422
    done = client.post("/restore/adoptions/", {"reason": "moved house", "stopped": "on"})
    assert done.status_code == 303
    assert ConfigurationChange.objects.get(kind="deployment").reason == "moved house"
    # Copied data is looked at before it acts, and every page says so.
    assert "went back to an earlier state" in client.get("/queues/").content.decode()
    assert client.post("/restore/looks/").status_code == 303
    assert may_act()
    assert client.get("/restore/").context["overview"].current is None


def test_a_copy_under_the_same_name_needs_a_word_about_its_twin(copied):
    assert "belongs to production" in said("adopt_database")
    assert Deployment.objects.get().environment == "production"
    with pytest.raises(TwinRunningError):
        adopting.adopt(Author("anna"))
    with pytest.raises(CommandError, match="TWIN_MAY_RUN"):
        said("adopt_database", "--yes")

    assert "rehearsal" in said("adopt_database", "--yes", "--other-is-stopped")

    change = ConfigurationChange.objects.get(kind="deployment")
    assert (change.before, change.after) == (
        {"environment": "production"},
        {"environment": "rehearsal"},
    )
    # It was copied, so it is looked at like a restored one before it acts.
    assert not may_act()
    said("after_restore")
    assert may_act()
    with pytest.raises(NothingToAdoptError):
        adopting.adopt(Author("anna"))


def test_another_name_needs_no_word_and_begins_anew_in_kafka(settings, servers, copied):
    settings.SLUICE_DEPLOYMENT = "copy"
    queue = a_queue(Kafka(servers.kafka_bootstrap))
    RelayLease.objects.create(provider=queue.provider, batch_rows=[1, 2], watermark="x")
    plan = adopting.planned()
    assert plan is not None
    assert not plan.needs_word
    assert any("2 outgoing messages" in line for line in plan.consequences())

    adopting.adopt(Author("anna", "for tests"))

    assert RelayLease.objects.get().watermark is None
    with connection.cursor() as cursor:
        assert deployments.foreign_environment(cursor) is None


def test_the_command_says_that_a_copy_is_adopted_first(copied):
    with pytest.raises(CommandError, match="adopt_database"):
        said("after_restore")


def test_a_database_that_did_not_move_has_nothing_to_decide():
    restored.own()
    assert "no restore was noticed" in said("after_restore")
