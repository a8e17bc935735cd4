"""Kill a queue that writes to two databases at every step: both have its batches, or neither.

What is tested: a message's effect is in the second database exactly when it is in the first, and
when what it published is in Kafka. How: a child is ended by SIGKILL at each step of the commit,
among them between the two prepared transactions and between their two ends; then a run goes on, and
rows and records are counted. The same where a session ends, where the second database is away, and
where Kafka has forgotten what it decided.
"""

from signal import SIGCONT

import psycopg
import pytest
from django.db import connections

from integration.actions.two_phase import decide
from integration.delivery.report import RunEnding
from integration.delivery.steps import Step
from integration.models import MessageError, Queue, QueuePartition
from integration.policy.branches import Branch, home_of
from integration.runs.branches import settle_all, transactional_id
from integration.store import branches, second_database
from integration.store.sessions import Session, raw_connection
from tests.support import warm
from tests.support.builders import a_brief_queue, a_queue
from tests.support.kafka_world import Kafka
from tests.support.killed import await_kill
from tests.support.prepared import LEDGER, given_ledger  # noqa: F401 - a fixture, by its name
from tests.support.warm import WarmChild
from tests.support.world.models import Effect

pytestmark = [pytest.mark.crash, pytest.mark.servers, pytest.mark.django_db(transaction=True)]
MESSAGES, BATCH = 60, 5
HELD = range(0, MESSAGES, 20)
# With the first or the second of its occurrences. Each batch is prepared and finished twice.
STEPS = [
    *((Step.HANDLED, 2), (Step.SETTLED, 1), (Step.WRITTEN, 1)),
    *((Step.PREPARED, 1), (Step.PREPARED, 2), (Step.DECIDED, 1)),
    *((Step.FINISHED, 1), (Step.FINISHED, 2), (Step.COMMITTED, 1)),
]


@pytest.fixture
def broker(servers) -> Kafka:
    return Kafka(servers.kafka_bootstrap)


def at_port(ledger: Session, port: int) -> dict[str, str]:
    """What tells a process of the database, wherever it really is."""
    where = ledger.info
    url = f"postgresql://{where.user}@{where.host}:{port}/{where.dbname}"
    return {"SLUICE_OTHER_DATABASES": f"{LEDGER}={url}"}


@pytest.fixture
def environment(child_environment: dict[str, str], ledger: Session) -> dict[str, str]:
    return child_environment | at_port(ledger, ledger.info.port)


@pytest.fixture
def queue(broker: Kafka) -> Queue:
    a_queue(broker, name="out", direction="outbound")
    return a_brief_queue(broker, two_phase=True, second_database=LEDGER, batch_size=BATCH)


def send(broker: Kafka, queue: Queue, count: int = MESSAGES) -> None:
    """Every third one publishes nothing; all of them write to both databases."""
    does = ["permanent" if n in HELD else "ok" if n % 3 == 0 else "publish" for n in range(count)]
    broker.send(queue.topic, [{"n": n, "do": do, "ledger": True} for n, do in enumerate(does)])


def run(
    queue: Queue, environment: dict[str, str], at: str = "none", nth: int = 1, signal: str = "KILL"
) -> WarmChild:
    """A process that runs the queue and sends itself a signal at a step."""
    words = ["-m", "tests.support.crash_child", str(queue.pk), at, str(nth), signal]
    return warm.child(words, environment)


def run_to_the_end(queue: Queue, environment: dict[str, str]) -> str:
    return said_by(run(queue, environment))


def said_by(child: WarmChild) -> str:
    said, _ = child.communicate(timeout=60)
    assert child.returncode == 0, said
    return str(said.decode())


def killed_at(queue: Queue, environment: dict[str, str], step: Step, nth: int) -> None:
    child = run(queue, environment, step, nth)
    await_kill(child, step)


def entered(ledger: Session) -> list[int]:
    return [n for (n,) in ledger.execute("SELECT n FROM entry ORDER BY ctid").fetchall()]


def account(broker: Kafka, ledger: Session, count: int = MESSAGES) -> None:
    """Every good message is everywhere, once and in order; nothing is left prepared."""
    good = [n for n in range(count) if n not in HELD]
    assert list(Effect.objects.order_by("id").values_list("n", flat=True)) == good
    assert entered(ledger) == good
    topic = Queue.objects.get(name="out").topic
    assert [int(one.key()) for one in broker.read_all(topic)] == [n for n in good if n % 3]
    assert branches.left() == []
    assert second_database.left(LEDGER) == []


def test_a_kill_at_any_step_leaves_both_or_neither(
    broker: Kafka, queue: Queue, environment: dict[str, str], ledger: Session
) -> None:
    send(broker, queue)
    for step, nth in STEPS:
        killed_at(queue, environment, step, nth)
    run_to_the_end(queue, environment)
    account(broker, ledger)
    assert MessageError.objects.filter(state="HOLD").count() == len(HELD)
    assert QueuePartition.objects.get(queue=queue).next_offset == MESSAGES


@pytest.mark.parametrize("step", [Step.HANDLED, Step.WRITTEN, Step.PREPARED, Step.DECIDED], ids=str)
def test_a_session_that_ends_in_the_second_database_doubles_nothing(
    broker: Kafka, queue: Queue, environment: dict[str, str], ledger: Session, step: Step
) -> None:
    send(broker, queue, 3 * BATCH)
    child = run(queue, environment, step, signal="STOP")
    child.wait_until_stopped()
    ended = ledger.execute(
        "SELECT pg_terminate_backend(pid) FROM pg_stat_activity "
        "WHERE datname = current_database() AND pid <> pg_backend_pid()"
    )
    assert ended.fetchall() == [(True,)]
    child.send_signal(SIGCONT)
    said_by(child)
    run_to_the_end(queue, environment)
    account(broker, ledger, 3 * BATCH)


def test_what_is_prepared_in_the_second_database_alone_is_rolled_back(
    broker: Kafka, queue: Queue, environment: dict[str, str], ledger: Session
) -> None:
    send(broker, queue, 2 * BATCH)
    killed_at(queue, environment, Step.PREPARED, 2)
    [left] = branches.left()
    with raw_connection("a-person") as session:
        session.execute(f"ROLLBACK PREPARED '{left.branch}'")
    assert second_database.left(LEDGER) == [left.branch]
    # Nobody names it any more.
    Queue.objects.update(second_database="")
    foreign = prepare_elsewhere(ledger, left.branch)
    assert settle_all() == 0
    assert ledger.execute("SELECT gid FROM pg_prepared_xacts").fetchall() == [(foreign,)]
    ledger.execute(f"ROLLBACK PREPARED '{foreign}'")
    Queue.objects.filter(pk=queue.pk).update(second_database=LEDGER)
    assert second_database.left(LEDGER) == []
    run_to_the_end(queue, environment)
    account(broker, ledger, 2 * BATCH)


def prepare_elsewhere(ledger: Session, branch: Branch) -> str:
    """What another installation of this name has prepared in the same second database."""
    name = branch.name_in_second(home_of("another database"))
    ledger.execute("BEGIN")
    ledger.execute("INSERT INTO entry VALUES (-1)")
    ledger.execute(f"PREPARE TRANSACTION '{name}'")
    return name


def test_a_message_that_breaks_a_deferred_constraint_there_leaves_nothing_here(
    broker: Kafka, queue: Queue, environment: dict[str, str], ledger: Session
) -> None:
    does = [{"n": n, "ledger": True, "entry": 1 if n == 3 else n} for n in range(BATCH)]
    broker.send(queue.topic, does)
    run_to_the_end(queue, environment)
    good = [n for n in range(BATCH) if n != 3]
    assert list(Effect.objects.order_by("id").values_list("n", flat=True)) == good
    assert entered(ledger) == good
    error = MessageError.objects.get()
    assert (error.offset, error.code) == (3, "UNIQUE_VIOLATION")


def test_a_half_that_somebody_took_away_leaves_the_other_in_doubt(
    broker: Kafka, queue: Queue, environment: dict[str, str], ledger: Session
) -> None:
    send(broker, queue, BATCH)
    killed_at(queue, environment, Step.DECIDED, 1)
    [(name,)] = ledger.execute("SELECT gid FROM pg_prepared_xacts WHERE gid ~ ':[0-9a-f]{8}$'")
    ledger.execute(f"ROLLBACK PREPARED '{name}'")
    assert settle_all() == 1
    assert Effect.objects.count() == 0
    [left] = branches.left()
    decide(str(left.branch), commit=True, actor="anna", reason="I wrote them there by hand.")
    assert Effect.objects.count() == BATCH - 1
    assert branches.left() == []


def test_where_kafka_has_forgotten_the_second_database_may_know(
    broker: Kafka, queue: Queue, environment: dict[str, str], ledger: Session
) -> None:
    """It was finished first; where it was not, a person decides about both."""
    send(broker, queue, 3 * BATCH)
    group = transactional_id(queue.provider_id, queue.pk, 0)
    for step, is_told in ((Step.FINISHED, True), (Step.DECIDED, False)):
        killed_at(queue, environment, step, 1)
        broker.admin.delete_consumer_groups([group])[group].result(10)
        assert settle_all() == (0 if is_told else 1)
        for one in branches.left():
            decide(str(one.branch), commit=True, actor="anna", reason="It is in the topic.")
    run_to_the_end(queue, environment)
    account(broker, ledger, 3 * BATCH)


def test_a_second_database_that_is_away_costs_no_retry(
    broker: Kafka, queue: Queue, environment: dict[str, str], ledger: Session
) -> None:
    send(broker, queue, 2 * BATCH)
    said = run_to_the_end(queue, environment | at_port(ledger, 9))
    assert RunEnding.OUTAGE in said, said
    place = QueuePartition.objects.get(queue=queue)
    assert (place.state, place.next_offset) == ("OUTAGE", 0)
    assert place.state_code == second_database.SecondDatabaseDownError.code
    QueuePartition.objects.update(resume_at=None, state="RUNNING")
    run_to_the_end(queue, environment)
    account(broker, ledger, 2 * BATCH)


def test_a_branch_waits_for_its_second_database(
    broker: Kafka, queue: Queue, environment: dict[str, str], ledger: Session
) -> None:
    """Who is asked to settle it leaves it in doubt; neither half is finished alone."""
    send(broker, queue, BATCH)
    killed_at(queue, environment, Step.DECIDED, 1)
    right = connections.settings[LEDGER]
    connections.settings[LEDGER] = {**right, "PORT": "9"}
    del connections[LEDGER]
    assert settle_all() == 1
    [left] = branches.left()
    with pytest.raises(second_database.SecondDatabaseDownError):
        decide(str(left.branch), commit=True, actor="anna", reason="It is in the topic.")
    connections.settings[LEDGER] = right
    del connections[LEDGER]
    assert settle_all() == 0
    account(broker, ledger, BATCH)


def test_the_second_database_is_not_the_handlers_own_affair(
    broker: Kafka, queue: Queue, environment: dict[str, str], ledger: Session
) -> None:
    """Without the setting it is none of the transaction, and what is sent to it is refused."""
    Queue.objects.filter(pk=queue.pk).update(second_database="")
    broker.send(queue.topic, [{"n": 1, "ledger": True}])
    run_to_the_end(queue, environment)
    assert MessageError.objects.get().code == "FOREIGN_DATABASE"
    assert entered(ledger) == []
    with pytest.raises(psycopg.errors.UndefinedTable):
        ledger.execute("SELECT 1 FROM integration_queue")
