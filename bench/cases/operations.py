"""The speed at which one operation gets 50,000 held messages from the click to RESOLVED."""

import re
import time
from dataclasses import dataclass
from pathlib import Path
from typing import Final

from bench import cpu, million, workload
from bench.figure import Figure, at_least, below
from bench.ground import Ground
from bench.rig import BenchmarkError, Rig
from bench.smoke.person import Person

MESSAGES: Final = 50_000
ROWS: Final = 1_000_000
KEYS: Final = 20_000
NAME, PASSWORD = "bench", "only-for-the-benchmark"
QUEUE: Final = "bulk"
_HELD: Final = """
COPY integration_messageerror (
  id, queue_id, topic_uuid, partition, "offset", message_id, interface, sender, key, headers,
  payload, edited_by, state, failure_class, code, text, detail, fingerprint, attempts, retry_no,
  spent, crashes, carrier, arrival_batch, arrival_index, late, apply_as_newest, version,
  first_failed_at, last_failed_at, ended
) FROM STDIN
"""
_AFTER: Final = """
SELECT extract(epoch FROM min(pg_xact_commit_timestamp(xmin)))::float8,
       extract(epoch FROM max(pg_xact_commit_timestamp(xmin)))::float8,
       count(*), count(DISTINCT "offset")
FROM integration_messagetrack WHERE queue_id = %s
"""
# For each key the newest message, against what the table holds.
_STALE: Final = """
SELECT count(*) FROM bench_newest n LEFT JOIN bench_asset a USING (assetnum)
WHERE a.seq IS DISTINCT FROM n.seq
"""


@dataclass(frozen=True, slots=True)
class Released:
    """One operation, timed: seconds from the click, and what the database holds afterwards."""

    count: int
    freeze_seconds: float
    first_seconds: float
    all_seconds: float
    used: cpu.Used
    claims: dict[str, bool]


def bulk_release(ground: Ground) -> Figure:
    """One operation over 50,000 held messages; all are resolved by the shipped worker."""
    release = _released(ground)
    return Figure(
        name="bulk_release",
        value=release.count / release.all_seconds,
        unit="msg/s",
        n=release.count,
        against="from the POST that starts it to the commit that resolves the last",
        target=at_least("value", 1_500),
        claims=release.claims,
        facts={
            "first_s": round(release.first_seconds, 2),
            "all_s": round(release.all_seconds, 1),
            "freeze_s": round(release.freeze_seconds, 2),
            "cpu_us": [round(part / release.count * 1e6, 1) for part in release.used],
        },
    )


def bulk_release_first(ground: Ground) -> Figure:
    """The same operation: how long its first message took."""
    release = _released(ground)
    return Figure(
        name="bulk_release_first",
        value=release.first_seconds,
        unit="s",
        n=1,
        against="from the POST that starts it to the commit that resolves the first",
        target=below("value", 3),
        claims={"frozen in less than 2 s": release.freeze_seconds < 2},
    )


def _released(ground: Ground) -> Released:
    """Return the figures of one operation, whichever is asked for first."""
    if ground.folder not in _MEASURED:
        _MEASURED[ground.folder] = _measured(ground)
    return _MEASURED[ground.folder]


_MEASURED: Final[dict[Path, Released]] = {}


def _measured(ground: Ground) -> Released:
    count = MESSAGES // 10 if ground.quick else MESSAGES
    with ground.rig("bulk_release") as rig:
        million.fill(rig, ROWS // 10 if ground.quick else ROWS)
        queue = _filled(rig, count)
        worker = rig.start_worker()
        person = _person(rig)
        began = time.time()
        operation = _planned(person, count)
        frozen = time.time()
        _wait_for_the_queue(rig, queue)
        page = person.read(operation)
        meter, clicked = cpu.Meter(rig, worker), time.time()
        form = {"version": "1", "reason": "the cause is mended"}
        person.post(f"{operation}starts/", page, form)
        rig.until(lambda: not _is_open(rig, queue), "every message is resolved")
        used = meter.used()
        first, last, tracks, offsets = rig.rows(_AFTER, [queue])[0]
        claims = _claims(rig, count, (tracks, offsets))
        return Released(count, frozen - began, first - clicked, last - clicked, used, claims)


def _filled(rig: Rig, count: int) -> int:
    """A continuous queue with shipped settings and `count` messages on hold."""
    topic = rig.topic(QUEUE)
    [queue] = rig.configure(
        {"name": QUEUE, "topic": topic, "kind": "continuous", "interface": "BenchAsset"}
    ).values()
    # The others have nothing to do; a hundred thousand rows of theirs wait for people.
    rig.write("UPDATE integration_queue SET paused = true WHERE id <> %s", [queue])
    uuid = rig.value(
        "SELECT topic_uuid FROM integration_queuepartition WHERE queue_id = %s", [queue]
    )
    now = time.strftime("%Y-%m-%d %H:%M:%S+00", time.gmtime(time.time() - 3_600))
    newest: dict[str, int] = {}
    with rig.session.cursor() as cursor, cursor.copy(_HELD) as copy:
        for seq in range(count):
            payload = workload.asset(seq, KEYS)
            newest[payload[13:23].decode()] = seq
            copy.write_row(_row(queue, uuid, seq, (payload, now)))
    rig.write("CREATE TABLE bench_newest (assetnum text PRIMARY KEY, seq bigint NOT NULL)")
    rig.write(
        "INSERT INTO bench_newest SELECT * FROM unnest(%s::text[], %s::bigint[])",
        [list(newest), list(newest.values())],
    )
    rig.write("SELECT setval('integration_arrival', 1000)")
    rig.write("SET synchronous_commit = on")
    rig.write("VACUUM ANALYZE integration_messageerror")
    rig.write("CHECKPOINT")
    return queue


def _row(queue: int, uuid: str, seq: int, rest: tuple[bytes, str]) -> tuple[object, ...]:
    payload, at = rest
    id_ = f"{seq:032x}"
    place = (id_, queue, uuid, 0, seq, f"bulk/{seq}", "BenchAsset", "EAM", None, "[]", payload)
    failure = ("", "HOLD", "transient", "LOCK_TIMEOUT", "The asset was locked.", "", "b" * 16)
    return (*place, *failure, 4, 3, 3, 0, "row", 1, seq, False, False, 4, at, at, "")


def _person(rig: Rig) -> Person:
    words = ["createsuperuser", "--noinput", "--username", NAME, "--email", ""]
    rig.manage(*words, environment={"DJANGO_SUPERUSER_PASSWORD": PASSWORD})
    person = Person(rig.start_web())
    person.log_in(NAME, PASSWORD)
    return person


def _planned(person: Person, count: int) -> str:
    """Choose all that match, as the list's form does; returns the operation's address."""
    form = {"verb": "release", "scope": "matching", "query": f"state=HOLD&queue={QUEUE}"}
    page = person.post("failures/choices/", person.read("failures/messages/?state=HOLD"), form)
    if f"{count:,}" not in page:
        raise BenchmarkError(f"the operation does not tell of {count:,} messages")
    match = re.search(r'action="/(operations/[0-9a-f-]+/)starts/"', page)
    if match is None:
        raise BenchmarkError("the page has no form that starts the operation")
    return match[1]


def _wait_for_the_queue(rig: Rig, queue: int) -> None:
    sql = (
        "SELECT 1 FROM integration_partitionlease l JOIN integration_queuepartition p "
        "ON p.id = l.partition_id WHERE p.queue_id = %s AND l.released_at IS NULL"
    )
    rig.until(lambda: rig.rows(sql, [queue]), "the queue runs", 60)


def _is_open(rig: Rig, queue: int) -> bool:
    """Look for one row and count none: it is asked often."""
    sql = (
        "SELECT 1 FROM integration_messageerror WHERE queue_id = %s "
        "AND state IN ('HOLD', 'READY', 'RETRY', 'PROCESSING') LIMIT 1"
    )
    return bool(rig.rows(sql, [queue]))


def _claims(rig: Rig, count: int, tracks: tuple[int, int]) -> dict[str, bool]:
    items = rig.rows("SELECT outcome, count(*) FROM integration_operationitem GROUP BY outcome")
    changes = rig.value("SELECT count(*) FROM integration_errorchange WHERE action = 'release'")
    return {
        "each resolved once": tracks == (count, count),
        "each item has one outcome": items == [("DONE", count)],
        "each release is told once": changes == count,
        "0 stale keys": rig.value(_STALE) == 0,
    }
