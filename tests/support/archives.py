"""Archives for tests: old rows of each kind, runs, and what lies in the archive."""

import json
import os
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any, Final

import pyarrow.parquet as pq
import pytest
from django.db import connection
from django.utils import timezone

from crontasks.builtin.history_cleanup import HistoryCleanup, HistoryParameters
from crontasks.bulk import driving
from crontasks.bulk.asking import ask
from crontasks.models import CronInstance, CronRun
from crontasks.outcome import Context
from integration.models import BulkRun, ErrorAttempt, ErrorChange, MessageError, Queue
from integration.store import track_days
from tests.support.bulk import driven, shared_session

DAY = timedelta(days=1)
# Failures of a test closed on so many days: each is a file that is written, sealed and read back.
DAYS: Final = 2
# Settings of Spark that leave out rows, alter moments and cut files, where nobody minds them.
HOSTILE: Final = {
    "spark.sql.files.ignoreCorruptFiles": "true",
    "spark.sql.files.ignoreMissingFiles": "true",
    "spark.sql.files.maxRecordsPerFile": "7",
    "spark.sql.parquet.outputTimestampType": "INT96",
    "spark.sql.session.timeZone": "America/New_York",
}


@contextmanager
def hostile_session() -> Iterator[Any]:
    """The tester's session of Spark as if it had been started under such settings."""
    session = shared_session()
    # Those of the context: sessions that are made of this one begin with them.
    context = session._jsparkSession.sharedState().conf()
    before = {name: session.conf.get(name) for name in HOSTILE}
    for name, value in HOSTILE.items():
        session.conf.set(name, value)
        context.set(name, value)
    yield session
    for name, value in before.items():
        session.conf.set(name, value)
        context.set(name, value)


def an_archive(kind: str, days: int = 30) -> BulkRun:
    return ask("archive", {"kind": kind, "older_than_days": days}, actor="tester")


def some_failures(
    queue: Queue, count: int, *, days: int = 100, **fields: Any
) -> list[MessageError]:
    """Closed failures with a payload that no compression makes small, each with a history."""
    now = timezone.now()
    first = MessageError.objects.count()
    values: dict[str, Any] = {
        "topic_uuid": "u",
        "partition": 0,
        "state": "RESOLVED",
        "failure_class": "transient",
        "code": "X",
        "text": "it's 100 % broken:\n\ttwice",
        "headers": [["a", "Yg=="]],
        "first_failed_at": now - 200 * DAY,
        "last_failed_at": now - 200 * DAY,
        **fields,
    }
    made = MessageError.objects.bulk_create(
        (
            MessageError(
                queue=queue,
                offset=first + number,
                payload=os.urandom(500),
                closed_at=None if "closed_at" in fields else now - (days + number % DAYS) * DAY,
                **{name: value for name, value in values.items() if name != "closed_at"},
            )
            for number in range(count)
        ),
        batch_size=500,
    )
    ErrorAttempt.objects.bulk_create(
        (ErrorAttempt(error=row, number=1, at=now, ended="RETRY", text="why") for row in made),
        batch_size=500,
    )
    decided = {"actor": "a", "action": "hold", "from_state": "RETRY", "to_state": "HOLD"}
    ErrorChange.objects.bulk_create(
        (ErrorChange(error=row, at=now, payload_before=b"\x00\xff", **decided) for row in made),
        batch_size=500,
    )
    return made


def a_day_of_tracking(queue: Queue, days: int, count: int) -> datetime:
    """A partition of so many days ago with so many rows; its midnight."""
    midnight = (timezone.now().astimezone(UTC) - days * DAY).replace(
        hour=0, minute=0, second=0, microsecond=0
    )
    table = track_days.named(midnight.date())
    with connection.cursor() as cursor:
        cursor.execute(
            f"CREATE TABLE {table} PARTITION OF integration_messagetrack "
            f"FOR VALUES FROM ('{midnight.isoformat()}') TO ('{(midnight + DAY).isoformat()}')"
        )
    fill(queue, midnight, count)
    return midnight


def fill(queue: Queue, midnight: datetime, count: int) -> None:
    with connection.cursor() as cursor:
        cursor.execute(
            'INSERT INTO integration_messagetrack (queue_id, partition, "offset", arrival_batch, '
            "message_id, interface, ended, at, key, payload) SELECT %s, 0, n, n, 'm-' || n, "
            "'MXPO', 'APPLIED', %s::timestamptz + n * interval '1 microsecond', NULL, "
            "sha256(n::text::bytea) FROM generate_series(1, %s) n",
            [queue.pk, midnight, count],
        )


def some_runs(count: int, *, keep: int, days: int = 100) -> CronInstance:
    """Runs of one schedule, the newest first so many days ago."""
    instance = CronInstance.objects.create(
        name="often", task="lag_monitor", interval_seconds=3_600, keep_runs=keep
    )
    begun = timezone.now() - days * DAY
    CronRun.objects.bulk_create(
        CronRun(
            instance=instance,
            started_at=begun - number * timedelta(hours=1),
            state="DONE",
            duration_seconds=0.1 + number,
            counts={"n": number},
        )
        for number in range(count)
    )
    return instance


def shelf_of(run: BulkRun) -> Path:
    return Path(run.parameters["folder"]) / str(run.parameters["kind"])


def archived_files(run: BulkRun) -> list[Path]:
    return sorted(shelf_of(run).glob("day=*/*.parquet"))


def manifests_of(run: BulkRun, folder: str = "_manifests") -> list[dict[str, Any]]:
    paths = sorted((shelf_of(run) / folder).glob(f"{run.pk}-*.json"))
    return [json.loads(path.read_text()) for path in paths]


def work_of(run: BulkRun) -> list[Path]:
    return list(shelf_of(run).glob(f".*{run.pk}*"))


def archived(spark: Any, run: BulkRun) -> list[Any]:
    """Every row of the archive of a kind, read as anybody would read it."""
    return list(spark.read.parquet(str(shelf_of(run))).collect()) if archived_files(run) else []


def archived_ids(run: BulkRun) -> list[str]:
    """The id of every row of the archive of a kind, read without Spark."""
    # Threads of Arrow would be torn apart by the forks of tests that come later.
    tables = [
        pq.ParquetFile(path).read(columns=["id"], use_threads=False) for path in archived_files(run)
    ]
    return [str(one) for table in tables for one in table["id"].to_pylist()]


def done(run: BulkRun) -> BulkRun:
    """Drive it to its good end, after which nothing of it is half done."""
    ended = driven(run)
    assert (ended.problem, ended.state) == (None, "DONE")
    assert work_of(run) == []
    assert manifests_of(run, "_pending") == []
    return ended


def counts(read: int, skipped: int = 0) -> dict[str, int]:
    return {"read": read, "sent": read - skipped, "rejected": 0, "skipped": skipped}


def cleaned() -> None:
    """The cleanup comes, with what it keeps by itself."""
    context = Context(instance_id=1, scheduled_at=timezone.now(), actor="hourly")
    HistoryCleanup().run(HistoryParameters(), context)


def when(monkeypatch: pytest.MonkeyPatch, stage: str, act: Callable[[], None]) -> None:
    """Do it once, when a run tells of this stage."""
    waiting = [act]
    told = driving.RowTell.go_on

    def and_act(self: driving.RowTell) -> None:
        told(self)
        row = self._row.values_list("progress", flat=True).first() or {}
        if waiting and row.get("stage") == stage:
            waiting.pop()()

    monkeypatch.setattr(driving.RowTell, "go_on", and_act)
