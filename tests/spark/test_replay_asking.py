"""A replay from the command line and the console, and of what is not there any more."""

import json
from io import StringIO
from typing import Any

import psycopg
import pytest
from django.core.management import CommandError, call_command

from crontasks.bulk.asking import ask, conninfo
from crontasks.bulk.deciding import again
from crontasks.bulk.driving import drive
from integration.actions.failures import delete, edit, release
from integration.models import (
    BulkRun,
    MessageError,
    ObjectStructure,
    Queue,
    QueuePartition,
    StoredObject,
)
from integration.store.sessions import database_time
from spark_jobs.errors import JobError
from spark_jobs.replay.giving import give_back
from spark_jobs.replay.parameters import ReplayParameters
from spark_jobs.replay.staging import Stage
from tests.functional.test_console_bulk_asking import hidden
from tests.support.builders import a_queue
from tests.support.bulk import driven, shared_session, storing
from tests.support.bulk_pages import logged_in, new, see
from tests.support.flows import drain, effects, position
from tests.support.kafka_world import Kafka

pytestmark = [
    pytest.mark.servers,
    pytest.mark.django_db(transaction=True),
    pytest.mark.timeout(500),
]


@pytest.fixture(scope="module", autouse=True)
def spark() -> Any:
    return shared_session()


@pytest.fixture
def broker(servers: Any) -> Kafka:
    return Kafka(servers.kafka_bootstrap)


@pytest.fixture
def queue(broker: Kafka) -> Queue:
    """Ten messages, all applied."""
    made = a_queue(broker)
    broker.send(made.topic, [{"n": n, "odd": n % 2} for n in range(10)])
    drain(made)
    return made


ODD = [1, 3, 5, 7, 9]


def applied_again(queue: Queue, numbers: list[int]) -> None:
    """These went through their handlers once more, and the position stayed."""
    before = position(queue).next_offset
    drain(queue)
    assert effects() == sorted([*range(10), *numbers])
    assert set(MessageError.objects.values_list("offset", "state")) == {
        (number, "RESOLVED") for number in numbers
    }
    assert position(queue).next_offset == before == 10


def replayed(queue: Queue, into: str = "queue", **more: Any) -> BulkRun:
    job_request = {"queue": queue.name, "into": into, **more}
    run = driven(ask("replay", job_request, actor="ann", reason="tests", send=False))
    assert (run.problem, run.state) == (None, "DONE")
    return run


def test_a_look_from_the_command_line(queue: Queue) -> None:
    """That the command itself replays is in `test_every_way`."""
    words = (queue.name, "queue", "--path", "$.odd=1", "--reason", "a bad release")
    QueuePartition.objects.update(generation=2)
    said = StringIO()
    call_command("bulk_replay", *words, "--dry-run", stdout=said)
    look = json.loads(said.getvalue())
    assert (look["rows"], len(look["samples"])) == (5, 5)
    named = f"{queue.provider.name}~{queue.topic}@2~0~1"
    assert look["samples"][0]["text"] == named, "as the queue itself names it"
    assert not BulkRun.objects.exists()

    with pytest.raises(CommandError, match="BAD_PARAMETERS"):
        call_command("bulk_replay", queue.name, "moon", stdout=said)


def test_from_the_console(queue: Queue) -> None:
    client = logged_in("Editors")
    form = {"parameter-queue": queue.name, "parameter-into": "queue", "parameter-path": "$.odd=1"}
    preview = new(client, "replay", {"look": "1", **form})
    assert "About 5 rows" in preview.text
    assert "partition 0, offset 9" in preview.text
    carried = {name: hidden(preview.text, name) for name in ("job_request", "run")}
    answer = new(client, "replay", {"ask": "1", "reason": "a bad release", **carried})
    assert answer.status_code == 303
    run = BulkRun.objects.get()
    assert (run.state, run.reason, run.job_request["queue"]) == (
        "ASKED",
        "a bad release",
        queue.name,
    )

    assert driven(run).counts == {"read": 10, "sent": 5, "rejected": 0, "skipped": 5}

    shown = see(client, run)
    assert f"Replay: {queue.name}" in shown
    assert "5 went where they should" in shown
    applied_again(queue, ODD)


def test_what_has_expired_is_named_and_nothing_of_the_rest_is_given_back(
    broker: Kafka, queue: Queue
) -> None:
    broker.delete_records(queue.topic, 4)
    job_request = {"queue": queue.name, "into": "queue", "begin": "2", "end": "8"}
    run = driven(ask("replay", job_request, actor="ann", send=False))
    assert (run.state, run.problem[0]) == ("FAILED", "RANGE_EXPIRED")
    assert "2 to 3 of partition 0" in run.problem[1]
    assert not MessageError.objects.exists()

    # What was planned and expires before the rerun is named as well.
    later = replayed(queue, begin="4", end="6")
    assert later.counts["sent"] == 2
    BulkRun.objects.filter(pk=later.pk).update(state="FAILED", applied=False)
    broker.delete_records(queue.topic, 5)
    assert again(later.pk, send=False)
    ended = drive(later.pk, owner="a test")
    assert ended is not None
    assert (ended.state, ended.problem[0]) == ("FAILED", "RANGE_EXPIRED")
    assert MessageError.objects.count() == 2


def test_messages_that_the_stage_has_lost_are_not_left_out_silently(queue: Queue) -> None:
    """Its tables are not written ahead, and are empty after the database has crashed."""
    job_request = {"queue": queue.name, "into": "queue"}
    run = ask("replay", job_request, actor="ann", send=False)
    tables, parameters = Stage(str(run.pk)), ReplayParameters.of(run.parameters)
    uuid = position(queue).topic_uuid
    with psycopg.connect(conninfo(), autocommit=True) as session:
        tables.make(session)
        session.execute(tables.sql("INSERT INTO {shares} VALUES (0, 0, 0, 10, 10, 0)"))
        with session.transaction(), pytest.raises(JobError) as told:
            give_back(session, tables, parameters, uuid)
        tables.drop(session)
    assert told.value.code == "NOT_STAGED"
    assert not MessageError.objects.exists()


def test_what_was_replayed_since_belongs_to_the_time_when_it_was_applied(broker: Kafka) -> None:
    """Also where the replay failed, and where somebody deleted it then."""
    queue = storing(
        a_queue(broker, max_retries=0),
        ObjectStructure.objects.create(name="ASSET", key_paths=["$.a"]),
    )
    broker.send(queue.topic, [{"a": n} for n in range(4)] + [{"b": 4}])
    drain(queue)
    held = MessageError.objects.get(offset=4)
    version = edit(held.pk, version=held.version, actor="ann", payload=b'{"a": 4}')
    release(held.pk, version=version, actor="ann")
    drain(queue)
    moment, expected = database_time().isoformat(), documents("ASSET")
    assert len(expected) == 5

    # All are given back: one is applied again, one is deleted meanwhile, the others still wait.
    assert replayed(queue).counts["sent"] == 5
    waiting = MessageError.objects.get(offset=3)
    MessageError.objects.filter(pk=waiting.pk).update(state="HOLD")
    delete(waiting.pk, version=waiting.version, actor="ann", reason="once was enough")
    MessageError.objects.filter(offset__in=[1, 4]).update(state="HOLD")
    drain(queue)
    assert set(MessageError.objects.values_list("offset", "state")) == {
        (0, "RESOLVED"),
        (1, "HOLD"),
        (2, "RESOLVED"),
        (3, "DELETED"),
        (4, "HOLD"),
    }

    times: list[dict[str, str]] = [{}, {"as_of": moment}]
    for number, when in enumerate(times):
        name = f"AGAIN_{number}"
        ObjectStructure.objects.create(name=name, key_paths=["$.a"])
        run = replayed(queue, "structure", target=name, **when)
        assert documents(name) == expected, run.facts
        assert run.counts == {"read": 5, "sent": 5, "rejected": 0, "skipped": 0}


def test_a_repeat_that_the_queue_dropped_is_not_handed_out(broker: Kafka) -> None:
    """Its number is higher than that of what came between, and its content is the older one."""
    structure = ObjectStructure.objects.create(name="ASSET", key_paths=["$.a"])
    queue = storing(a_queue(broker, dedupe=True), structure)
    for number, name in ((1, "old"), (2, "new"), (1, "old")):
        headers = [("MEAMessageID", b"id-%d" % number)]
        broker.send(queue.topic, [{"a": 1, "name": name}], headers=headers)
    drain(queue)
    expected = documents("ASSET")
    assert expected["1"][0] == {"a": 1, "name": "new"}
    # The position goes back over all of them, and each is dropped in a batch of a higher number.
    QueuePartition.objects.update(next_offset=0)
    drain(queue)
    assert documents("ASSET") == expected

    ObjectStructure.objects.create(name="AGAIN", key_paths=["$.a"])
    rebuilt = replayed(queue, "structure", target="AGAIN")
    assert rebuilt.facts["left_out"] == {"superseded": 1, "duplicate": 1}
    assert documents("AGAIN") == expected

    run = replayed(queue)
    assert run.facts["left_out"] == {"duplicate": 1}
    assert run.counts == {"read": 3, "sent": 2, "rejected": 0, "skipped": 1}
    drain(queue)
    assert documents("ASSET") == expected
    # The other two went through their handler: what is stored was newer, or just as new.
    superseded = {(0, "SUPERSEDED"), (1, "SUPERSEDED")}
    assert set(MessageError.objects.values_list("offset", "ended")) == superseded
    # What was dropped stays so, whether or not repeats are dropped from now on.
    MessageError.objects.all().delete()
    Queue.objects.update(dedupe=False)
    replayed(queue, begin="0", end="1")
    drain(queue)
    assert documents("ASSET") == expected


def documents(structure: str) -> dict[str, Any]:
    """Documents by key, with the numbers that they arrived under."""
    found = StoredObject.objects.filter(structure__name=structure).order_by("key")
    kept = found.values_list("key", "document", "arrival_batch", "arrival_index")
    return {key: rest for key, *rest in kept}
