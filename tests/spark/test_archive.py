"""The archive on a real Spark: what is long over moves into files, however it is asked for."""

import json
from collections.abc import Iterator
from datetime import UTC, datetime, timedelta
from io import StringIO
from pathlib import Path
from typing import Any

import pytest
from django.core.management import call_command
from django.utils import timezone

from crontasks.models import CronRun
from integration.models import (
    BulkRun,
    ErrorAttempt,
    ErrorChange,
    MessageError,
    MessageTrack,
    Operation,
    OperationItem,
    Queue,
)
from integration.store import track_days
from tests.support.archives import (
    DAY,
    DAYS,
    a_day_of_tracking,
    an_archive,
    archived,
    archived_files,
    counts,
    done,
    fill,
    hostile_session,
    manifests_of,
    some_failures,
    some_runs,
)
from tests.support.bulk_pages import logged_in, new, see
from tests.support.exports import a_plain_queue

pytestmark = [
    pytest.mark.servers,
    pytest.mark.django_db(transaction=True),
    # The first one also waits for the servers and for Spark.
    pytest.mark.timeout(600),
]


@pytest.fixture(scope="module", autouse=True)
def spark() -> Iterator[Any]:
    with hostile_session() as session:
        yield session


@pytest.fixture(autouse=True)
def root(servers: Any, tmp_path: Path, settings: Any) -> None:
    settings.SLUICE_BULK_ROOT = tmp_path


@pytest.fixture
def queue(servers: Any) -> Queue:
    return a_plain_queue("orders")


@pytest.fixture(autouse=True)
def old_days(servers: Any) -> Iterator[None]:
    """Partitions are no rows: what is left of a test's days goes with it."""
    yield
    track_days.drop_before(timezone.now() - 5 * DAY)


def test_closed_failures_go_with_their_history_and_no_open_one(queue: Queue, spark: Any) -> None:
    over = some_failures(queue, 300)
    young = some_failures(queue, 3, days=10)
    open_ones = [
        row
        for state in ("HOLD", "READY", "PROCESSING")
        for row in some_failures(queue, 1, state=state, closed_at=None)
    ]
    first = MessageError.objects.get(pk=over[0].pk)

    run = done(an_archive("failures"))

    assert run.counts == counts(300)
    assert set(MessageError.objects.values_list("pk", flat=True)) == {
        row.pk for row in (*young, *open_ones)
    }
    left = len(young) + len(open_ones)
    decided = ErrorChange.objects.exclude(error=None)
    assert ErrorAttempt.objects.count() == decided.count() == left
    assert ErrorChange.objects.filter(error=None, payload_before=None).count() == 300
    rows = {row["id"]: row for row in archived(spark, run)}
    assert set(rows) == {str(row.pk) for row in over}
    kept = rows[str(first.pk)]
    assert bytes(kept["payload"]) == bytes(first.payload or b"")
    assert kept["closed_at"].astimezone(UTC) == first.closed_at
    assert str(kept["day"]) == f"{first.closed_at:%Y-%m-%d}"
    assert (kept["text"], json.loads(kept["headers"])) == (first.text, first.headers)
    assert json.loads(kept["errorattempt"])[0]["text"] == "why"
    assert json.loads(kept["errorchange"])[0]["payload_before"] == "\\x00ff"
    assert run.facts["files"] == len(archived_files(run)) == DAYS
    assert run.facts["days"] == DAYS


def test_what_the_cleanup_protects_is_protected(queue: Queue) -> None:
    month = some_failures(queue, 2, days=40)
    Queue.objects.update(retention_seconds=50 * 86_400)
    planned = some_failures(queue, 2, days=60)
    operation = Operation.objects.create(
        verb="restore", title="t", actor="a", state="PLANNED", created_at=timezone.now()
    )
    OperationItem.objects.create(operation=operation, error=planned[0], place=1, version=1)

    run = done(an_archive("failures", days=30))

    assert run.counts == counts(1)
    left = set(MessageError.objects.values_list("pk", flat=True))
    assert left == {month[0].pk, month[1].pk, planned[0].pk}


def test_days_of_tracking_go_as_whole_tables(queue: Queue, spark: Any) -> None:
    oldest = a_day_of_tracking(queue, 40, 3_000)
    a_day_of_tracking(queue, 35, 10)
    young = a_day_of_tracking(queue, 20, 5)
    fill(queue, oldest - 7 * DAY, 4)
    fill(queue, timezone.now(), 6)

    run = done(an_archive("messages"))

    assert run.counts == counts(3_014)
    assert MessageTrack.objects.count() == 11
    tables = [part.table for part in track_days.parts()]
    assert track_days.named(oldest.date()) not in tables
    assert track_days.named(young.date()) in tables
    rows = archived(spark, run)
    assert len({row["id"] for row in rows}) == len(rows) == 3_014
    assert {str(row["day"]) for row in rows if row["offset"] > 10} == {f"{oldest:%Y-%m-%d}"}
    assert len(manifests_of(run)) == 3
    again_nothing = done(an_archive("messages"))
    assert again_nothing.counts == counts(0)


def test_runs_of_cron_tasks_beyond_those_to_keep(servers: Any, spark: Any) -> None:
    instance = some_runs(30, keep=10)
    run = done(an_archive("runs"))
    assert run.counts == counts(20)
    assert CronRun.objects.filter(instance=instance).count() == 10
    assert sorted(json.loads(row["counts"])["n"] for row in archived(spark, run)) == [
        *range(10, 30)
    ]


def test_what_was_applied_is_told_again(queue: Queue) -> None:
    some_failures(queue, 10)
    run = done(an_archive("failures"))
    BulkRun.objects.update(state="ASKED")
    repeated = done(run)
    assert (repeated.counts, repeated.facts) == (run.counts, run.facts)


def test_the_command_archives(queue: Queue) -> None:
    some_failures(queue, 4)
    out = StringIO()
    call_command(
        "bulk_archive", "failures", "--older-than-days", "60", stdout=out, stderr=StringIO()
    )
    told = json.loads(out.getvalue())
    assert (told["state"], told["sent"], told["facts"]["days"]) == ("DONE", 4, DAYS)
    run = BulkRun.objects.get()
    before = datetime.fromisoformat(run.parameters["before"])
    assert timedelta(days=60) <= timezone.now() - before < timedelta(days=60, hours=1)
    assert len(archived_files(run)) == DAYS
    assert MessageError.objects.count() == 0


def test_the_console_shows_what_it_would_archive_before_it_asks(queue: Queue) -> None:
    """That such a run archives, by whomever it was asked for, is in `test_every_way`."""
    some_failures(queue, 12)
    client = logged_in()
    said = {"look": "1", "parameter-kind": "failures", "parameter-older_than_days": "60"}
    looked = new(client, "archive", said)
    assert "12 rows" in looked.text
    job_request = json.dumps({"kind": "failures", "older_than_days": 60})
    assert new(client, "archive", {"ask": "1", "job_request": job_request}).status_code == 303
    (run,) = BulkRun.objects.all()
    assert "Archive: failures" in see(client, run)
    assert MessageError.objects.count() == 12
