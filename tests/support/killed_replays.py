"""The steps of a replay at which its driver is killed: the next one gives each back once."""

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Final

from crontasks.bulk.asking import ask
from integration.models import BulkRun, ErrorChange, MessageError, Queue
from tests.support.builders import a_queue
from tests.support.bulk import stages
from tests.support.flows import drain, drain_past
from tests.support.kafka_world import Kafka
from tests.support.run_driver import (
    DriverOfMany,
    Killed,
    Step,
    a_session,
    eventually,
    hold,
    rows_in,
    waits,
)
from tests.support.world.models import Effect

PARTITIONS, MESSAGES = 3, 40
COUNT: Final = PARTITIONS * MESSAGES
LAST: Final = PARTITIONS - 1


@contextmanager
def in_the_commit(run: BulkRun, driver: DriverOfMany) -> Iterator[None]:
    """Somebody else is about to write a row at the position of the first message."""
    with a_session() as giving:
        giving.execute(
            "INSERT INTO integration_messageerror (id, queue_id, topic_uuid, partition, "
            '"offset", message_id, interface, sender, headers, edited_by, state, failure_class, '
            "code, text, detail, fingerprint, attempts, retry_no, spent, crashes, carrier, late, "
            "apply_as_newest, version, first_failed_at, last_failed_at, ended) "
            "SELECT gen_random_uuid(), queue_id, topic_uuid, 0, 0, '', '', '', '[]', '', 'HOLD', "
            "'permanent', 'X', '', '', '', 0, 0, 0, 0, 'row', false, false, 1, now(), now(), '' "
            "FROM integration_queuepartition WHERE queue_id = %s AND partition = 0",
            [run.parameters["queue"]],
        )
        driver.drive(run)
        eventually(lambda: waits(giving, "INSERT INTO integration_messageerror AS e"), driver)
        yield
        assert (rows_in(run, "shares"), _given(run)) == (PARTITIONS, 0)


@contextmanager
def when_some_is_staged(run: BulkRun, driver: DriverOfMany) -> Iterator[None]:
    with a_session() as staging:
        hold(staging, run, LAST)
        driver.drive(run)
        eventually(lambda: rows_in(run, "shares") == LAST, driver)
        yield
        assert (rows_in(run, "shares"), _given(run)) == (LAST, 0)


STEPS: Final[tuple[Step, ...]] = in_the_commit, when_some_is_staged


def _given(run: BulkRun) -> int:
    """How many messages wait to be applied once more."""
    rows = MessageError.objects.filter(queue__name=run.job_request["queue"])
    assert not rows.exclude(state__in=("READY", "RESOLVED")).exists()
    return rows.filter(state="READY").count()


def killed_replays(broker: Kafka) -> Killed:
    """A run for each step, out of a queue of its own whose messages are all applied."""
    queues = {step: _applied(broker) for step in STEPS}

    def holds(step: Step, run: BulkRun) -> None:
        assert (run.state, run.problem, run.deaths) == ("DONE", None, 1)
        assert run.counts == {"read": COUNT, "sent": COUNT, "rejected": 0, "skipped": 0}
        assert _given(run) == COUNT
        changes = ErrorChange.objects.filter(error__queue__name=run.job_request["queue"])
        assert changes.count() == COUNT
        assert stages(run) == []
        before = Effect.objects.count()
        drain(queues[step])
        assert Effect.objects.count() == before + COUNT
        assert _given(run) == 0

    return Killed({step: _a_replay(queue) for step, queue in queues.items()}, holds)


def _applied(broker: Kafka) -> Queue:
    queue = a_queue(broker, partitions=PARTITIONS, stay_seconds=0.0)
    for partition in range(PARTITIONS):
        broker.send(queue.topic, [{"n": n} for n in range(MESSAGES)], partition=partition)
    drain_past(queue, COUNT)
    return queue


def _a_replay(queue: Queue) -> BulkRun:
    return ask("replay", {"queue": queue.name, "into": "queue"}, actor="tester", send=False)
