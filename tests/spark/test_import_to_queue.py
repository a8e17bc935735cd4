"""Imports into a queue: every good row is in Kafka, and applied once, whatever happens."""

import json
import random
import string
from collections import Counter
from pathlib import Path
from typing import Any

import pytest
from confluent_kafka import Message

from crontasks.bulk import driving
from crontasks.bulk.asking import preview
from crontasks.bulk.cancelled import SENT, what_stays
from crontasks.bulk.deciding import again, cancel
from integration.envelope import Document, read
from integration.models import BulkRun, MessageError, ObjectStructure, Queue, StoredObject
from spark_jobs.errors import JobError
from spark_jobs.imports import job as import_job
from spark_jobs.imports import storing as import_storing
from spark_jobs.imports.parameters import ImportParameters
from spark_jobs.topics.producing import Sender, open_sender
from tests.support.builders import a_queue
from tests.support.bulk import (
    COLUMNS,
    a_csv,
    an_asset_structure,
    an_import,
    driven,
    shared_session,
    stages,
    stored,
    storing,
)
from tests.support.flows import drain, ended
from tests.support.kafka_world import Kafka

pytestmark = [
    pytest.mark.servers,
    pytest.mark.django_db(transaction=True),
    pytest.mark.timeout(500),
]
PARTITIONS = 3


@pytest.fixture(scope="module", autouse=True)
def spark() -> Any:
    return shared_session()


@pytest.fixture
def broker(servers: Any) -> Kafka:
    return Kafka(servers.kafka_bootstrap)


@pytest.fixture
def structure() -> ObjectStructure:
    return an_asset_structure()


@pytest.fixture
def queue(broker: Kafka, structure: ObjectStructure) -> Queue:
    return storing(a_queue(broker, partitions=PARTITIONS, dedupe=True), structure)


def to_queue(source: Path, queue: Queue, **more: Any) -> BulkRun:
    return an_import(source, queue, structure="", queue=queue.name, **more)


def sent(broker: Kafka, queue: Queue) -> list[Message]:
    return broker.read_all(queue.topic, range(PARTITIONS))


def some_files(folder: Path, count: int = 4, rows: int = 100, bad: int = 0) -> None:
    for number in range(count):
        a_csv(folder / f"{number}.csv", rows, bad=bad, first=number * rows)


def half_sent(folder: Path, queue: Queue, monkeypatch: pytest.MonkeyPatch) -> BulkRun:
    """A run that failed when three of its four ranges were out: 297 messages."""
    some_files(folder, bad=1)
    run = to_queue(folder, queue)
    original = import_job.send

    def failing(what: Any, part: Any) -> Any:
        if part.number == 2:
            raise JobError("KAFKA_UNUSABLE", "It is not there.", "Wait.")
        return original(what, part)

    with monkeypatch.context() as patch:
        patch.setattr(import_job, "send", failing)
        return driven(run)


def times_sent(broker: Kafka, queue: Queue) -> Counter[str]:
    """The ids of the messages that are out, each with how often it is."""
    records = sent(broker, queue)
    return Counter(json.loads(record.value() or b"")["MEAMessageID"] for record in records)


def test_rows_become_messages_of_the_queue(tmp_path: Path, broker: Kafka, queue: Queue) -> None:
    some_files(tmp_path, bad=2)

    run = driven(to_queue(tmp_path, queue))

    assert run.counts == {"read": 400, "sent": 392, "rejected": 8, "skipped": 0}, run.problem
    assert stages(run) == []
    records = sent(broker, queue)
    envelopes = [json.loads(record.value() or b"") for record in records]
    ids = {envelope["MEAMessageID"] for envelope in envelopes}
    assert len(ids) == len(records) == 392
    assert all(id_.startswith(f"{run.pk}~") for id_ in ids)
    assert {(one["INTERFACE"], one["SENDER"], one["destjndiname"]) for one in envelopes} == {
        ("MXASSET", "partner", queue.topic)
    }
    keys = {
        json.loads(one["payload"])["assetnum"]: record.key()
        for one, record in zip(envelopes, records, strict=True)
    }
    assert keys["A-1"] == b'["A-1","BEDFORD"]', "the key is the document's, as the engine makes it"
    # Where Java's clients put it: the engine's own producer is held to that elsewhere.
    broker.producer = _murmur2(broker)
    broker.send(queue.topic, [b"{}"], key=keys["A-1"])
    place = {r.partition() for r in sent(broker, queue) if r.key() == keys["A-1"]}
    assert len(place) == 1

    drain(queue, runs=2)
    assert stored() >= {"A-1", "A-399"} - {_missing(one) for one in MessageError.objects.all()}
    assert StoredObject.objects.count() == 392
    assert MessageError.objects.filter(state="HOLD", code="MISSING_VALUE").count() == 8


def test_the_database_writes_records_as_an_envelope_is_written(
    tmp_path: Path, broker: Kafka, queue: Queue
) -> None:
    """Bytes for bytes, whatever stands in them, and those that are compressed too."""
    odd = ['quote " and back\\slash', "tab\tline\r\n\b\f", "\x01\x1f\x7f", "ä € 💧", "</a>&'%{}"]
    texts = [*odd, "x" * 900, "ö" * 900, "x" * 2_000]
    rows = [{"assetnum": f"A-{n}", "siteid": "B", "text": text} for n, text in enumerate(texts)]
    lines = [json.dumps(row, ensure_ascii=bool(n % 2)) for n, row in enumerate(rows)]
    (tmp_path / "odd.jsonl").write_text("\n".join([*lines, f" {lines[0]}".replace("A-0", "A-S")]))

    run = driven(to_queue(tmp_path / "odd.jsonl", queue, format="jsonl", columns=""))

    target = ImportParameters.of(run.parameters).target
    assert target is not None
    records = [record.value() or b"" for record in sent(broker, queue)]
    for record in records:
        document = read(record)
        assert isinstance(document, Document)
        text = document.payload
        text = text.decode() if isinstance(text, bytes) else text
        assert record == target.record(document.message_id or "", text)
    found = Counter(json.loads(record).get("compressed") for record in records)
    assert found == {None: len(lines), "1": 1}, "one of them is long"


def test_a_sender_that_has_finished_is_used_again(broker: Kafka, queue: Queue) -> None:
    settings = {"bootstrap.servers": broker.bootstrap}
    first = open_sender(settings)
    first.send(queue.topic, b"k", b"1")
    assert first.finish() == 1

    again = open_sender(dict(settings))
    assert again is first, "to connect anew takes as long as many records"
    assert open_sender(settings) is not again, "two never have the same"
    again.send(queue.topic, b"k", b"2")
    again.send(queue.topic, b"k", b"3")
    assert again.finish() == 2
    assert open_sender({**settings, "client.id": "another"}) is not again

    assert [record.value() for record in sent(broker, queue)] == [b"1", b"2", b"3"]


def _murmur2(broker: Kafka) -> Any:
    from confluent_kafka import Producer  # noqa: PLC0415 - beside its only use

    return Producer({"bootstrap.servers": broker.bootstrap, "partitioner": "murmur2_random"})


def _missing(row: MessageError) -> str:
    return str(json.loads(bytes(row.payload or b"{}")).get("assetnum"))


@pytest.mark.parametrize(
    ("rule", "weight", "counts"),
    [
        ("last", 99, {"read": 11, "sent": 10, "rejected": 0, "skipped": 1}),
        ("reject", 3, {"read": 11, "sent": 10, "rejected": 1, "skipped": 0}),
    ],
)
def test_of_rows_with_one_key_one_is_sent(
    tmp_path: Path, broker: Kafka, queue: Queue, rule: str, weight: int, counts: dict[str, int]
) -> None:
    a_csv(tmp_path / "a.csv", 10)
    (tmp_path / "b.csv").write_text("ASSETNUM,SITEID,WEIGHT\nA-3,BEDFORD,99\n")
    run = driven(to_queue(tmp_path, queue, duplicates=rule))
    assert run.counts == counts, run.problem
    payloads = [json.loads(json.loads(r.value() or b"")["payload"]) for r in sent(broker, queue)]
    assert [one["weight"] for one in payloads if one["assetnum"] == "A-3"] == [weight]
    assert MessageError.objects.count() == counts["rejected"]


def test_a_run_that_is_let_go_on_sends_the_others_only(
    tmp_path: Path, broker: Kafka, queue: Queue, monkeypatch: pytest.MonkeyPatch
) -> None:
    failed = half_sent(tmp_path, queue, monkeypatch)
    assert (failed.state, failed.problem[0]) == ("FAILED", "KAFKA_UNUSABLE")
    assert failed.facts == {"sending_begun": True}, "which the cleanup of its tables asks for"
    assert MessageError.objects.count() == 0, "rejects wait for the commit"
    assert len(sent(broker, queue)) == 3 * 99

    assert again(failed.pk)
    assert driven(failed).counts == {"read": 400, "sent": 396, "rejected": 4, "skipped": 0}
    assert Counter(times_sent(broker, queue).values()) == {1: 396}, "none was sent again"


def test_a_run_that_is_half_sent_and_cancelled_while_it_stages_again_keeps_what_was_sent(
    tmp_path: Path, broker: Kafka, queue: Queue, monkeypatch: pytest.MonkeyPatch
) -> None:
    run = half_sent(tmp_path, queue, monkeypatch)

    assert again(run.pk)
    cancel(run.pk)
    stopped = driven(run)
    assert (stopped.state, stages(run) != []) == ("CANCELLED", True)
    assert "Cancelled when 297 messages were out" in stopped.log

    assert again(run.pk)
    assert driven(run).counts == {"read": 400, "sent": 396, "rejected": 4, "skipped": 0}
    assert Counter(times_sent(broker, queue).values()) == {1: 396}, "none was sent again"


def test_a_run_that_is_half_sent_needs_its_files_no_more(
    tmp_path: Path, broker: Kafka, queue: Queue, monkeypatch: pytest.MonkeyPatch
) -> None:
    run = half_sent(tmp_path, queue, monkeypatch)
    for file in tmp_path.iterdir():
        file.unlink()

    assert again(run.pk)
    ended = driven(run)
    assert ended.counts == {"read": 400, "sent": 396, "rejected": 4, "skipped": 0}, ended.problem
    assert Counter(times_sent(broker, queue).values()) == {1: 396}


def test_nothing_is_sent_of_a_run_with_too_many_rejects(
    tmp_path: Path, broker: Kafka, queue: Queue, monkeypatch: pytest.MonkeyPatch
) -> None:
    some_files(tmp_path, bad=2)
    run = to_queue(tmp_path, queue)
    monkeypatch.setattr(import_storing, "MOST_REJECTS", 7)
    failed = driven(run)
    assert (failed.state, failed.problem[0]) == ("FAILED", "TOO_MANY_REJECTS")
    assert (sent(broker, queue), MessageError.objects.count()) == ([], 0)


def test_what_was_sent_and_not_written_down_is_sent_again_and_dropped_by_the_queue(
    tmp_path: Path, broker: Kafka, queue: Queue, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The task dies between Kafka's confirmation and its own commit."""
    some_files(tmp_path, count=2)
    (tmp_path / "died").mkdir()
    original, marks = import_job.send, tmp_path / "died"

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

    monkeypatch.setattr(import_job, "send", dying)
    run = driven(to_queue(f"{tmp_path}/*.csv", queue))  # type: ignore[arg-type]
    assert run.counts["sent"] == 200, run.problem
    assert Counter(times_sent(broker, queue).values()) == {2: 200}

    drain(queue, runs=2)
    assert StoredObject.objects.filter(version=1).count() == 200 == StoredObject.objects.count()
    assert MessageError.objects.count() == 0


def test_a_task_that_kafka_refuses_is_tried_again(
    tmp_path: Path, broker: Kafka, queue: Queue, monkeypatch: pytest.MonkeyPatch
) -> None:
    some_files(tmp_path, count=1)
    (tmp_path / "tries").mkdir()
    original, marks = import_job.send, tmp_path / "tries"

    def failing(what: Any, part: Any) -> Any:
        tries = len(list(marks.iterdir()))
        (marks / str(tries)).touch()
        if tries < 2:
            raise JobError("NOT_DELIVERED", "It is away.", "Wait.")
        return original(what, part)

    monkeypatch.setattr(import_job, "send", failing)
    run = driven(to_queue(tmp_path / "0.csv", queue))
    assert run.counts["sent"] == 100, run.problem
    for mark in marks.iterdir():
        mark.unlink()

    def always(what: Any, part: Any) -> Any:
        raise JobError("NOT_DELIVERED", "It is away.", "Wait.")

    monkeypatch.setattr(import_job, "send", always)
    failed = driven(to_queue(tmp_path / "0.csv", queue))
    assert failed.problem == ["NOT_DELIVERED", "It is away.", "Wait."]


def test_a_message_that_is_too_large_for_its_topic_is_a_reject(
    tmp_path: Path, broker: Kafka, structure: ObjectStructure
) -> None:
    topic = broker.topic(PARTITIONS, **{"max.message.bytes": "20000"})
    queue = storing(a_queue(broker, topic=topic, partitions=PARTITIONS), structure)
    Queue.objects.update(topic_max_bytes=20_000)
    # Envelopes are compressed, and this cannot be.
    noise = "".join(random.Random(1).choices(string.ascii_letters + string.digits, k=60_000))
    rows = ["ASSETNUM,SITEID,WEIGHT,NOTE", "A-1,B,1,", f"A-2,B,2,{noise}", "A-3,B,3,"]
    (tmp_path / "a.csv").write_text("\n".join(rows))
    run = driven(to_queue(tmp_path, queue, columns=f"{COLUMNS}\nNOTE=note"))
    assert run.counts == {"read": 3, "sent": 2, "rejected": 1, "skipped": 0}, run.problem
    assert MessageError.objects.get().code == "ROW_TOO_LONG"


def test_documents_without_a_structure_are_sent_as_they_are(tmp_path: Path, broker: Kafka) -> None:
    queue = a_queue(broker, partitions=PARTITIONS)
    (tmp_path / "a.xml").write_text("<A><ASSET><N>1</N></ASSET><ASSET><N>2</N></ASSET></A>")
    job_request = {"format": "xml", "record": "ASSET", "columns": ""}
    run = driven(to_queue(tmp_path, queue, **job_request))
    assert run.counts == {"read": 2, "sent": 2, "rejected": 0, "skipped": 0}, run.problem
    found = [(r.key(), json.loads(r.value() or b"")) for r in sent(broker, queue)]
    assert [key for key, _ in found] == [None, None]
    assert {one["payload"] for _, one in found} == {
        "<ASSET><N>1</N></ASSET>",
        "<ASSET><N>2</N></ASSET>",
    }
    assert {(one["INTERFACE"], one["mimetype"]) for _, one in found} == {
        ("OBEY", "application/xml")
    }


def test_a_run_that_is_cancelled_while_it_sends_goes_on_with_the_others(
    tmp_path: Path, broker: Kafka, queue: Queue, monkeypatch: pytest.MonkeyPatch
) -> None:
    some_files(tmp_path)
    run = to_queue(tmp_path, queue)
    told = driving.RowTell.progress

    def and_cancel(self: driving.RowTell, progress: Any) -> None:
        told(self, progress)
        if progress.stage == "send" and progress.done:
            cancel(run.pk)

    monkeypatch.setattr(driving.RowTell, "progress", and_cancel)
    stopped = driven(run)
    assert stopped.state == "CANCELLED"
    assert "messages were out" in stopped.log
    assert what_stays(stopped) == SENT
    assert stages(run) != []
    assert MessageError.objects.count() == 0
    monkeypatch.undo()
    assert again(run.pk)
    assert driven(run).counts["sent"] == 400
    assert Counter(times_sent(broker, queue).values()) == {1: 400}


def test_a_look_first_tells_that_rows_are_sent(tmp_path: Path, queue: Queue) -> None:
    a_csv(tmp_path / "a.csv", 5, bad=1)
    job_request = {
        "source": str(tmp_path),
        "queue": queue.name,
        "rejects_queue": queue.name,
        "columns": COLUMNS,
    }
    found = preview("import", job_request)
    assert Counter(one.ends for one in found.samples) == {"sent": 4, "rejected": 1}
    assert ended(queue) == {}
