"""Exports into a queue: every row is in Kafka, and applied once, whatever happens."""

import json
import random
import string
from collections import Counter
from pathlib import Path
from typing import Any

import psycopg
import pytest
from confluent_kafka import Message
from django.db import connection

from crontasks.bulk import driving
from crontasks.bulk.asking import conninfo, preview
from crontasks.bulk.deciding import again, cancel
from integration.models import BulkRun, MessageError, ObjectStructure, Queue, StoredObject
from spark_jobs.errors import JobError
from spark_jobs.exports import staging, to_queue
from spark_jobs.exports.staging import Stage
from spark_jobs.topics.producing import Sender
from tests.support.builders import a_queue
from tests.support.bulk import an_asset_structure, driven, shared_session, stages, storing
from tests.support.exports import a_document, an_export, in_ranges, some_documents
from tests.support.flows import drain_past
from tests.support.kafka_world import Kafka
from tests.support.tracks import a_track_row

pytestmark = [
    pytest.mark.servers,
    pytest.mark.django_db(transaction=True),
    pytest.mark.timeout(500),
]
PARTITIONS, ROWS, RANGES = 3, 400, 5


@pytest.fixture(scope="module", autouse=True)
def spark() -> Any:
    return shared_session()


@pytest.fixture
def broker(servers: Any) -> Kafka:
    return Kafka(servers.kafka_bootstrap)


@pytest.fixture
def structure(servers: Any) -> ObjectStructure:
    return an_asset_structure()


@pytest.fixture
def copy(servers: Any) -> ObjectStructure:
    return ObjectStructure.objects.create(name="COPY", key_paths=["$.num"])


@pytest.fixture
def queue(broker: Kafka, copy: ObjectStructure) -> Queue:
    return storing(a_queue(broker, partitions=PARTITIONS, dedupe=True), copy)


def to(queue: Queue, what: str = "documents", /, **job_request: Any) -> BulkRun:
    return an_export(what, into_queue=queue.name, **job_request)


def in_five(run: BulkRun) -> BulkRun:
    return in_ranges(run, ROWS // (RANGES - 1))


def sent(broker: Kafka, queue: Queue) -> list[dict[str, Any]]:
    """The envelopes in the topic, each with the key of its record."""
    return [
        {**json.loads(record.value() or b""), "key": _key(record)}
        for record in broker.read_all(queue.topic, range(PARTITIONS))
    ]


def _key(record: Message) -> str | None:
    key = record.key()
    return None if key is None else key.decode()


def ids(broker: Kafka, queue: Queue) -> Counter[str]:
    return Counter(one["MEAMessageID"] for one in sent(broker, queue))


def copied(copy: ObjectStructure) -> dict[int, str]:
    """What is stored, as the database has it."""
    with connection.cursor() as cursor:
        cursor.execute(
            "SELECT (document->>'num')::int, document::text FROM integration_storedobject "
            "WHERE structure_id = %s AND document IS NOT NULL",
            [copy.pk],
        )
        return dict(cursor.fetchall())


def all_are_copied_once(structure: ObjectStructure, copy: ObjectStructure) -> None:
    """The same documents digit by digit, and none was written twice."""
    assert list(MessageError.objects.values_list("code", "text")[:3]) == []
    assert copied(copy) == copied(structure)
    assert set(copy.documents.values_list("version", flat=True)) == {1}
    assert copy.documents.count() == ROWS


def test_documents_become_messages_and_are_stored_by_their_queue(
    broker: Kafka, queue: Queue, structure: ObjectStructure, copy: ObjectStructure
) -> None:
    some_documents(structure, ROWS)
    a_document(structure, "GONE", None)

    run = driven(in_five(to(queue)))

    assert run.counts == {"read": ROWS, "sent": ROWS, "rejected": 0, "skipped": 0}, run.problem
    assert (stages(run), run.facts) == ([], {"topic": queue.topic})
    assert run.progress["stages"] == ["stage", "send"]
    assert (run.progress["stage"], run.progress["done"], run.progress["rows"]) == (
        "send",
        RANGES,
        ROWS,
    )
    found = sent(broker, queue)
    assert {(one["INTERFACE"], one["SENDER"], one["destjndiname"]) for one in found} == {
        ("MXASSET", "partner", queue.topic)
    }
    assert {one["key"] for one in found} == set(
        structure.documents.exclude(key="GONE").values_list("key", flat=True)
    )
    assert all(one["MEAMessageID"].startswith(f"{run.pk}~") for one in found)
    assert '"price": 7.10' in next(one["payload"] for one in found if one["key"] == "A-000007")
    drain_past(queue, sum(ids(broker, queue).values()))
    all_are_copied_once(structure, copy)
    BulkRun.objects.update(state="ASKED")
    assert driven(run).counts["sent"] == ROWS, "what was applied is told again"
    assert len(sent(broker, queue)) == ROWS


def test_what_was_sent_and_not_written_down_is_sent_again_and_dropped_by_the_queue(
    tmp_path: Path,
    broker: Kafka,
    queue: Queue,
    structure: ObjectStructure,
    copy: ObjectStructure,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """The task dies between Kafka's confirmation and its own commit."""
    some_documents(structure, ROWS)
    original, marks = staging.send, tmp_path

    def dying(what: Any, part: Any) -> Any:
        finish = Sender.finish

        def and_die(self: Sender) -> int:
            done = finish(self)
            mark = marks / str(part.number)
            if not mark.exists():
                mark.touch()
                raise OSError("the power is gone")
            return done

        Sender.finish = and_die  # type: ignore[method-assign] # in the worker, for this call
        try:
            return original(what, part)
        finally:
            Sender.finish = finish  # type: ignore[method-assign]

    monkeypatch.setattr(to_queue, "send", dying)
    run = driven(in_five(to(queue)))
    assert run.counts["sent"] == ROWS, run.problem
    found = ids(broker, queue)
    assert (len(found), set(found.values())) == (ROWS, {2})
    drain_past(queue, sum(ids(broker, queue).values()))
    all_are_copied_once(structure, copy)


def fail_at(number: int, monkeypatch: pytest.MonkeyPatch) -> None:
    """One range cannot be sent; the others are."""
    original = staging.send

    def failing(what: Any, part: Any) -> Any:
        if part.number == number:
            raise JobError("KAFKA_UNUSABLE", "It is not there.", "Wait.")
        return original(what, part)

    monkeypatch.setattr(to_queue, "send", failing)


def changed(structure: ObjectStructure, key: str) -> None:
    """As the store changes a document."""
    with connection.cursor() as cursor:
        cursor.execute(
            "UPDATE integration_storedobject SET document = document || '{\"new\": 1}', "
            "version = version + 1 WHERE structure_id = %s AND key = %s",
            [structure.pk, key],
        )


def test_a_rerun_sends_the_others_of_the_same_moment(
    broker: Kafka,
    queue: Queue,
    structure: ObjectStructure,
    copy: ObjectStructure,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    some_documents(structure, ROWS)
    before = copied(structure)
    run = in_five(to(queue))
    fail_at(2, monkeypatch)
    failed = driven(run)
    assert (failed.state, failed.problem[0]) == ("FAILED", "KAFKA_UNUSABLE")
    assert 0 < len(sent(broker, queue)) < ROWS
    monkeypatch.undo()
    changed(structure, "A-000250")
    StoredObject.objects.filter(key="A-000251").delete()

    assert again(run.pk)
    assert driven(run).counts["sent"] == ROWS

    assert set(ids(broker, queue).values()) == {1}, "none was sent again"
    drain_past(queue, sum(ids(broker, queue).values()))
    assert copied(copy) == before


def test_rows_that_are_staged_anew_keep_their_ids_unless_they_changed(
    broker: Kafka,
    queue: Queue,
    structure: ObjectStructure,
    copy: ObjectStructure,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    some_documents(structure, ROWS)
    run = in_five(to(queue))
    fail_at(4, monkeypatch)
    assert driven(run).state == "FAILED"
    monkeypatch.undo()
    out = len(sent(broker, queue))
    with connection.cursor() as cursor:  # as a crash of the database leaves them
        cursor.execute("TRUNCATE " + ", ".join(stages(run)))
    changed(structure, "A-000001")

    assert again(run.pk)
    assert driven(run).counts["sent"] == ROWS

    assert sum(ids(broker, queue).values()) == out + ROWS
    assert len(ids(broker, queue)) == ROWS + 1
    drain_past(queue, sum(ids(broker, queue).values()))
    assert copied(copy) == copied(structure)
    assert MessageError.objects.count() == 0


def test_a_run_that_is_cancelled_while_it_sends_goes_on_with_the_others(
    broker: Kafka,
    queue: Queue,
    structure: ObjectStructure,
    copy: ObjectStructure,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    some_documents(structure, ROWS)
    run = in_five(to(queue))
    told = driving.RowTell.progress

    def and_cancel(self: driving.RowTell, progress: Any) -> None:
        told(self, progress)
        if progress.stage == "send" and progress.done:
            cancel(run.pk)

    monkeypatch.setattr(driving.RowTell, "progress", and_cancel)
    stopped = driven(run)
    assert stopped.state == "CANCELLED"
    assert "messages were out" in stopped.log
    assert stages(run) != []
    monkeypatch.undo()
    assert again(run.pk)
    assert driven(run).counts["sent"] == ROWS
    assert len(ids(broker, queue)) == ROWS, "what a killed task sent has the same ids again"
    drain_past(queue, sum(ids(broker, queue).values()))
    all_are_copied_once(structure, copy)


def test_a_run_is_kept_while_it_waits_for_tasks_of_an_earlier_driver(
    queue: Queue, structure: ObjectStructure, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Its tables are made anew when those have ended; until then its lease is renewed."""
    some_documents(structure, 1)
    run, remake = to(queue), Stage.remake

    def and_renew(self: Stage, session: Any) -> None:
        remake(self, session)
        with psycopg.connect(conninfo()) as another:
            another.execute("SET lock_timeout = '1s'")
            another.execute("UPDATE integration_bulkrun SET owner = 'kept' WHERE id = %s", [run.pk])

    monkeypatch.setattr(Stage, "remake", and_renew)
    ended = driven(run)
    assert (ended.problem, ended.owner) == (None, "kept")


def test_a_driver_that_lost_the_run_sends_nothing(
    broker: Kafka, queue: Queue, structure: ObjectStructure, monkeypatch: pytest.MonkeyPatch
) -> None:
    some_documents(structure, ROWS)
    run = to(queue)
    monkeypatch.setattr(driving.RowTell, "go_on", lambda _: None)
    told = driving.RowTell.say

    def and_lose(self: driving.RowTell, line: str) -> None:
        told(self, line)
        BulkRun.objects.filter(pk=run.pk).update(epoch=99)

    monkeypatch.setattr(driving.RowTell, "say", and_lose)
    driving.drive(run.pk, owner="too slow")

    run.refresh_from_db()
    assert (run.applied, run.state, run.epoch) == (False, "RUNNING", 99)
    assert sent(broker, queue) == []


def test_nothing_is_sent_where_one_row_is_too_large_for_the_topic(
    broker: Kafka, queue: Queue, structure: ObjectStructure
) -> None:
    Queue.objects.filter(pk=queue.pk).update(topic_max_bytes=20_000)
    some_documents(structure, ROWS)
    # Envelopes are compressed, and this cannot be.
    noise = "".join(random.Random(1).choices(string.ascii_letters + string.digits, k=60_000))
    a_document(structure, "LARGE", json.dumps({"num": 0, "text": noise}))
    failed = driven(to(queue))
    assert failed.problem[0] == "TOO_LARGE_FOR_TOPIC"
    assert "'LARGE'" in failed.problem[1]
    assert sent(broker, queue) == []
    assert stages(failed) == []


def test_xml_stays_xml_and_tracked_messages_are_told_by_their_columns(
    broker: Kafka, queue: Queue, structure: ObjectStructure
) -> None:
    a_document(structure, "B", None, xml="<a>1 &lt; \n 2</a>")
    assert driven(to(queue)).counts["sent"] == 1
    [one] = sent(broker, queue)
    assert (one["payload"], one["mimetype"]) == ("<a>1 &lt; \n 2</a>", "application/xml")

    other = a_queue(broker)
    for number in range(3):
        payload = b'{"n": 1.50}'
        a_track_row(other, message_id=f"m{number}", key=f"k{number}", payload=payload)
    columns = "id=message_id\nn=$.n"
    run = driven(to(queue, "messages", queue=other.name, columns=columns))
    assert run.counts["sent"] == 3, run.problem
    found = {e["key"]: e["payload"] for e in sent(broker, queue) if e["key"] != "B"}
    assert found == {f"k{n}": f'{{"id":"m{n}","n":1.50}}' for n in range(3)}


def test_a_look_first_tells_that_rows_are_sent(queue: Queue, structure: ObjectStructure) -> None:
    some_documents(structure, 30)
    job_request = {"what": "documents", "structure": "ASSET", "into_queue": queue.name}
    found = preview("export", job_request)
    assert (found.rows, {one.ends for one in found.samples}) == (30, {"sent"})
    # Which of them come first is up to the table, which earlier tests have had rows in.
    assert json.loads(found.samples[0].text)["num"] in range(1, 31)
