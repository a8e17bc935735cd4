"""What is there before a handler is called, what comes after it, and where its author hooks in.

How: a handler in a decorator of its own notes at each point which transaction it is in and what
others see of it by then; messages succeed, fail, and spend their retries.
"""

from collections import Counter
from collections.abc import Callable
from functools import wraps

import pytest
from django.db import connection, connections, transaction

from integration.handlers import Failure, PermanentError, inbound
from integration.handlers.failures import TransientError
from integration.handlers.registry import registry
from integration.message import Message
from integration.models import EnterpriseService, MessageError, Queue, QueuePartition
from integration.runs.queues import run_queue
from integration.store.sessions import raw_connection
from tests.support.builders import a_brief_queue
from tests.support.kafka_world import Kafka
from tests.support.world.models import Effect

pytestmark = [pytest.mark.servers, pytest.mark.django_db(transaction=True)]
BATCH, COUNT = 3, 8

Noted = list[tuple[str, int, object]]


@pytest.fixture
def broker(servers, monkeypatch) -> Kafka:
    monkeypatch.setattr(registry, "_by_interface", dict(registry._by_interface))
    return Kafka(servers.kafka_bootstrap)


@pytest.fixture
def queue(broker: Kafka) -> Queue:
    service = EnterpriseService.objects.create(interface="PHASES")
    return a_brief_queue(broker, default_service=service, batch_size=BATCH)


def number() -> object:
    """Of the transaction that this connection is in; nothing where it is in none."""
    if not connection.in_atomic_block:
        return None
    with connection.cursor() as cursor:
        cursor.execute("SELECT pg_current_xact_id()::text")
        return cursor.fetchone()[0]


def seen_by_others() -> list[int]:
    with raw_connection("others") as session:
        rows = session.execute(f"SELECT n FROM {Effect._meta.db_table} ORDER BY n").fetchall()
    return [n for (n,) in rows]


def write(message: Message) -> None:
    about = {"message_id": message.message_id, "interface": message.interface}
    Effect.objects.create(n=message.body["n"], **about)


def around(noted: Noted) -> Callable[[Callable[[Message], None]], Callable[[Message], None]]:
    """What an author writes who wants something done before and after each delivery."""

    def decorate(handler: Callable[[Message], None]) -> Callable[[Message], None]:
        @wraps(handler)
        def call(message: Message) -> None:
            n = message.body["n"]
            noted.append(("before", n, number()))
            transaction.on_commit(lambda: noted.append(("committed", n, seen_by_others())))
            try:
                handler(message)
            finally:
                noted.append(("after", n, number()))

        return call

    return decorate


def taking(noted: Noted, **declared: object) -> None:
    @inbound("PHASES", **declared)
    @around(noted)
    def take(message: Message) -> None:
        write(message)
        if message.body.get("fails"):
            raise PermanentError("Refused.")


@pytest.mark.parametrize(("isolated", "transactions"), [(False, 3), (True, COUNT)])
def test_a_transaction_is_open_before_the_handler_and_committed_after_it(
    broker, queue, isolated, transactions
):
    """A transaction for a batch, which is no larger than it may be, or one for a message."""
    noted: Noted = []
    taking(noted, isolated=isolated)
    broker.send(queue.topic, [{"n": n} for n in range(COUNT)])
    run_queue(queue.pk)
    for n in range(COUNT):
        assert [phase for phase, n_, _ in noted if n_ == n] == ["before", "after", "committed"]
    within = {(n, number) for phase, n, number in noted if phase != "committed"}
    assert len(within) == COUNT, "one delivery, one transaction"
    shared = Counter(number for _, number in within)
    assert None not in shared
    assert len(shared) == transactions
    assert max(shared.values()) == (1 if isolated else BATCH)
    # What runs at the commit finds the message's own effect with others.
    assert all(n in seen for phase, n, seen in noted if phase == "committed")
    assert QueuePartition.objects.get(queue=queue).next_offset == COUNT


def test_after_a_failure_nothing_of_its_delivery_is_left_and_its_hooks_do_not_run(broker, queue):
    noted: Noted = []
    taking(noted)
    broker.send(queue.topic, [{"n": n, "fails": n == 1} for n in range(BATCH)])
    run_queue(queue.pk)
    assert seen_by_others() == [0, 2]
    assert {n for phase, n, _ in noted if phase == "after"} == {0, 1, 2}
    assert sorted(n for phase, n, _ in noted if phase == "committed") == [0, 2]
    assert MessageError.objects.get().state == "HOLD"


def test_the_hook_for_spent_retries_is_in_the_commit_that_puts_the_message_on_hold(broker, queue):
    noted: Noted = []

    def spent(message: Message, failure: Failure) -> None:
        noted.append((failure.code, message.body["n"], number()))
        write(message)

    @inbound("PHASES", on_exhausted=spent)
    def take(message: Message) -> None:
        raise TransientError("Not now.")

    Queue.objects.filter(pk=queue.pk).update(max_retries=1)
    broker.send(queue.topic, [{"n": 7}])
    for _ in range(3):
        run_queue(queue.pk)
    [(code, n, within)] = noted
    assert (code, n) == ("TRANSIENT_ERROR", 7)
    assert within is not None
    assert seen_by_others() == [7]
    assert MessageError.objects.get().state == "HOLD"


@pytest.fixture
def elsewhere(monkeypatch: pytest.MonkeyPatch):
    """Another alias, and no part of the transaction; Django's tests know none that come later."""
    monkeypatch.setitem(connections.settings, "elsewhere", {**connections.settings["default"]})
    connections["elsewhere"].connect()
    yield connections["elsewhere"]
    connections["elsewhere"].close()
    del connections["elsewhere"]


def test_who_takes_repeats_for_harmless_has_them_elsewhere_and_never_here(broker, queue, elsewhere):
    """There is no switch for exactly-once: a declaration only lets statements go elsewhere."""
    columns = "message_id, interface, n, arrival_batch, arrival_place"
    repeat = f"INSERT INTO {Effect._meta.db_table} ({columns}) VALUES ('', '', -1, 0, 0)"

    @inbound("PHASES", at_least_once=True)
    def take(message: Message) -> None:
        write(message)
        with elsewhere.cursor() as cursor:
            cursor.execute(repeat)
        if message.attempt < 3:
            raise TransientError("Once more.")

    Queue.objects.filter(pk=queue.pk).update(max_retries=5)
    broker.send(queue.topic, [{"n": 1}])
    for _ in range(3):
        run_queue(queue.pk)
    assert [n for n in seen_by_others() if n > 0] == [1]
    assert len([n for n in seen_by_others() if n < 0]) >= 3, "once for each try, at least"
    assert QueuePartition.objects.get(queue=queue).next_offset == 1
