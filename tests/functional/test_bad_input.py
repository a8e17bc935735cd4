"""Whatever a partner sends lands on its own message, byte for byte, and every neighbour commits."""

import base64
import gzip
import json
import os
import uuid
import zlib
from pathlib import Path

import pytest
from confluent_kafka import Producer

from integration.codec import decode_headers
from integration.models import EnterpriseService, MessageError, MessageTrack
from tests.support import warm
from tests.support.builders import a_brief_queue as a_queue
from tests.support.flows import delete_held, drain, effects, ended, held, standing
from tests.support.kafka_world import Kafka

pytestmark = [pytest.mark.servers, pytest.mark.django_db(transaction=True)]

MEGABYTE = 2**20
DEEP = 10_000


@pytest.fixture
def broker(servers) -> Kafka:
    return Kafka(servers.kafka_bootstrap)


def envelope(payload: object, **fields: object) -> bytes:
    return json.dumps({"INTERFACE": "OBEY", "payload": payload} | fields).encode()


def packed(raw: bytes) -> str:
    return base64.b64encode(raw).decode()


LAUGHS = (
    '<!DOCTYPE l [<!ENTITY a "ha">'
    + "".join(
        f'<!ENTITY {b} "{f"&{a};" * 10}">' for a, b in zip("abcdefgh", "bcdefghi", strict=True)
    )
    + "]><l>&i;</l>"
).encode()

UNREADABLE = {
    "nothing at all": (b"", "EMPTY_BODY"),
    "a tombstone": (None, "TOMBSTONE"),
    "truncated JSON": (b'{"n": 1, "do": "o', "TRUNCATED_JSON"),
    "truncated XML": (b"<asset><num>1</num>", "TRUNCATED_XML"),
    "no text": (b'{"n": 1, "name": "\xff\xfe\x80"}', "NOT_UTF8"),
    "UTF-16": ('{"n": 1}'.encode("utf-16"), "UTF16"),
    "wrong base64": (envelope("%%% this is none", compressed="1"), "BAD_BASE64"),
    "wrong compression": (envelope(packed(b"plain"), compressed="1"), "BAD_COMPRESSION"),
    "truncated compression": (
        envelope(packed(zlib.compress(os.urandom(900))[:500]), compressed="1"),
        "TRUNCATED_COMPRESSION",
    ),
    "a zip bomb": (
        envelope(packed(gzip.compress(bytes(100 * MEGABYTE))), compressed="1"),
        "ZIP_BOMB",
    ),
    "an entity bomb": (LAUGHS, "XML_ENTITIES"),
    "deep JSON": (b'{"n":' * DEEP + b"1" + b"}" * DEEP, "TOO_DEEP"),
    "deep JSON arrays": (b"[" * DEEP + b"]" * DEEP, "TOO_DEEP"),
    "deep XML": (b"<a>" * DEEP + b"</a>" * DEEP, "TOO_DEEP"),
    "deep JSON in an envelope": (envelope("[" * DEEP + "]" * DEEP), "TOO_DEEP"),
    "a key twice": (b'{"n": 1, "n": 2}', "DUPLICATE_KEY"),
    "no number": (b'{"n": NaN}', "NOT_A_NUMBER"),
    "a NUL in the id": (envelope({"n": 1}, MEAMessageID="a\x00b"), "NUL_CHARACTER"),
    "half a character in the id": (
        b'{"INTERFACE": "OBEY", "MEAMessageID": "\\ud800", "payload": {"n": 1}}',
        "LONE_SURROGATE",
    ),
    "an unknown service": (envelope({"n": 1}, INTERFACE="NOBODY"), "UNKNOWN_SERVICE"),
}


@pytest.mark.parametrize("kind", ["sequential", "continuous"])
def test_what_cannot_be_read_is_held_as_it_came_and_its_neighbours_commit(broker, kind):
    queue = a_queue(broker, kind)
    sent: list[object] = [{"n": 0}]
    for raw, _ in UNREADABLE.values():
        sent += [raw, {"n": len(sent) + 1}]
    broker.send(queue.topic, sent)

    for _ in range(len(UNREADABLE) + 1 if kind == "sequential" else 1):
        drain(queue)
        if kind == "sequential":
            delete_held(queue)

    assert effects() == list(range(0, len(sent), 2))
    rows = {row.offset: row for row in MessageError.objects.filter(queue=queue)}
    codes = {name: rows[2 * i + 1].code for i, name in enumerate(UNREADABLE)}
    assert codes == {name: code for name, (_, code) in UNREADABLE.items()}
    kept = {name: rows[2 * i + 1].payload for i, name in enumerate(UNREADABLE)}
    assert {name: None if raw is None else bytes(raw) for name, raw in kept.items()} == {
        name: raw for name, (raw, _) in UNREADABLE.items()
    }
    wanted = {n: "HOLD" if n % 2 else "APPLIED" for n in range(len(sent))}
    assert ended(queue) == wanted
    assert standing(queue) == (len(sent), "RUNNING", "")


def test_twenty_megabytes_are_held_without_growing_the_worker(broker, child_environment, tmp_path):
    """The peak of a process that holds one is compared with one that meets good messages only."""
    roomy = {"max.message.bytes": str(32 * MEGABYTE)}
    queue = a_queue(broker, topic=broker.topic(**roomy))
    small = a_queue(broker)
    large = b'{"n": 1, "document": "%s"}' % base64.b64encode(os.urandom(15 * MEGABYTE))
    assert len(large) > 20 * MEGABYTE
    sender = Producer({"bootstrap.servers": broker.bootstrap, "message.max.bytes": 32 * MEGABYTE})
    for value in (b'{"n": 0}', large, b'{"n": 2}'):
        sender.produce(queue.topic, value)
    assert sender.flush(30) == 0
    broker.send(small.topic, [{"n": 10}, {"n": 11}])

    script = tmp_path / "one_run.py"
    script.write_text(ONE_RUN)
    ordinary, peak = (peak_megabytes(script, q.pk, child_environment) for q in (small, queue))

    assert effects() == [0, 2, 10, 11]
    assert held(queue) == {1: "TOO_LARGE"}
    assert bytes(MessageError.objects.get(queue=queue).payload) == large
    assert standing(queue) == (3, "RUNNING", "")
    assert peak - ordinary < 200


ONE_RUN = """
import resource, sys
from integration.runs.queues import run_queue
run_queue(int(sys.argv[1]))
print(resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024)
"""


def peak_megabytes(script: Path, queue_id: int, environment: dict[str, str]) -> float:
    """Run a queue in a process of its own and tell its largest resident size."""
    running = warm.child([str(script), str(queue_id)], environment, text=True, errors=False)
    said, _ = running.communicate(timeout=60)
    assert running.returncode == 0
    return float(said.split()[-1])


def test_a_null_key_an_empty_key_and_a_key_of_bytes_are_kept_apart(broker):
    queue = a_queue(broker, max_retries=0)
    keys = [None, b"", b"\xff\x00\xfe"]
    for n, key in enumerate(keys):
        broker.send(queue.topic, [{"n": n, "do": "ok"}, {"n": 10 + n, "do": "bug"}], key=key)
    drain(queue)
    assert effects() == [0, 1, 2]
    rows = MessageError.objects.filter(queue=queue).order_by("offset")
    assert [None if row.key is None else bytes(row.key) for row in rows] == keys
    assert standing(queue) == (6, "RUNNING", "")


STRANGE_HEADERS = [
    ("größe", "é".encode("latin-1")),
    ("x-\ud7ff-\U0001f600", b"\x00"),
    ("sluice-deployment", b"\xff\xfe"),
    ("sluice-error", b"\x80"),
    ("", b"no name"),
    ("null", None),
    ("twice", b"1"),
    ("twice", b"2"),
]


def test_header_bytes_of_any_kind_are_kept_and_harm_nobody(broker):
    queue = a_queue(broker, max_retries=0)
    broker.send(queue.topic, [{"n": 0}, {"n": 1, "do": "bug"}], headers=STRANGE_HEADERS)
    broker.send(queue.topic, [{"n": 2}])
    drain(queue)
    assert effects() == [0, 2]
    row = MessageError.objects.get(queue=queue)
    assert decode_headers(row.headers) == STRANGE_HEADERS
    assert standing(queue) == (3, "RUNNING", "")


def test_strange_ids_in_headers_are_stored_or_held_alone(broker):
    """The id is written for every message: its bytes must never cost the batch."""
    queue = a_queue(broker, batch_size=50)
    stored = {
        b"tab\tline\nreturn\rbackslash\\N\\.": "tab\tline\nreturn\rbackslash\\N\\.",
        b"\xed\xa0\x80": "\xed\xa0\x80",  # half a character in UTF-8's clothes: read as Latin-1
        b"\xff\xfe": "ÿþ",
        "größe ✓".encode(): "größe ✓",
        b"\\": "\\",
    }
    refused = [b"a\x00b", b"\x00", b"x" * 501]
    names = [*stored, *refused]
    for n, name in enumerate(names):
        broker.send(queue.topic, [{"n": n}], headers=[("MEAMessageID", name)])
    broker.send(queue.topic, [{"n": 100}])
    drain(queue)
    good = len(stored)
    assert effects() == [*range(good), 100]
    assert held(queue) == dict.fromkeys(range(good, len(names)), "BAD_FIELD")
    tracks = MessageTrack.objects.filter(queue=queue, offset__lt=good).order_by("offset")
    assert list(tracks.values_list("message_id", flat=True)) == list(stored.values())
    assert standing(queue) == (len(names) + 1, "RUNNING", "")


def test_an_id_used_again_is_judged_by_its_content_also_while_its_failure_is_open(broker):
    queue = a_queue(broker, dedupe=True, max_retries=0)
    one_id = [("MEAMessageID", b"id-1")]
    failing, corrected = {"n": 1, "do": "bug"}, {"n": 2}
    broker.send(queue.topic, [failing], headers=one_id)
    drain(queue)
    # Each content again and again: the failure's own, and another that had to be held.
    broker.send(queue.topic, [failing, corrected, corrected, failing], headers=one_id)
    drain(queue)
    broker.send(queue.topic, [corrected, failing], headers=one_id)
    broker.send(queue.topic, [{"n": 3}])
    drain(queue)

    assert held(queue) == {0: "KEY_ERROR", 2: "ID_REUSED"}
    same = dict.fromkeys([1, 3, 4, 5, 6], "DUPLICATE")
    assert ended(queue) == {0: "HOLD", 2: "HOLD", 7: "APPLIED"} | same
    assert effects() == [3]


@pytest.mark.parametrize("batch_size", [1, 50])
def test_only_the_right_retry_marker_runs_a_row_and_only_once(broker, batch_size):
    patient = {"carrier": "topic", "retry_delay_seconds": 3_600, "max_retries": 5}
    queue = a_queue(broker, batch_size=batch_size, **patient)
    other = a_queue(broker, **patient)
    failing = {"n": 1, "do": "until", "until": 2}
    for one in (queue, other):
        broker.send(one.topic, [failing])
        drain(one)
    ours, theirs = (MessageError.objects.get(queue=q) for q in (queue, other))
    assert (ours.state, ours.retry_no) == ("RETRY", 1)
    forged = [
        (str(uuid.uuid4()), "1"),  # nobody's
        (str(theirs.id), "1"),  # a row of another queue
        (str(ours.id), "2"),  # another retry of the row
        (str(ours.id), "0"),
        (str(ours.id), str(2**40)),
        (str(ours.id), "one"),
        ("no uuid", "1"),
        (f"{{{str(ours.id).upper()}}}", "-1"),
    ]
    for error, number in forged:
        broker.send(queue.topic, [b""], headers=marker(error, number))
    broker.send(queue.topic, [{"n": 7}])
    drain(queue)
    assert effects() == [7]
    assert MessageError.objects.get(pk=ours.pk).attempts == 1

    right = marker(str(ours.id), "1")
    broker.send(queue.topic, [b""], headers=marker(str(ours.id), "2"))
    broker.send(queue.topic, [b"", b""], headers=right)
    drain(queue)
    broker.send(queue.topic, [b""], headers=right)
    drain(queue)

    assert effects() == [1, 7]
    row = MessageError.objects.get(pk=ours.pk)
    assert (row.state, row.attempts) == ("RESOLVED", 2)
    untouched = MessageError.objects.get(pk=theirs.pk)
    assert (untouched.state, untouched.version) == ("RETRY", theirs.version)
    assert standing(queue)[:2] == (1 + len(forged) + 1 + 4, "RUNNING")
    assert not MessageTrack.objects.filter(queue=queue, ended="HOLD").exists()


def marker(error: str, number: str) -> list[tuple[str, bytes]]:
    return [("sluice-ticket", error.encode()), ("sluice-retry", number.encode())]


def test_retry_marker_headers_on_a_record_with_a_body_mean_nothing(broker):
    queue = a_queue(broker, carrier="topic", retry_delay_seconds=3_600)
    broker.send(queue.topic, [{"n": 1, "do": "until", "until": 2}])
    drain(queue)
    row = MessageError.objects.get(queue=queue)
    copied = marker(str(row.id), "1")
    broker.send(queue.topic, [{"n": 5}, {"n": 6, "do": "permanent"}], headers=copied)
    broker.send(queue.topic, [None], headers=copied)
    drain(queue)
    assert effects() == [5]
    assert held(queue) == {2: "REFUSED", 3: "TOMBSTONE"}
    assert MessageError.objects.get(pk=row.pk).attempts == 1


def test_a_service_that_nobody_knows_does_not_become_the_default(broker):
    queue = a_queue(broker)
    names = [b"", b"NOBODY", b"\xff\xfe", b"x" * 600, b"OBEY"]
    for n, name in enumerate(names):
        broker.send(queue.topic, [{"n": n}], headers=[("sluice-interface", name)])
    drain(queue)
    assert effects() == [0, 4]
    assert held(queue) == {1: "UNKNOWN_SERVICE", 2: "UNKNOWN_SERVICE", 3: "BAD_FIELD"}
    assert not EnterpriseService.objects.filter(interface="NOBODY").exists()
