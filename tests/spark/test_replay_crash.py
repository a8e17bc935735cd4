"""The driver is killed at a step of a replay: the next one gives each message back once."""

from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any, Final

import pytest

from crontasks.bulk.asking import ask
from integration.models import BulkRun, ErrorChange, MessageError, Queue
from tests.support.builders import a_queue
from tests.support.bulk import shared_session, stages
from tests.support.flows import drain, drain_past
from tests.support.kafka_world import Kafka
from tests.support.run_driver import (
    DriverOfMany,
    Step,
    a_session,
    eventually,
    hold,
    killed_at_their_steps,
    rows_in,
    taken_over,
    waits,
)
from tests.support.world.models import Effect

pytestmark = [
    pytest.mark.servers,
    pytest.mark.django_db(transaction=True),
    pytest.mark.timeout(500),
]
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


# The last one leaves no task of Spark for others.
STEPS: Final[tuple[Step, ...]] = in_the_commit, when_some_is_staged


def _given(run: BulkRun) -> int:
    """How many messages wait to be applied once more."""
    rows = MessageError.objects.filter(queue__name=run.job_request["queue"])
    assert not rows.exclude(state__in=("READY", "RESOLVED")).exists()
    return rows.filter(state="READY").count()


@pytest.fixture(scope="module", autouse=True)
def spark() -> Any:
    """For the drivers that go on; the one that is killed has a JVM of its own."""
    return shared_session()


@pytest.fixture
def queues(servers: Any) -> dict[Step, Queue]:
    """A queue for each step, all of its messages applied."""
    broker = Kafka(servers.kafka_bootstrap)
    made = {step: a_queue(broker, partitions=PARTITIONS, stay_seconds=0.0) for step in STEPS}
    for queue in made.values():
        for partition in range(PARTITIONS):
            broker.send(queue.topic, [{"n": n} for n in range(MESSAGES)], partition=partition)
        drain_past(queue, COUNT)
    return made


def test_a_killed_driver_costs_nothing(
    queues: dict[Step, Queue],
    child_environment: dict[str, str],
    tmp_path: Path,
    subtests: pytest.Subtests,
) -> None:
    runs = {
        step: ask("replay", {"queue": queue.name, "into": "queue"}, actor="tester", send=False)
        for step, queue in queues.items()
    }
    killed_at_their_steps(runs, child_environment, tmp_path)

    for step, run in runs.items():
        with subtests.test(step.__name__):
            last = taken_over(run)

            assert (last.state, last.problem, last.deaths) == ("DONE", None, 1)
            assert last.counts == {"read": COUNT, "sent": COUNT, "rejected": 0, "skipped": 0}
            assert _given(run) == COUNT
            assert (
                ErrorChange.objects.filter(error__queue__name=run.job_request["queue"]).count()
                == COUNT
            )
            assert stages(run) == []
            before = Effect.objects.count()
            drain(queues[step])
            assert Effect.objects.count() == before + COUNT
            assert _given(run) == 0
