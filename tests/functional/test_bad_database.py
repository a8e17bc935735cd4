"""What the database refuses: on the statement, between sessions, or only when a batch commits."""

import threading
import time

import pytest
from django.db import connection, connections, transaction

from integration.models import ErrorAttempt, MessageError
from tests.support.builders import a_queue
from tests.support.flows import delete_held, drain, effects, ended, held, standing
from tests.support.kafka_world import Kafka
from tests.support.world.models import Child, Effect, Unique

pytestmark = [pytest.mark.servers, pytest.mark.django_db(transaction=True)]

KINDS = ["sequential", "continuous"]


@pytest.fixture
def broker(servers) -> Kafka:
    return Kafka(servers.kafka_bootstrap)


def run_all(queue, *, stops: int) -> None:
    """Once, and on a sequential queue once more for each held head, which a person deletes."""
    for _ in range(1 + stops if queue.is_sequential else 1):
        drain(queue)
        if queue.is_sequential:
            delete_held(queue)


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize(
    ("deed", "code"),
    [
        ("swallow", "SWALLOWED_DATABASE_ERROR"),
        ("orphan", "FOREIGN_KEY_VIOLATION"),
        ("statement", "STATEMENT_TIMEOUT"),
    ],
)
def test_what_the_database_refuses_lands_on_its_message(broker, kind, deed, code):
    queue = a_queue(broker, kind, max_retries=1, handler_timeout_seconds=1, stay_seconds=0)
    deeds = ["ok", "ok", deed, "ok", "ok"]
    values = [{"n": n, "do": do, "seconds": 3} for n, do in enumerate(deeds)]
    broker.send(queue.topic, values)

    drain(queue, runs=2)
    assert held(queue) == {2: code}
    row = MessageError.objects.get()
    assert row.attempts == (1 if deed == "swallow" else 2)
    run_all(queue, stops=1)

    assert effects() == [0, 1, 3, 4]
    assert not Child.objects.exists()
    assert not Unique.objects.exists()
    assert ended(queue) == {0: "APPLIED", 1: "APPLIED", 2: "HOLD", 3: "APPLIED", 4: "APPLIED"}
    assert standing(queue)[:2] == (5, "RUNNING")


# Only the message that is applied as offset 3 is refused, and only by COMMIT itself: the engine
# makes constraints immediate before it settles, and the second trigger takes that back.
REFUSE_AT_COMMIT = """
CREATE FUNCTION refuse() RETURNS trigger LANGUAGE plpgsql AS $$ BEGIN
  RAISE EXCEPTION 'not at commit either' USING ERRCODE = '23514'; END $$;
CREATE CONSTRAINT TRIGGER refuse AFTER INSERT ON integration_messagetrack
  DEFERRABLE INITIALLY DEFERRED FOR EACH ROW
  WHEN (NEW."offset" = 3 AND NEW.ended = 'APPLIED') EXECUTE FUNCTION refuse();
CREATE FUNCTION later() RETURNS trigger LANGUAGE plpgsql AS
  $$ BEGIN SET CONSTRAINTS refuse DEFERRED; RETURN NULL; END $$;
CREATE TRIGGER later BEFORE INSERT ON integration_messagetrack
  FOR EACH STATEMENT EXECUTE FUNCTION later();
"""
ACCEPT = """
DROP TRIGGER refuse ON integration_messagetrack; DROP FUNCTION refuse();
DROP TRIGGER later ON integration_messagetrack; DROP FUNCTION later();
"""


@pytest.fixture
def refused_at_commit():
    with connection.cursor() as cursor:
        cursor.execute(REFUSE_AT_COMMIT)
    yield
    with connection.cursor() as cursor:
        cursor.execute(ACCEPT)


@pytest.mark.usefixtures("refused_at_commit")
@pytest.mark.parametrize("kind", KINDS)
def test_a_commit_that_is_refused_for_one_message_costs_only_that_one(broker, kind):
    queue = a_queue(broker, kind, max_retries=3, stay_seconds=0)
    broker.send(queue.topic, [{"n": n} for n in range(8)])
    drain(queue)
    assert held(queue) == {3: "CHECK_VIOLATION"}
    run_all(queue, stops=1)
    assert effects() == [0, 1, 2, 4, 5, 6, 7]
    assert ended(queue)[3] == "HOLD"
    assert standing(queue)[:2] == (8, "RUNNING")


@pytest.mark.parametrize("kind", KINDS)
def test_a_real_deadlock_costs_no_attempt(broker, kind):
    """The handler holds one row and asks for another; a second session does it the other way."""
    for name in ("first", "second"):
        Unique.objects.create(name=name)
    before = deadlocks()
    queue = a_queue(broker, kind, max_retries=0)
    deadly = {"n": 1, "do": "lock", "names": ["first", "second"]}
    broker.send(queue.topic, [{"n": 0}, deadly, {"n": 2}])
    holds, crossed = threading.Event(), []
    other = threading.Thread(target=cross, args=(holds, crossed))
    other.start()
    assert holds.wait(10)
    with connection.cursor() as cursor:
        # It looks for a deadlock once, so long after it began to wait: there has to be one by then.
        cursor.execute("SET deadlock_timeout = '4s'")
        drain(queue)
        cursor.execute("RESET deadlock_timeout")
    other.join(20)

    assert crossed == ["first"]
    # The first replay may be quicker than the other session and meet it once more.
    assert deadlocks() > before
    assert effects() == [0, 1, 2]
    assert not MessageError.objects.exists()
    assert not ErrorAttempt.objects.exists()
    assert ended(queue) == dict.fromkeys(range(3), "APPLIED")
    assert standing(queue) == (3, "RUNNING", "")


WAIT_FOR_US = """
SELECT count(*) FROM pg_stat_activity
WHERE datname = current_database() AND pg_backend_pid() = ANY(pg_blocking_pids(pid))
"""


def cross(holds: threading.Event, crossed: list[str]) -> None:
    """Hold `second`, wait until somebody waits for it, then ask for what that one holds."""
    try:
        with transaction.atomic(), connection.cursor() as cursor:
            # Never the one that is told of the deadlock.
            cursor.execute("SET LOCAL deadlock_timeout = '20s'")
            Unique.objects.select_for_update().get(name="second")
            holds.set()
            deadline = time.monotonic() + 10
            while time.monotonic() < deadline:
                cursor.execute(WAIT_FOR_US)
                if cursor.fetchone()[0]:
                    break
            crossed.append(Unique.objects.select_for_update().get(name="first").name)
    finally:
        connections.close_all()


def deadlocks() -> int:
    with connection.cursor() as cursor:
        cursor.execute("SELECT pg_stat_force_next_flush()")
        cursor.execute("SELECT deadlocks FROM pg_stat_database WHERE datname = current_database()")
        return int(cursor.fetchone()[0])


def test_a_lock_that_is_not_given_in_time_is_tried_again(broker):
    """Another session keeps a row; nobody waits for ever, and the retry succeeds."""
    Unique.objects.create(name="kept")
    queue = a_queue(broker, max_retries=3, handler_timeout_seconds=1, stay_seconds=0)
    waits = {"n": 1, "do": "lock", "names": ["kept"]}
    broker.send(queue.topic, [{"n": 0}, waits, {"n": 2}])
    keeping, enough = threading.Event(), threading.Event()
    keeper = threading.Thread(target=keep, args=(keeping, enough))
    keeper.start()
    assert keeping.wait(10)
    drain(queue)
    assert effects() == [0, 2]
    assert MessageError.objects.get().state == "RETRY"
    enough.set()
    keeper.join(10)
    drain(queue)
    assert effects() == [0, 1, 2]
    assert Effect.objects.filter(n=1).count() == 1


def keep(keeping: threading.Event, enough: threading.Event) -> None:
    try:
        with transaction.atomic():
            Unique.objects.select_for_update().get(name="kept")
            keeping.set()
            enough.wait(20)
    finally:
        connections.close_all()
