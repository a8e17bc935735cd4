"""What is in the topic is what is in the database, wherever a two-phase commit dies.

How: for each step a child process writes a row, sends two messages, and is killed with SIGKILL as
it gets there. One recovery follows. Then both are compared: a row's messages are in the topic once
each, and no others. With Django's atomic and with the package `transaction` as coordinator; with
the log of transactions in a topic and in the database.
"""

import signal
from itertools import product

import pytest
from django.utils import timezone

from crontasks import ticks
from crontasks.models import CronInstance, CronRun, Notice
from integration import connections
from integration.models import ExternalSystem, XaBranch, XaDecision
from integration.xa import stalled
from integration.xa.steps import XaStep
from tests.support import warm
from tests.support.kafka_world import Kafka
from tests.support.killed import await_free_locks
from tests.support.warm import WarmChild
from tests.support.xa import LOGS, a_factory, read

pytestmark = [pytest.mark.servers, pytest.mark.crash, pytest.mark.django_db(transaction=True)]

# So many at a time: each has a row, a branch and an id of its own.
AT_ONCE = 6
FACTORIES = ["payments", "other"]
ONLY_WITH_A_TABLE = {XaStep.MARKED, XaStep.DELIVERED}
# From here on the database has committed.
DECIDED = [
    XaStep.DECIDED,
    XaStep.MARKED,
    XaStep.COPIED,
    XaStep.DELIVERED,
    XaStep.COMMITTED,
    XaStep.FORGOTTEN,
]


@pytest.fixture
def broker(servers, monkeypatch):
    # Nobody lives whose transaction could be taken from it.
    monkeypatch.setattr(stalled, "PATIENCE_SECONDS", 0.3)
    yield Kafka(servers.kafka_bootstrap)
    connections.close_all()


def child(environment: dict, *words: str) -> WarmChild:
    words = ("-m", "tests.crash.xa_child", *words)
    return warm.child(words, environment, text=True, errors=True)


def killed(environment: dict, *each: tuple[str, ...]) -> None:
    """Children with these words, side by side; each of them is killed at its step."""
    for words, process in [(words, child(environment, *words)) for words in each]:
        assert process.stdout is not None
        with process.stdout as said:
            told = said.readline()
            why = "" if told == "there\n" else told + said.read()
        if "XaRolledBackError" in why:
            # The machine stood still, and another one thought that nobody has this transaction.
            process.wait(20)
            killed(environment, words)
            continue
        assert not why
        assert process.wait(20) == -signal.SIGKILL


def account_of_the_database() -> set[int]:
    rows = ExternalSystem.objects.filter(name__startswith="n-").values_list("name", flat=True)
    return {int(name.removeprefix("n-")) for name in rows}


def account(broker: Kafka, topic: str) -> set[int]:
    """The numbers that are in both, each with both of its messages, in their order."""
    numbers = account_of_the_database()
    found = read(broker, topic)
    for number in numbers | {each["n"] for each in found}:
        parts = [each["part"] for each in found if each["n"] == number]
        assert parts == (["a", "b"] if number in numbers else []), f"{number}: {parts}"
    return numbers


@pytest.mark.timeout(200)
@pytest.mark.parametrize("log", LOGS)
@pytest.mark.parametrize("coordinator", ["atomic", "transaction"])
def test_both_have_it_or_neither_wherever_it_dies(broker, child_environment, coordinator, log):
    a_factory(broker, log)
    topic = broker.topic()
    steps = [step for step in XaStep if log == "database" or step not in ONLY_WITH_A_TABLE]
    for first in range(0, len(steps), AT_ONCE):
        numbered = list(enumerate(steps))[first : first + AT_ONCE]
        about = coordinator, "payments", topic
        killed(child_environment, *((*about, str(n), step, "SIGKILL") for n, step in numbered))
    await_free_locks()
    counts = connections.recover_all()
    assert not counts["failed"], counts
    assert account(broker, topic) == {n for n, step in enumerate(steps) if step in DECIDED}
    # What was sent and not prepared stays until its time is over.
    [left] = connections.lookup("payments").xa().recover()
    assert left.state == "STARTED"
    assert not XaDecision.objects.exists()
    assert XaBranch.objects.count() == (log == "database")


def test_the_cron_task_settles_within_a_minute_what_a_killed_process_left(
    broker, child_environment
):
    a_factory(broker, "topic")
    a_factory(broker, "database", name="other")
    topic, steps = broker.topic(), [XaStep.PREPARED, XaStep.DECIDED, XaStep.COPIED]
    about = enumerate(product(FACTORIES, steps))
    killed(
        child_environment,
        *(("atomic", name, topic, str(n), step, "SIGKILL") for n, (name, step) in about),
    )
    await_free_locks()
    assert account_of_the_database() == {1, 2, 4, 5}
    # What it was writing is still open.
    assert broker.read_all(topic, decided=False) == []
    shipped = CronInstance.objects.get(task="xa_recovery")
    assert (shipped.interval_seconds, shipped.active) == (60, True)
    ticks.tick(shipped.pk, timezone.now())
    run = CronRun.objects.get(instance=shipped)
    assert (run.state, run.counts) == ("DONE", {"commit": 4, "rollback": 2})
    assert account(broker, topic) == {1, 2, 4, 5}
    ticks.tick(shipped.pk, timezone.now())
    assert CronRun.objects.count() == 1, "a tick that did nothing leaves no row"
    assert not Notice.objects.exists()


@pytest.mark.parametrize("log", LOGS)
def test_who_stood_still_while_others_recovered_doubles_nothing_when_it_wakes(
    broker, child_environment, log
):
    """Before the decision it is left alone; behind it, others deliver, and it finds that out."""
    a_factory(broker, log)
    topic = broker.topic()
    steps = [XaStep.PREPARED, XaStep.DECIDED, XaStep.COPIED]
    children = [
        child(child_environment, "atomic", "payments", topic, str(n), step, "SIGSTOP")
        for n, step in enumerate(steps)
    ]
    try:
        for process in children:
            process.expect_line("there")
            process.wait_until_stopped()
        assert connections.recover_all() == {"open": 1, "commit": 2}
        assert account(broker, topic) == {1, 2}
        for process in children:
            process.send_signal(signal.SIGCONT)
        for process in children:
            process.expect_line("through")
    finally:
        for process in children:
            process.kill()
            assert process.stdout is not None
            process.stdout.close()
    assert account(broker, topic) == {0, 1, 2}
    assert connections.lookup("payments").xa().recover() == []
    assert not XaDecision.objects.exists()
