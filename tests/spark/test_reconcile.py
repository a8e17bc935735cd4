"""What the database says became of each offset, against messages that really went these ways."""

import json
import uuid
from pathlib import Path
from typing import Any

import pytest
from django.db import connection

from crontasks.bulk.asking import ask, preview
from crontasks.bulk.deciding import again
from crontasks.bulk.driving import drive
from crontasks.bulk.errors import BulkError
from integration.actions import blocks
from integration.actions.failures import delete, edit, release
from integration.delivery.reading import retry_marker_headers
from integration.kafka import admin
from integration.models import BulkRun, MessageError, ObjectStructure, Queue, QueuePartition
from integration.store.sessions import database_now
from spark_jobs.reconcile.accounting import PLACED, identity
from tests.support.builders import a_queue
from tests.support.bulk import shared_session, storing
from tests.support.celery_world import eventually
from tests.support.flows import drain
from tests.support.kafka_world import Kafka

pytestmark = [
    pytest.mark.servers,
    pytest.mark.django_db(transaction=True),
    pytest.mark.usefixtures("yesterday"),
    pytest.mark.timeout(500),
]


@pytest.fixture(scope="module", autouse=True)
def spark() -> Any:
    return shared_session()


@pytest.fixture
def broker(servers: Any) -> Kafka:
    return Kafka(servers.kafka_bootstrap)


def driven(run: BulkRun) -> BulkRun:
    ended = drive(run.pk, owner="a test")
    assert ended is not None
    return ended


def asked(queue: Queue, **more: Any) -> BulkRun:
    return ask("reconcile", {"queue": queue.name, **more}, actor="tester", send=False)


def reconciled(queue: Queue, **more: Any) -> BulkRun:
    run = driven(asked(queue, **more))
    assert (run.problem, run.state) == (None, "DONE")
    return run


def fates(queue: Queue, **more: Any) -> dict[str, int]:
    return dict(reconciled(queue, **more).facts["fates"])


def named(run: BulkRun) -> dict[int, str]:
    """What the facts name of partition 0, by offset."""
    return {one["offset"]: one["is"] for one in run.facts["named"] if not one["partition"]}


def executed(sql: str, *parameters: Any) -> int:
    with connection.cursor() as cursor:
        cursor.execute(sql, parameters)
        return int(cursor.rowcount)


def untrack(queue: Queue, first: int, last: int) -> int:
    """Take tracks away, as the cleanup does with a day of them."""
    where = 'queue_id = %s AND "offset" BETWEEN %s AND %s'
    return executed(f"DELETE FROM integration_messagetrack WHERE {where}", queue.pk, first, last)


def go_to(queue: Queue, offset: int) -> None:
    QueuePartition.objects.filter(queue=queue).update(next_offset=offset)


def failure(queue: Queue, offset: int) -> MessageError:
    return MessageError.objects.get(queue=queue, offset=offset)


def test_every_message_that_went_well_is_applied(broker: Kafka) -> None:
    queue = a_queue(broker, partitions=2)
    broker.send(queue.topic, [{"n": n} for n in range(600)], partition=0)
    broker.send(queue.topic, [{"n": n} for n in range(600, 1_000)], partition=1)
    drain(queue)

    run = reconciled(queue)

    assert run.counts == {"read": 1_000, "sent": 1_000, "rejected": 0, "skipped": 0}
    assert run.facts["fates"] == {"applied": 1_000}
    assert run.facts["ranges"] == {"0": [0, 600], "1": [0, 400]}
    assert (run.facts["names"], run.facts["named"]) == (0, [])
    assert run.plan["parts"][1] == {"partition": 1, "begin": 0, "end": 400}
    assert run.progress["done"] == run.progress["total"] > 0


def test_failures_and_what_people_did_with_them_are_told_apart(broker: Kafka) -> None:
    queue = a_queue(broker, max_retries=1, batch_size=7)
    refused = {"n": 0, "do": "permanent"}
    broker.send(queue.topic, [{"n": n} for n in range(10)])  # 0 to 9
    broker.send(queue.topic, [refused] * 4)  # 10 to 13
    broker.send(queue.topic, [{"n": 14, "do": "until", "until": 2}])
    broker.send_in_transaction(queue.topic, [{"n": 15}, {"n": 16}])
    # The marker comes when the transaction is over, at offset 17.
    eventually(lambda: broker.end(queue.topic) == 18)
    drain(queue, runs=2)
    held = {offset: failure(queue, offset) for offset in (11, 12, 13)}
    delete(held[11].pk, version=held[11].version, actor="ann", reason="of no use")
    version = edit(held[12].pk, version=held[12].version, actor="ann", payload=b'{"n": 12}')
    release(held[12].pk, version=version, actor="ann")
    drain(queue)
    release(held[13].pk, version=held[13].version, actor="ann")
    broker.send(queue.topic, [{"n": 18}, {"n": 19}])

    run = reconciled(queue)

    assert run.facts["fates"] == {
        "held": 1,
        "ready": 1,
        "deleted": 1,
        "to_come": 2,
        "resolved": 2,
        "applied": 12,
    }
    assert named(run) == {10: "held", 13: "ready", 11: "deleted", 18: "to_come", 19: "to_come"}
    assert run.facts["named"][0] == {
        "partition": 0,
        "offset": 10,
        "is": "held",
        "code": "REFUSED",
        "failure": str(failure(queue, 10).pk),
    }
    assert run.counts == {"read": 19, "sent": 15, "rejected": 2, "skipped": 2}


def test_what_wrote_nothing_is_named(broker: Kafka) -> None:
    """An older version, a repeated id, and a retry marker whose retry is over."""
    structure = ObjectStructure.objects.create(
        name="ASSET", key_paths=["$.a"], version_path="$.version"
    )
    queue = storing(a_queue(broker, dedupe=True), structure)
    broker.send(queue.topic, [{"a": 1, "version": 5}, {"a": 1, "version": 3}])
    once = [("meamessageid", b"the-same")]
    broker.send(queue.topic, [{"a": 2, "version": 1}] * 2, headers=once)
    marker = list(retry_marker_headers(uuid.uuid4(), 1, queue.name))
    broker.send(queue.topic, [b"", b""], headers=marker)
    drain(queue)
    # A retry marker that was due is tracked at the offset of its message.
    assert untrack(queue, 5, 5) == 1

    run = reconciled(queue)

    assert named(run) == {1: "superseded", 3: "duplicate"}
    assert run.facts["fates"]["ticket"] == 2
    assert run.counts == {"read": 6, "sent": 6, "rejected": 0, "skipped": 0}


def test_lost_is_said_where_a_trace_must_be_and_nowhere_else(broker: Kafka) -> None:
    queue = a_queue(broker, batch_size=10)
    broker.send(queue.topic, [{"n": n} for n in range(10)])
    drain(queue)
    # Passed by nobody's batch: the position jumped.
    broker.send(queue.topic, [{"n": n} for n in range(10, 20)])
    go_to(queue, 13)
    drain(queue)
    assert untrack(queue, 4, 5) == 2
    run = reconciled(queue)
    expected = dict.fromkeys((4, 5, 10, 11, 12), "lost")
    assert named(run) == expected
    assert run.counts == {"read": 20, "sent": 15, "rejected": 5, "skipped": 0}

    # Without any track of that batch nobody knows whether it was tracked.
    assert untrack(queue, 0, 9) == 8
    run = reconciled(queue)
    assert named(run) == dict.fromkeys((10, 11, 12), "lost")
    assert run.facts["fates"]["passed"] == 10

    # What lies before the first batch that is known was perhaps never to be read.
    executed("DELETE FROM integration_batchlog WHERE to_offset < 10")
    Queue.objects.filter(pk=queue.pk).update(start_from="end")
    assert fates(queue, end="13") == {"unknown": 13}
    Queue.objects.filter(pk=queue.pk).update(start_from="beginning")
    QueuePartition.objects.filter(queue=queue).update(low_watermark=0)
    assert fates(queue, end="13") == {"lost": 13}


def test_a_queue_that_is_not_tracked_tells_what_was_passed(broker: Kafka) -> None:
    queue = a_queue(broker, tracks=False, batch_size=5)
    broker.send(queue.topic, [{"n": n} for n in range(12)])
    broker.send(queue.topic, [{"n": 12, "do": "permanent"}])
    drain(queue)
    assert fates(queue) == {"passed": 12, "held": 1}
    go_to(queue, 8)
    drain(queue)
    assert fates(queue) == {"read_twice": 4, "passed": 8, "held": 1}


def test_what_was_applied_twice_is_doubled(broker: Kafka) -> None:
    queue = a_queue(broker)
    broker.send(queue.topic, [{"n": n} for n in range(10)])
    drain(queue)
    go_to(queue, 6)
    assert fates(queue) == {"to_come": 4, "applied": 6}
    drain(queue)
    run = reconciled(queue)
    assert named(run) == dict.fromkeys(range(6, 10), "doubled")
    assert run.counts == {"read": 10, "sent": 6, "rejected": 4, "skipped": 0}


def test_a_topic_of_the_same_name_is_another_one_until_it_is_adopted(broker: Kafka) -> None:
    queue = a_queue(broker)
    broker.send(queue.topic, [{"n": n} for n in range(5)])
    drain(queue)
    broker.delete(queue.topic)
    broker.topic(name=queue.topic)
    broker.send(queue.topic, [{"n": n} for n in range(5, 9)])
    refused = driven(asked(queue))
    assert (refused.state, refused.problem[0]) == ("FAILED", "OTHER_TOPIC")

    drain(queue)
    facts = admin.topic_facts(queue.provider, queue.topic)
    blocks.adopt(queue.pk, place=blocks.Place.END, facts=facts, actor="ann")
    broker.send(queue.topic, [{"n": 9}])
    drain(queue)

    # What the other topic had at these offsets says nothing of these messages.
    assert fates(queue) == {"gap": 4, "applied": 1}


def test_a_blocked_queue_has_one_message_held_and_the_others_to_come(broker: Kafka) -> None:
    queue = a_queue(broker, "sequential")
    broker.send(queue.topic, [{"n": 0}, {"n": 1}, {"n": 2, "do": "permanent"}, {"n": 3}])
    drain(queue)
    assert named(reconciled(queue)) == {2: "held", 3: "to_come"}
    head = failure(queue, 2)
    delete(head.pk, version=head.version, actor="ann", reason="of no use")
    assert named(reconciled(queue)) == {2: "deleted", 3: "to_come"}
    drain(queue)
    assert named(reconciled(queue)) == {2: "deleted"}


def test_a_rerun_reads_what_was_planned_and_names_what_expired_since(broker: Kafka) -> None:
    queue = a_queue(broker)
    broker.send(queue.topic, [{"n": n} for n in range(20)])
    run = reconciled(queue, begin="5", end="15")
    assert run.counts["read"] == 10
    broker.send(queue.topic, [{"n": n} for n in range(20, 30)])
    BulkRun.objects.filter(pk=run.pk).update(state="FAILED")
    assert again(run.pk, send=False)
    assert driven(run).counts["read"] == 10

    broker.delete_records(queue.topic, 8)
    BulkRun.objects.filter(pk=run.pk).update(state="FAILED")
    assert again(run.pk, send=False)
    ended = driven(run)
    assert (ended.state, ended.problem[0]) == ("FAILED", "RANGE_EXPIRED")
    assert "5 to 7 of partition 0" in ended.problem[1]
    assert driven(asked(queue, begin="7")).problem[0] == "RANGE_EXPIRED"
    assert driven(asked(queue, end="31")).problem[0] == "RANGE_BEYOND_END"
    assert reconciled(queue).facts["ranges"] == {"0": [8, 30]}


def test_every_name_is_in_the_file_that_was_asked_for(
    broker: Kafka, tmp_path: Path, settings: Any
) -> None:
    settings.SLUICE_BULK_ROOT = tmp_path
    queue = a_queue(broker, partitions=2)
    for partition in (0, 1):
        broker.send(queue.topic, [{"n": 0, "do": "permanent"}] * 3, partition=partition)
    drain(queue)
    for partition in (0, 1):
        broker.send(queue.topic, [{"n": n} for n in range(600)], partition=partition)

    run = reconciled(queue, file="names.jsonl")

    assert run.facts["names"] == 1_206
    assert len(run.facts["named"]) == 1_000
    # What waits for a person comes before what is only to come.
    assert [one["is"] for one in run.facts["named"]] == ["held"] * 6 + ["to_come"] * 994
    written = tmp_path / "reports" / "names.jsonl"
    lines = [json.loads(line) for line in written.read_text().splitlines()]
    assert len(lines) == 1_206
    assert len({(one["partition"], one["offset"]) for one in lines}) == 1_206
    assert sum(one["is"] == "held" for one in lines) == 6
    assert [path for path in tmp_path.rglob("*") if path.is_file()] == [written]
    with pytest.raises(BulkError) as told:
        asked(queue, file="names.jsonl")
    assert told.value.job_code == "FILE_EXISTS"
    for name in ("../names.jsonl", "../uploads/names.jsonl", "a/../../x", str(tmp_path / "x")):
        with pytest.raises(BulkError) as told:
            asked(queue, file=name)
        assert told.value.job_code == "OUTSIDE_FOLDER"


def test_no_report_takes_the_place_of_another_and_a_run_that_is_driven_again_knows_its_own(
    broker: Kafka, tmp_path: Path, settings: Any
) -> None:
    settings.SLUICE_BULK_ROOT = tmp_path
    queue = a_queue(broker)
    broker.send(queue.topic, [{"n": n} for n in range(5)])
    first, second = (asked(queue, file="names.jsonl") for _ in range(2))
    written = tmp_path / "reports" / "names.jsonl"
    first = driven(first)
    assert first.state == "DONE"
    known = written.stat()

    late = driven(second)
    assert (late.state, late.problem[0]) == ("FAILED", "FILE_EXISTS")
    assert written.stat() == known

    # As if its driver had died when the report was in its place, and the run not at its end.
    noted = {PLACED: identity(written)}
    BulkRun.objects.filter(pk=first.pk).update(state="ASKED", facts=noted)
    first = driven(first)
    assert (first.state, first.problem) == ("DONE", None)
    assert first.facts["file_bytes"] == written.stat().st_size
    assert PLACED not in first.facts
    written.unlink()
    assert again(second.pk)
    assert driven(second).state == "DONE"


def test_a_cancelled_reconciliation_leaves_no_file(
    broker: Kafka, tmp_path: Path, settings: Any
) -> None:
    settings.SLUICE_BULK_ROOT = tmp_path
    queue = a_queue(broker)
    broker.send(queue.topic, [{"n": n} for n in range(5)])
    run = asked(queue, file="names.jsonl")
    # While it waits it would end at once; this one is cancelled when it has begun.
    BulkRun.objects.filter(pk=run.pk).update(cancel_asked_at=database_now())
    assert driven(run).state == "CANCELLED"
    assert not [path for path in tmp_path.rglob("*") if path.is_file()]
    # A task that was killed may still read for a moment, and the tables are emptied after this.
    eventually(lambda: not others_at_work())


def others_at_work() -> int:
    """How many other sessions are in the middle of something in this database."""
    with connection.cursor() as cursor:
        cursor.execute(
            "SELECT count(*) FROM pg_stat_activity WHERE datname = current_database() "
            "AND pid <> pg_backend_pid() AND backend_type = 'client backend' AND state <> 'idle'"
        )
        return int(cursor.fetchone()[0])


def test_a_look_first_needs_no_spark_and_shows_no_payload(broker: Kafka) -> None:
    queue = a_queue(broker, partitions=2)
    broker.send(queue.topic, [{"n": 1, "do": "permanent"}, {"n": 2}], partition=0)
    broker.send(queue.topic, [{"n": n} for n in range(30)], partition=1)
    QueuePartition.objects.filter(queue=queue, partition=1).update(next_offset=30)
    drain(queue)

    found = preview("reconcile", {"queue": queue.name})

    assert found.rows == 32
    assert [one.ends for one in found.samples[:3]] == ["held", "applied", "unknown"]
    assert found.samples[0].place == "partition 0, offset 0"
    assert found.samples[0].code == "REFUSED"
    assert len(found.samples) == 20
    assert {one.text for one in found.samples} == {""}
    with pytest.raises(BulkError) as told:
        preview("reconcile", {"queue": queue.name, "begin": "soon"})
    assert told.value.job_code == "BAD_PARAMETERS"
    with pytest.raises(BulkError) as told:
        preview("reconcile", {"queue": "none"})
    assert told.value.job_code == "UNKNOWN_QUEUE"
