"""Messages of a topic handed out again: which of them, under which numbers, and never twice."""

import json
from functools import partial
from typing import Any

import psycopg
import pytest
from django.db.models import F

from crontasks.bulk import driving
from crontasks.bulk.asking import arguments_of, ask, conninfo, preview
from crontasks.bulk.deciding import again, cancel
from crontasks.bulk.errors import BulkError
from integration.actions.failures import delete, edit, hold, release
from integration.delivery.key_order import order_key
from integration.models import (
    BatchLog,
    BulkRun,
    EnterpriseService,
    ErrorChange,
    MessageError,
    MessageTrack,
    ObjectStructure,
    Queue,
    StoredObject,
)
from integration.store.sessions import database_time
from spark_jobs.errors import JobError
from spark_jobs.fencing import discard, own, settle
from spark_jobs.replay.staging import Stage
from tests.support.builders import a_queue
from tests.support.bulk import driven, shared_session, stages, storing
from tests.support.flows import drain, effects, position
from tests.support.kafka_world import Kafka
from tests.support.world.models import Effect

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


def asked(queue: Queue, into: str = "queue", **more: Any) -> BulkRun:
    job_request = {"queue": queue.name, "into": into, **more}
    return ask("replay", job_request, actor="ann", reason="tests", send=False)


def replayed(queue: Queue, into: str = "queue", **more: Any) -> BulkRun:
    run = driven(asked(queue, into, **more))
    assert (run.problem, run.state) == (None, "DONE")
    assert stages(run) == []
    return run


def refusal(queue: Queue, into: str = "queue", **more: Any) -> str:
    run = driven(asked(queue, into, **more))
    assert run.state == "FAILED"
    return str(run.problem[0])


def states(queue: Queue) -> dict[int, str]:
    return dict(MessageError.objects.filter(queue=queue).values_list("offset", "state"))


def numbers(n: int) -> list[tuple[int, int]]:
    """The arrival numbers under which the handler saw a message."""
    found = Effect.objects.filter(n=n).order_by("pk")
    return list(found.values_list("arrival_batch", "arrival_place"))


def assets(broker: Kafka, **fields: Any) -> Queue:
    """A queue that stores documents by their `a`; `version` tells which is newer."""
    structure = ObjectStructure.objects.create(
        name="ASSET", key_paths=["$.a"], version_path="$.version", **fields
    )
    return storing(a_queue(broker), structure)


def documents(structure: str = "ASSET") -> dict[str, Any]:
    found = StoredObject.objects.filter(structure__name=structure)
    return dict(found.values_list("key", "document"))


def test_chosen_messages_go_through_their_handlers_under_the_numbers_they_had(
    broker: Kafka,
) -> None:
    queue = a_queue(broker, batch_size=4)
    for n in range(10):
        broker.send(queue.topic, [{"n": n, "odd": n % 2}], key=f"k{n % 3}", headers=[("h", b"x")])
    drain(queue)
    before = position(queue)

    run = replayed(queue, begin="2", end="9", key="k1", path="$.odd=1", header="h=x")

    # Offsets 4 and 7 have the key; of these 7 is odd.
    assert run.counts == {"read": 7, "sent": 1, "rejected": 0, "skipped": 6}
    assert run.facts["left_out"] == {"not_chosen": 6}
    assert states(queue) == {7: "READY"}
    drain(queue)
    assert states(queue) == {7: "RESOLVED"}
    assert effects() == sorted([*range(10), 7])
    first, second = numbers(7)
    assert first == second
    after = position(queue)
    assert (after.next_offset, after.state) == (before.next_offset, before.state) == (10, "RUNNING")
    row = MessageError.objects.get()
    assert (row.code, row.late, row.attempts, row.key) == ("REPLAYED", True, 1, b"k1")
    assert {track.message_id for track in MessageTrack.objects.filter(offset=7)} == {row.message_id}
    change = ErrorChange.objects.get()
    assert (change.actor, change.action, change.to_state, change.reason) == (
        "ann",
        "replay",
        "READY",
        "tests",
    )
    found = ask("reconcile", {"queue": queue.name}, actor="ann", send=False)
    assert driven(found).facts["fates"] == {"replayed": 1, "applied": 9}


def test_a_run_that_is_driven_again_gives_nothing_back_twice(broker: Kafka) -> None:
    queue = a_queue(broker, partitions=2)
    for partition in (0, 1):
        broker.send(queue.topic, [{"n": n} for n in range(50)], partition=partition)
    drain(queue)
    run = replayed(queue)
    assert run.counts == {"read": 100, "sent": 100, "rejected": 0, "skipped": 0}
    BulkRun.objects.update(state="ASKED")
    drain(queue)
    assert driven(run).counts == run.counts
    assert set(MessageError.objects.values_list("state", flat=True)) == {"RESOLVED"}
    drain(queue)
    assert Effect.objects.count() == 200


def test_newer_data_stays_unless_somebody_says_why_not(broker: Kafka) -> None:
    queue = assets(broker)
    broker.send(queue.topic, [{"a": 1, "name": "old"}, {"a": 1, "name": "new"}])
    drain(queue)
    replayed(queue, end="1")
    drain(queue)
    assert MessageError.objects.get().ended == "SUPERSEDED"
    assert documents() == {"1": {"a": 1, "name": "new"}}

    MessageError.objects.update(copied_at=database_time(), copy_offset=3)
    run = replayed(queue, end="1", apply_as_newest="the new one was a mistake")
    copies = list(MessageError.objects.values_list("copied_at", "copy_offset"))
    assert (run.counts["sent"], copies) == (1, [(None, None)])
    drain(queue)
    assert MessageError.objects.get().ended == "APPLIED"
    assert documents() == {"1": {"a": 1, "name": "old"}}
    reasons = ErrorChange.objects.order_by("pk").values_list("from_state", "reason")
    assert list(reasons) == [("", "tests"), ("RESOLVED", "the new one was a mistake")]


def test_what_has_no_number_any_more_stops_the_run(broker: Kafka) -> None:
    queue = a_queue(broker, batch_size=5)
    broker.send(queue.topic, [{"n": n} for n in range(10)])
    drain(queue)
    BatchLog.objects.filter(from_offset=5).delete()
    run = driven(asked(queue))
    assert (run.state, run.problem[0]) == ("FAILED", "NO_ARRIVAL_NUMBERS")
    assert "offset 5 of partition 0" in run.problem[1]
    assert states(queue) == {}
    assert replayed(queue, end="5").counts["sent"] == 5
    newest = replayed(queue, begin="5", apply_as_newest="they were lost")
    assert newest.counts["sent"] == 5
    drain(queue)
    assert effects() == sorted([*range(10), *range(10)])
    (old, _), (new, _) = numbers(9)
    assert new > old


def test_what_people_decided_is_kept(broker: Kafka) -> None:
    """Held, deleted, corrected, and not read yet."""
    queue = a_queue(broker)
    broker.send(queue.topic, [{"n": n, "do": "permanent"} for n in range(3)] + [{"n": 3}])
    drain(queue)
    row = {one.offset: one for one in MessageError.objects.all()}
    delete(row[1].pk, version=row[1].version, actor="ann", reason="of no use")
    version = edit(row[2].pk, version=row[2].version, actor="ann", payload=b'{"n": 22}')
    release(row[2].pk, version=version, actor="ann")
    drain(queue)
    broker.send(queue.topic, [{"n": 4}])
    held = MessageError.objects.get(offset=0).version

    run = replayed(queue)

    assert run.facts["left_out"] == {"open": 1, "deleted": 1, "to_come": 1}
    assert run.counts == {"read": 5, "sent": 2, "rejected": 0, "skipped": 3}
    assert states(queue) == {0: "HOLD", 1: "DELETED", 2: "READY", 3: "READY"}
    assert MessageError.objects.get(offset=0).version == held
    drain(queue)
    # The corrected message is applied as it was corrected; what was not read yet is read once.
    assert effects() == [3, 3, 4, 22, 22]


def test_a_blocked_queue_takes_what_is_given_back_and_stays_where_it_is(broker: Kafka) -> None:
    queue = a_queue(broker, "sequential")
    broker.send(queue.topic, [{"n": 0}, {"n": 1}, {"n": 2, "do": "permanent"}, {"n": 3}])
    drain(queue)
    run = replayed(queue)
    assert run.facts["left_out"] == {"to_come": 2}
    drain(queue)
    assert effects() == [0, 0, 1, 1]
    where = position(queue)
    assert (where.next_offset, where.state) == (2, "BLOCKED")


def test_a_replay_does_not_stop_its_queue(broker: Kafka) -> None:
    queue = a_queue(broker, max_open_errors=5, max_retries=0)
    broker.send(queue.topic, [{"n": n} for n in range(20)])
    drain(queue)
    replayed(queue)
    # Live failures meet the rows that were given back.
    broker.send(queue.topic, [{"n": 20, "do": "permanent"}, {"n": 21}])
    drain(queue)
    where = position(queue)
    assert (where.next_offset, where.state) == (22, "RUNNING")
    assert effects() == sorted([*range(20), *range(20), 21])


def test_what_is_given_back_keeps_the_order_of_its_key_wherever_that_stands(broker: Kafka) -> None:
    queue = a_queue(broker, ordering="key", order_path="$.asset.num")
    for n, num in enumerate(["A", "B", "A", None]):
        broker.send(queue.topic, [{"n": n, "asset": {"num": num}}], key=f"other-{n}")
    broker.send(queue.topic, [b"no json"])
    drain(queue)

    replayed(queue)

    keys = MessageError.objects.filter(state="READY").values_list("offset", "order_key")
    found = {offset: None if key is None else bytes(key) for offset, key in keys}
    assert found == {0: order_key(b"A"), 1: order_key(b"B"), 2: order_key(b"A"), 3: None}
    first = MessageError.objects.get(offset=0)
    hold(first.pk, version=first.version, actor="ann")
    drain(queue)
    assert states(queue) == {0: "HOLD", 1: "RESOLVED", 2: "PARKED", 3: "RESOLVED", 4: "HOLD"}


def test_messages_keep_their_ids_in_another_topic(broker: Kafka) -> None:
    queue = a_queue(broker)
    broker.send(queue.topic, [{"n": 0}], key="k", headers=[("h", b"x"), ("none", None)])
    broker.send(queue.topic, [{"n": 1}], headers=[("sluice-message-id", b"its-own")])
    broker.send(queue.topic, [b"no json", None])
    other = broker.topic(partitions=2)
    # Nobody has read them yet: to another topic they go all the same.
    run = replayed(queue, "topic", target=other)
    assert run.counts == {"read": 4, "sent": 4, "rejected": 0, "skipped": 0}
    found = {one.value(): one for one in broker.read_all(other, (0, 1))}
    prefix = f"{queue.provider.name}~{queue.topic}~0~"
    first = found[b'{"n": 0}']
    assert (first.key(), first.headers()) == (
        b"k",
        [("h", b"x"), ("none", None), ("sluice-message-id", f"{prefix}0".encode())],
    )
    assert found[b'{"n": 1}'].headers() == [("sluice-message-id", b"its-own")]
    assert found[b"no json"].headers() == [("sluice-message-id", f"{prefix}2".encode())]
    assert found[None].headers() == [("sluice-message-id", f"{prefix}3".encode())]

    assert refusal(queue, "topic", target="not-there") == "UNKNOWN_TOPIC"
    for wrong in ("", queue.topic):
        with pytest.raises(BulkError) as told:
            asked(queue, "topic", target=wrong)
        assert told.value.job_code == "BAD_PARAMETERS"


def test_a_structure_is_rebuilt_as_it_was(broker: Kafka) -> None:
    queue = assets(broker, tombstone="delete")
    ObjectStructure.objects.create(
        name="AGAIN", key_paths=["$.a"], version_path="$.version", tombstone="delete"
    )
    broker.send(queue.topic, [{"a": 1, "version": 5}, {"a": 2, "name": "x"}, {"a": 3}])
    broker.send(queue.topic, [{"a": 1, "version": 3}, {"nothing": 1}])
    drain(queue)
    moment, before = database_time().isoformat(), documents()
    # A message without a version stands above all before it; the corrected one counts.
    broker.send(queue.topic, [{"a": 1, "name": "bare"}, {"a": 1, "version": 2}])
    broker.send(queue.topic, [None], key="3")
    drain(queue)
    held = MessageError.objects.get(offset=4)
    version = edit(held.pk, version=held.version, actor="ann", payload=b'{"a": 4}')
    release(held.pk, version=version, actor="ann")
    drain(queue)
    broker.send(queue.topic, [{"a": 9}])
    now = documents()
    assert (before["1"], now["1"]) == ({"a": 1, "version": 5}, {"a": 1, "version": 2})

    run = replayed(queue, "structure", target="AGAIN", as_of=moment)
    assert documents("AGAIN") == before
    assert run.facts["left_out"] == {"superseded": 1, "later": 4, "to_come": 1}
    assert run.counts == {"read": 9, "sent": 3, "rejected": 0, "skipped": 6}
    assert refusal(queue, "structure", target="AGAIN") == "STRUCTURE_NOT_EMPTY"

    StoredObject.objects.filter(structure__name="AGAIN").delete()
    run = replayed(queue, "structure", target="AGAIN")
    assert documents("AGAIN") == now
    assert run.facts["left_out"] == {"superseded": 4, "to_come": 1}
    kept = ("key", "document", "arrival_batch", "arrival_index", "sort_version", "offset")
    pairs = [
        list(StoredObject.objects.filter(structure__name=name).order_by("key").values_list(*kept))
        for name in ("ASSET", "AGAIN")
    ]
    assert pairs[0] == pairs[1]


def test_documents_that_cannot_be_stored_are_named(broker: Kafka) -> None:
    queue = a_queue(broker)
    ObjectStructure.objects.create(name="PLACE", key_paths=["$.place"])
    broker.send(queue.topic, [{"n": 0, "place": "x"}, {"n": 1}, {"n": 2, "place": "y"}])
    drain(queue)
    run = replayed(queue, "structure", target="PLACE")
    assert run.counts == {"read": 3, "sent": 2, "rejected": 1, "skipped": 0}
    [reject] = run.facts["rejects"]
    assert (reject["partition"], reject["offset"], reject["code"]) == (0, 1, "NO_KEY")


def test_only_messages_of_a_service_can_be_chosen(broker: Kafka) -> None:
    queue = a_queue(broker)
    EnterpriseService.objects.get_or_create(interface="OBEY.ALONE")
    wrapped = json.dumps({"INTERFACE": "OBEY.ALONE", "payload": '{"n": 7}'}).encode()
    broker.send(queue.topic, [{"n": 1}, wrapped])
    drain(queue)
    assert replayed(queue, interface="OBEY.ALONE").counts["sent"] == 1
    assert MessageError.objects.get().interface == "OBEY.ALONE"
    assert replayed(queue, interface="OBEY").facts["left_out"] == {"not_chosen": 1}


@pytest.mark.parametrize("into", ["queue", "topic"])
def test_a_cancelled_replay_sends_nothing_twice_when_it_is_let_again(
    broker: Kafka, monkeypatch: pytest.MonkeyPatch, into: str
) -> None:
    queue, is_out = a_queue(broker), into == "topic"
    other = broker.topic()
    broker.send(queue.topic, [{"n": n} for n in range(10)])
    drain(queue)
    run = asked(queue, into, target=other if is_out else "")
    told = driving.RowTell.progress

    def and_cancel(self: driving.RowTell, progress: Any) -> None:
        told(self, progress)
        assert progress.done < progress.total or (len(stages(run)) == 4 and cancel(run.pk))

    monkeypatch.setattr(driving.RowTell, "progress", and_cancel)
    assert driven(run).state == "CANCELLED"
    monkeypatch.undo()
    # Only of what is out in a topic it is remembered which it was.
    assert (states(queue), len(stages(run))) == ({}, 4 if is_out else 0)
    assert again(run.pk, send=False)
    assert (driven(run).counts["sent"], stages(run)) == (10, [])
    assert len(broker.read_all(other, (0,))) == (10 if is_out else 0)


def test_a_driver_that_lost_the_run_gives_nothing_back(broker: Kafka) -> None:
    run = asked(a_queue(broker))
    tables = Stage(str(run.pk))
    with psycopg.connect(conninfo(), autocommit=True) as session:
        owned = own(session, arguments_of(run))
        tables.make(session)
        BulkRun.objects.filter(pk=run.pk).update(epoch=F("epoch") + 1)
        done = partial(settle, act=lambda _: pytest.fail("it is another driver's"))
        for act in (done, discard):
            with pytest.raises(JobError) as told:
                act(session, owned, tables)
            assert told.value.code == "RUN_TAKEN"
        assert len(stages(run)) == 4
        tables.drop(session)
    assert replayed(Queue.objects.get()).counts["read"] == 0


def test_a_look_first_tells_which_messages_it_would_be(broker: Kafka) -> None:
    queue = a_queue(broker)
    for n in range(60):
        broker.send(queue.topic, [{"n": n, "odd": n % 2}], key=f"k{n % 2}")
    job_request = {"queue": queue.name, "into": "queue", "path": "$.odd=1"}
    found = preview("replay", job_request)
    assert (found.rows, len(found.samples)) == (30, 20)
    assert found.facts["looked_at"] == 60
    assert found.samples[0].place == "partition 0, offset 1"
    assert found.samples[0].text == f"{queue.provider.name}~{queue.topic}~0~1"
    assert preview("replay", {**job_request, "key": "k0"}).rows == 0
    assert not MessageError.objects.exists()
    for wrong in ({"path": "$..["}, {"as_of": "2026-01-31T08:00Z"}, {"into": "moon"}):
        with pytest.raises(BulkError) as told:
            preview("replay", {**job_request, **wrong})
        assert told.value.job_code == "BAD_PARAMETERS"
    with pytest.raises(BulkError) as told:
        preview("replay", {**job_request, "into": "structure", "target": "NONE"})
    assert told.value.job_code == "UNKNOWN_STRUCTURE"
