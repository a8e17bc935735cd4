"""PostgreSQL dies for good, and its standby takes over behind the same address.

What is tested: no process is started anew, nothing that was confirmed is lost, nothing is doubled,
and what was not confirmed is done again. How: a primary with a standby that streams from it, both
behind a proxy; the primary is killed by SIGKILL while messages go through a queue and the relay, or
while a commit waits for the standby. Then the standby is promoted, and what became of each message
is counted in SQL and in Kafka.
"""

import json
import os
import signal
from collections.abc import Iterator
from contextlib import closing

import pytest
from confluent_kafka import Message
from django.db import connection, connections
from django.test import Client
from django.urls import reverse

from crontasks.models import CronInstance
from integration.delivery.report import RunEnding
from integration.delivery.steps import Step
from integration.models import (
    ErrorAttempt,
    MessageError,
    OutboxRow,
    Queue,
    QueuePartition,
    Restore,
    RestoreFinding,
)
from integration.restore import examining
from integration.runs.queues import run_queue
from integration.store import branches, deployments
from tests.support import restored, warm
from tests.support.builders import a_brief_queue, a_queue
from tests.support.celery_world import Child, celery_world, eventually
from tests.support.flows import drain, effects, ended, standing
from tests.support.kafka_world import Kafka
from tests.support.killed import await_kill
from tests.support.restored import once_noted
from tests.support.rows import a_person
from tests.support.standby import Pair, Unconfirmed, replicated

pytestmark = [pytest.mark.crash, pytest.mark.servers, pytest.mark.django_db(transaction=True)]

MESSAGES, BATCH = 3_000, 20
IN_COMMIT = "SELECT 1 FROM pg_stat_activity WHERE query = 'COMMIT' AND wait_event = 'SyncRep'"


@pytest.fixture
def pair(transactional_db: None, servers: object) -> Iterator[Pair]:
    with replicated() as started, started.as_default():
        restored.own()
        yield started


@pytest.fixture
def hasty_pair(transactional_db: None, servers: object) -> Iterator[Pair]:
    """One whose primary does not wait for the standby."""
    with replicated(Unconfirmed) as started, started.as_default():
        restored.own()
        yield started


@pytest.fixture
def broker(servers) -> Kafka:
    return Kafka(servers.kafka_bootstrap)


def outbound(broker: Kafka, queue: Queue) -> Queue:
    """Where the handlers publish to."""
    return Queue.objects.create(
        name="out",
        provider=queue.provider,
        topic=broker.topic(),
        direction="outbound",
        kind="continuous",
        start_from="beginning",
    )


def account(*queues: Queue, messages: int) -> None:
    """So many messages of each queue, one queue's numbers behind the other's."""
    assert effects() == list(range(len(queues) * messages))
    for queue in queues:
        assert ended(queue) == dict.fromkeys(range(messages), "APPLIED")
        assert standing(queue) == (messages, "RUNNING", "")
    assert not MessageError.objects.exists()
    assert not ErrorAttempt.objects.exists()


def sent(broker: Kafka, out: Queue, count: int) -> list[Message]:
    """All that readers of committed records see, once they see so many.

    A transaction that a killed process left open hides what is behind it until it is aborted, which
    Kafka does in its own time.
    """
    eventually(lambda: len(broker.read_all(out.topic)) >= count, every=0.2)
    return broker.read_all(out.topic)


def account_for_published(broker: Kafka, out: Queue) -> None:
    envelopes = [json.loads(record.value()) for record in sent(broker, out, MESSAGES)]
    published = [json.loads(envelope["payload"])["n"] for envelope in envelopes]
    assert sorted(published) == list(range(MESSAGES))


def take_over(pair: Pair, person: Client) -> None:
    """The primary dies; what a person sees of it meanwhile and afterwards."""
    page = reverse("queues")
    pair.primary.kill()
    said = person.get(page)
    assert (said.status_code, said["Retry-After"]) == (503, "5")
    assert "The database does not answer" in said.text
    pair.turn()
    pair.wait_for_clients()
    pair.standby.promote()
    connections.close_all()
    assert person.get(page).status_code == 200


def pool_of(*workers: Child) -> set[int]:
    return {pid for worker in workers for pid in (worker.pid, *worker.children())}


@pytest.mark.timeout(240)
def test_every_process_goes_on_with_the_standby_and_nothing_is_lost_or_doubled(
    pair: Pair, broker: Kafka, child_environment, tmp_path
) -> None:
    """The address leads to the standby before that is promoted: it refuses writes for a while."""
    CronInstance.objects.all().delete()
    queue = a_queue(broker, batch_size=BATCH, stay_seconds=600.0)
    out = outbound(broker, queue)
    CronInstance.objects.create(name="relay", task="relay", interval_seconds=1)
    person = Client(raise_request_exception=False)
    person.force_login(a_person("Administrators"))
    environment = child_environment | {"SLUICE_DATABASE_URL": pair.url}
    with celery_world(environment, tmp_path) as world:
        worker = world.worker("one", concurrency=2)
        relay = world.worker("relay", concurrency=1, queues="relay")
        beat = world.beat("beat")
        broker.send(queue.topic, [{"n": n, "do": "publish"} for n in range(MESSAGES)])
        eventually(lambda: len(effects()) > BATCH, worker, relay)
        before, epoch = pool_of(worker, relay), QueuePartition.objects.get(queue=queue).epoch

        take_over(pair, person)
        assert len(effects()) < MESSAGES
        eventually(lambda: len(effects()) >= MESSAGES, worker, relay, beat)
        unsent = OutboxRow.objects.exclude(state="PUBLISHED")
        eventually(lambda: not unsent.exists(), worker, relay, beat)
        assert pool_of(worker, relay) == before
        assert beat.process.poll() is None
    account(queue, messages=MESSAGES)
    account_for_published(broker, out)
    assert QueuePartition.objects.get(queue=queue).epoch > epoch
    restore = Restore.objects.get()
    assert (restore.noticed_by, restore.closed_by) == ("timeline", examining.BY_ITSELF)
    assert not RestoreFinding.objects.exists()


def test_a_commit_that_waits_for_the_standby_is_done_again_when_that_never_got_it(
    pair: Pair, broker: Kafka, child_environment
) -> None:
    """The primary has it on its disk and has told nobody: the two servers differ by it."""
    queue = a_queue(broker, batch_size=BATCH, stay_seconds=0.1)
    broker.send(queue.topic, [{"n": n} for n in range(3 * BATCH)])
    words = ["-m", "tests.support.crash_child", str(queue.pk), Step.HANDLED, "1", "STOP"]
    worker = warm.child(words, child_environment | {"SLUICE_DATABASE_URL": pair.url})
    try:
        worker.wait_until_stopped()
        pair.cut_off_standby()
        os.kill(worker.pid, signal.SIGCONT)
        eventually(lambda: in_commit(pair))
        pair.fail_over()
        said, _ = worker.communicate(timeout=60)
    finally:
        worker.kill()
    connections.close_all()
    assert b"LOST" in said, said
    assert standing(queue)[0] == 0
    assert effects() == []
    look(queue)
    drain(queue)
    account(queue, messages=3 * BATCH)


def in_commit(pair: Pair) -> bool:
    """Whether the first batch's commit waits; asked without one of Django's sessions."""
    with closing(pair.session()) as session:
        return session.execute(IN_COMMIT).fetchone() is not None


def look(queue: Queue) -> Restore:
    """As the leading worker looks at once what a promotion means."""
    assert run_queue(queue.pk).ending is RunEnding.STOPPED
    restore = examining.current()
    assert restore is not None
    return examining.look(restore)


def test_a_batch_between_its_two_commits_is_settled_on_the_standby(
    pair: Pair, broker: Kafka, child_environment
) -> None:
    """Prepared, replicated and, of the second queue, decided by Kafka: it is committed there."""
    environment = child_environment | {"SLUICE_DATABASE_URL": pair.url}
    queues = [a_brief_queue(broker, two_phase=True, batch_size=BATCH) for _ in range(2)]
    out = outbound(broker, queues[0])
    for queue, step, first in zip(
        queues, (Step.PREPARED, Step.DECIDED), (0, 2 * BATCH), strict=True
    ):
        numbers = range(first, first + 2 * BATCH)
        broker.send(queue.topic, [{"n": n, "do": "publish"} for n in numbers])
        words = ["-m", "tests.support.crash_child", str(queue.pk), step, "1", "KILL"]
        await_kill(warm.child(words, environment), step)
    assert len(branches.left()) == len(queues)
    pair.fail_over()
    connections.close_all()
    look(queues[0])
    # Kafka may not be able to tell at the first run; the next one asks again.
    eventually(lambda: all(map(drain, queues)) and branches.left() == [], every=0.5)
    for queue in queues:
        drain(queue)
    account(*queues, messages=2 * BATCH)
    assert sorted(int(record.key()) for record in sent(broker, out, 4 * BATCH)) == effects()
    assert branches.left() == []


def test_what_a_standby_never_got_is_told_and_nothing_acts_before_that_is_decided(
    hasty_pair: Pair, broker: Kafka
) -> None:
    """Without synchronous replication: commits that clients were told of are gone."""
    queue = a_queue(broker, batch_size=BATCH, stay_seconds=0.1)
    broker.send(queue.topic, [{"n": n} for n in range(BATCH)])
    drain(queue)
    hasty_pair.wait_until_caught_up()
    hasty_pair.cut_off_standby()
    Queue.objects.filter(pk=queue.pk).update(stay_seconds=20.0)
    broker.send(queue.topic, [{"n": n} for n in range(BATCH, 2 * BATCH)])
    run_queue(queue.pk, stop=once_noted(queue))
    assert standing(queue)[0] == 2 * BATCH

    hasty_pair.fail_over()
    connections.close_all()
    with connection.cursor() as cursor:
        assert deployments.standing(cursor).is_moved, "told as soon as the standby takes writes"
    restore = look(queue)
    assert standing(queue)[0] == BATCH
    [finding] = restore.findings.all()
    assert (finding.kind, finding.facts["from"], finding.facts["to"]) == (
        "position",
        BATCH,
        2 * BATCH,
    )
    assert run_queue(queue.pk).ending is RunEnding.STOPPED
    assert effects() == list(range(BATCH))
