"""Taking the sample away: nothing of it is left, everything else stays, its traffic ends."""

import io
import signal
from pathlib import Path
from random import Random
from typing import Any

import pytest
from django.apps import apps
from django.core.management import call_command
from django.db import connection
from django.test import Client
from django.urls import reverse

from console.models import Limit
from devstack.servers import Servers
from integration.kafka import admin
from integration.models import (
    ConfigurationChange,
    ExternalSystem,
    MessageError,
    Operation,
    OperationItem,
    OutboxRow,
    Provider,
    Queue,
)
from integration.runs.queues import run_queue
from sample import names, removal, traffic
from sample.management.commands.sample_traffic import Partner
from tests.functional.test_sample import NOW, planted  # noqa: F401 - a fixture
from tests.support import warm
from tests.support.celery_world import eventually
from tests.support.rows import a_held, a_person, a_place, a_queue_row

pytestmark = [pytest.mark.servers, pytest.mark.usefixtures("planted")]
# What tells of the removal, and what belongs to people and to the installation.
STAYS = {
    "integration_configurationchange",
    "integration_provider",
    "integration_deployment",
    "crontasks_croninstance",
    "crontasks_heartbeat",
    # Hashes of what has arrived, which nobody can tell apart; cleanup removes them after a week.
    "integration_arrivedobject",
}


@pytest.fixture
def client(transactional_db: None) -> Client:
    client = Client()
    client.force_login(a_person("Administrators", "ada"))
    return client


@pytest.fixture
def no_traffic(monkeypatch: pytest.MonkeyPatch) -> None:
    """Nobody plays the partners in this test: the removal waits for none to notice it."""
    monkeypatch.setattr(removal, "TRAFFIC_SECONDS", 0.0)


def counts() -> dict[str, int]:
    """Rows of every table of ours."""
    rooms = {"integration", "crontasks", "sample"}
    tables = [m._meta.db_table for m in apps.get_models() if m._meta.app_label in rooms]
    found = {}
    with connection.cursor() as cursor:
        for table in tables:
            cursor.execute(f"SELECT count(*) FROM {table}")
            found[table] = cursor.fetchone()[0]
    return {table: count for table, count in found.items() if count}


def lived_in() -> None:
    """The sample with messages, failures of several kinds, and an operation over some of them."""
    partner = Partner()
    made = traffic.Traffic(Random(3))
    for sent in made.opening(NOW):
        partner.send(sent)
    for make in traffic.FAILURES:
        partner.send(make(Random(6), NOW))
    partner.send(traffic.blocking(Random(7)))
    assert partner.close() == 0
    Queue.objects.filter(name__in=names.TOPICS).update(stay_seconds=0)
    for name in (names.ASSETS, names.MAINTENANCE, names.STOCK):
        run_queue(Queue.objects.get(name=name).pk)
    operation = Operation.objects.create(
        verb="hold", title="x", actor="a", created_at=NOW, total=1, state="PAUSED"
    )
    error = MessageError.objects.filter(queue__name=names.STOCK).first()
    assert error is not None
    OperationItem.objects.create(operation=operation, place=0, error=error, version=1)


def remove(client: Client, **fields: str) -> Any:
    form = {"word": "sample", "reason": "we have partners of our own", **fields}
    return client.post(reverse("removal", args=["sample"]), form)


def test_nothing_of_the_sample_is_left_and_everything_else_stays(
    client: Client, no_traffic: None
) -> None:
    lived_in()
    before_ours = counts()
    mine = a_queue_row(system=ExternalSystem.objects.create(name="mine"))
    a_place(mine)
    error = a_held(mine)
    operation = Operation.objects.create(
        verb="hold", title="x", actor="a", created_at=NOW, total=1, state="PAUSED"
    )
    OperationItem.objects.create(operation=operation, place=0, error=error, version=1)
    sent = OutboxRow.objects.create(
        provider=mine.provider, topic="mine", kind="MESSAGE", state="PENDING", created_at=NOW
    )
    ours = {
        table: count - before_ours.get(table, 0)
        for table, count in counts().items()
        if count != before_ours.get(table, 0) and table not in STAYS
    }
    provider = Provider.objects.get(name=names.PROVIDER)
    assert set(names.TOPICS.values()) <= set(admin.topics(provider))

    assert not removal.was_removed()
    page = client.get(reverse("removal", args=["sample"])).text
    assert "erp, depot, supplier, archive, ledger" in page
    answer = remove(client)

    assert answer.status_code == 303
    left = {table: count for table, count in counts().items() if table not in STAYS}
    assert left == ours
    assert Queue.objects.get() == mine
    assert OutboxRow.objects.get() == sent
    assert Provider.objects.filter(name=names.PROVIDER).exists()
    every = set(names.TOPICS.values())
    eventually(lambda: not every & set(admin.topics(provider)), every=0.1)
    assert "; 8 queues; " in client.get(answer["Location"]).text
    assert client.get(reverse("removal", args=["sample"])).status_code == 404
    the_history_tells_who_removed_what()
    it_stays_away_until_somebody_plants_it_again()


def the_history_tells_who_removed_what() -> None:
    removals = ConfigurationChange.objects.filter(action="delete")
    told = removals.values_list("kind", "name")
    assert {("queue", name) for name in names.TOPICS} <= set(told)
    assert {("externalsystem", "erp"), ("externalsystem", "depot")} <= set(told)
    assert set(removals.values_list("actor", flat=True)) == {"ada"}


def it_stays_away_until_somebody_plants_it_again() -> None:
    """And then what other configuration needs stays, and is named."""
    assert removal.was_removed()
    said = io.StringIO()
    call_command("devstack_seed", stdout=said)
    assert not removal.is_there()
    call_command("seed_sample", stdout=said)
    assert removal.is_there()
    assert not removal.was_removed()
    needing = a_queue_row(system=ExternalSystem.objects.get(name=names.SYSTEM))
    call_command("remove_sample", stdout=said)
    assert "8 queues" in said.getvalue()
    assert "8 topics" in said.getvalue()
    assert "external system erp stays: " in said.getvalue()
    assert f"queue {needing}" in said.getvalue()
    assert not Queue.objects.filter(name__in=names.TOPICS).exists()
    assert Queue.objects.contains(needing)


def test_its_traffic_ends(
    client: Client,
    servers: Servers,
    child_environment: dict[str, str],
    tmp_path: Path,
) -> None:
    program = tmp_path / "traffic.py"
    program.write_text(TRAFFIC.format(topics=dict(names.TOPICS)))
    playing = warm.child([str(program)], child_environment, text=True)
    try:
        assert playing.stdout is not None
        topic = names.TOPICS[names.STOCK]
        provider = Provider.objects.get(name=names.PROVIDER)
        # Each look is a client of its own.
        eventually(lambda: sum(admin.topic_facts(provider, topic).high.values()), every=0.5)
        assert remove(client).status_code == 303
        lines = iter(playing.stdout.readline, "")
        assert any("The sample was removed; nothing is sent" in line for line in lines)
        assert playing.poll() is None, "it waits for the sample to come back"
        playing.send_signal(signal.SIGTERM)
        assert playing.wait(10) == 0
    finally:
        playing.kill()


TRAFFIC = """
import sys
sys.stdout.reconfigure(line_buffering=True)
from django.core.management import call_command
from sample import names
names.TOPICS.update({topics})
call_command("sample_traffic", rate=20)
"""


def test_it_needs_the_right_to_configure_everything_the_word_and_a_reason(client: Client) -> None:
    for spoilt in ({"word": "Sample!"}, {"reason": " "}):
        answer = remove(client, **spoilt)
        assert answer.status_code == 422, spoilt
        assert "Nothing was removed" in answer.text, spoilt
        assert removal.is_there(), spoilt
    assert reverse("removal", args=["sample"]) in client.get(reverse("cleanup")).text
    operator = Client()
    operator.force_login(a_person("Operators"))
    assert remove(operator).status_code == 403
    assert reverse("removal", args=["sample"]) not in operator.get(reverse("cleanup")).text
    limited = a_person("Administrators")
    Limit.objects.create(person=limited).systems.add(ExternalSystem.objects.first())
    client.force_login(limited)
    assert remove(client).status_code == 403
    assert removal.is_there()
    assert client.get(reverse("removal", args=["nothing"])).status_code == 404
