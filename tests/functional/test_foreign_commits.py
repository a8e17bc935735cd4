"""Prepared transactions that are none of ours are left to whom they belong, in both databases.

How: transactions are prepared by hand under other deployments' names and under names of anybody, in
the engine's database and in a second one; then all is settled, a queue is run, and a person looks.
"""

import uuid
from dataclasses import replace
from html import unescape

import pytest
from django.conf import settings
from django.core import mail
from django.urls import reverse

from crontasks.notices import book, conditions
from integration.actions.two_phase import BranchNotInDoubtError, decide
from integration.models import ExternalSystem, MessageError, OutboxChange, Queue, QueuePartition
from integration.policy.branches import Branch, Second
from integration.runs.branches import settle_all
from integration.runs.queues import run_queue
from integration.selectors.outbox import branches
from integration.store.sessions import Session
from tests.support.builders import a_brief_queue
from tests.support.kafka_world import Kafka
from tests.support.prepared import (  # noqa: F401 - a fixture, by its name
    LEDGER,
    given_ledger,
    names,
    prepare,
    roll_back,
)
from tests.support.rows import some_live_processes
from tests.support.set_up import limited_to, logged_in
from tests.support.world.models import Effect, Unique

pytestmark = [pytest.mark.servers, pytest.mark.django_db(transaction=True)]
# What tells the other installation's database.
ELSEWHERE = "0" * 8
ROW = f"INSERT INTO {Unique._meta.db_table} (name) VALUES ('{{}}')"


@pytest.fixture
def queue(servers, ledger: Session, monkeypatch):
    monkeypatch.setattr(branches, "LEFT_AFTER_SECONDS", 0.0)
    broker = Kafka(servers.kafka_bootstrap)
    # Whoever settles looks into the second databases of all queues.
    a_brief_queue(broker, two_phase=True, second_database=LEDGER)
    yield a_brief_queue(broker, two_phase=True)
    roll_back()


def foreign(queue: Queue) -> list[str]:
    """Of other deployments, with names that are like ours, and of whom we know nothing."""
    own = settings.SLUICE_DEPLOYMENT
    second = Second(LEDGER, 4711)
    branch = Branch("another", queue.pk, 0, 5, 1, 9, uuid.uuid4(), second)
    alike = ["another", f"{own}-2", f"{own}:2", f"{own}:{queue.pk}:0", own.upper()]
    return [
        *(str(replace(branch, deployment=name, batch=uuid.uuid4())) for name in alike),
        "a-transaction-manager/1a2b",
    ]


def test_what_other_deployments_have_prepared_is_left_alone(queue: Queue, ledger: Session) -> None:
    there = foreign(queue)
    for n, name in enumerate(there):
        prepare(name, ROW.format(f"n-{n}"))
        prepare(f"{name}:{ELSEWHERE}", f"INSERT INTO entry VALUES ({n})", LEDGER)
    Kafka(queue.provider.bootstrap_servers).send(queue.topic, [{"n": 1}])
    assert settle_all() == 0
    report = run_queue(queue.pk)
    assert report.counts == {"APPLIED": 1}, MessageError.objects.get().text
    assert [effect.n for effect in Effect.objects.all()] == [1]
    assert branches.commits_in_doubt() == []
    page = logged_in().get(reverse("outbox")).text
    assert not [name for name in there if name in page]
    for name in there:
        with pytest.raises(BranchNotInDoubtError):
            decide(name, commit=False, actor="anna", reason="It is in the way.")
    assert not OutboxChange.objects.exists()
    assert names() == sorted(there)
    assert names(LEDGER) == sorted(f"{name}:{ELSEWHERE}" for name in there)


def test_a_partition_that_a_foreign_transaction_holds_is_told_with_its_way_out(
    queue: Queue, settings, valkey
) -> None:
    """As in a copy of the server's files that runs under another deployment's name."""
    settings.SLUICE_NOTIFY_EMAILS = ["ops@example.org"]
    some_live_processes()
    [own, name] = [
        str(Branch(who, queue.pk, 0, 5, 1, 9, uuid.uuid4()))
        for who in (settings.SLUICE_DEPLOYMENT, "b")
    ]
    partition = QueuePartition._meta.db_table
    prepare(name, f"UPDATE {partition} SET next_offset = 5 WHERE queue_id = {queue.pk}")
    client, told = logged_in("Viewers"), f"{queue.name}, partition 0, is held by somebody else"
    page = unescape(client.get("/").text)
    assert told in page
    assert f"ROLLBACK PREPARED '{name}'" in page
    limited = limited_to(ExternalSystem.objects.create(name="others"))
    assert name not in limited.get("/").text
    book.settle(conditions.seen_by_workers(is_settled=False), conditions.WORKER_KINDS)
    [sent] = mail.outbox
    assert sent.subject.endswith(f"Queue blocked: {queue.name}[0]")
    assert name in sent.body
    roll_back()
    prepare(own, f"UPDATE {partition} SET next_offset = 5 WHERE queue_id = {queue.pk}")
    assert branches.held_by_others() == [], "our own is in doubt, not held by others"
    assert len(branches.commits_in_doubt()) == 1
    assert told not in client.get("/").text
