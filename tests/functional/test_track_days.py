"""Tracking by the day: partitions made ahead, dropped as a whole, and nothing lost without one."""

from datetime import UTC, datetime, timedelta

import psycopg
import pytest
from django.db import connection
from django.utils import timezone

from crontasks.builtin import lag_monitor
from crontasks.builtin.history_cleanup import HistoryCleanup, HistoryParameters
from crontasks.outcome import Context
from integration.models import MessageTrack, Queue
from integration.store import track_days
from tests.support.rows import a_queue_row

pytestmark = [pytest.mark.servers, pytest.mark.django_db]
DAY = timedelta(days=1)


def midnight(days: int) -> datetime:
    return timezone.now().astimezone(UTC).replace(hour=0, minute=0, second=0, microsecond=0) + (
        days * DAY
    )


def tables() -> set[str]:
    with connection.cursor() as cursor:
        cursor.execute(
            "SELECT tablename FROM pg_tables WHERE tablename LIKE 'integration_message%'"
        )
        return {name for (name,) in cursor.fetchall()}


def a_track(queue: Queue, at: datetime, ended: str = "APPLIED") -> str:
    """A tracked message; returns the table it lies in."""
    track = MessageTrack.objects.create(
        queue=queue, partition=0, offset=1, arrival_batch=1, message_id="m", interface="X",
        ended=ended, at=at,
    )  # fmt: skip
    with connection.cursor() as cursor:
        cursor.execute(
            "SELECT tableoid::regclass::text FROM integration_messagetrack WHERE id = %s",
            [track.pk],
        )
        return str(cursor.fetchone()[0])


def test_a_message_lies_in_its_day_and_without_one_in_the_default() -> None:
    queue = a_queue_row()
    far = midnight(30)
    assert a_track(queue, far) == track_days.DEFAULT
    track_days.make_ahead(40)
    assert a_track(queue, midnight(31)) == track_days.named(midnight(31).date())
    assert track_days.named(far.date()) not in tables(), "its rows lie in the default already"
    assert a_track(queue, far) == track_days.DEFAULT
    assert MessageTrack.objects.count() == 3
    assert track_days.make_ahead(40) == 0


@pytest.mark.usefixtures("unanswered")
def test_the_lag_monitor_makes_the_days_and_teaches_the_search_index() -> None:
    queue = a_queue_row()
    table = a_track(queue, timezone.now())
    last = track_days.named(midnight(track_days.DAYS_AHEAD).date())
    with connection.cursor() as cursor:
        cursor.execute(f"DROP TABLE IF EXISTS {last}")
    task = lag_monitor.LagMonitor()
    task.run(
        lag_monitor.LagParameters(),
        Context(instance_id=1, scheduled_at=timezone.now(), actor="nightly"),
    )
    assert last in tables()
    with connection.cursor() as cursor:
        cursor.execute(
            "SELECT c.relname FROM pg_index i JOIN pg_class c ON c.oid = i.indexrelid "
            "JOIN pg_am a ON a.oid = c.relam WHERE i.indrelid = %s::regclass AND amname = 'brin'",
            [table],
        )
        (index,) = cursor.fetchone()
        cursor.execute("SELECT brin_summarize_new_values(%s)", [index])
        assert cursor.fetchone()[0] == 0, "nothing was left to learn"


def test_old_days_are_dropped_as_a_whole_and_counted() -> None:
    queue = a_queue_row()
    track_days.make_ahead(20)
    a_track(queue, midnight(10))
    a_track(queue, midnight(10) + DAY / 2, "HOLD")
    a_track(queue, midnight(11))
    dropped = track_days.drop_before(midnight(11))
    assert dropped == {"APPLIED": 1, "HOLD": 1}
    assert track_days.named(midnight(10).date()) not in tables()
    assert track_days.named(midnight(11).date()) in tables()
    assert MessageTrack.objects.count() == 1


def test_a_day_taken_off_by_a_run_that_died_is_dropped_by_the_next() -> None:
    track_days.make_ahead(20)
    table = track_days.named(midnight(12).date())
    with connection.cursor() as cursor:
        cursor.execute(f"ALTER TABLE integration_messagetrack DETACH PARTITION {table}")
    track_days.drop_before(midnight(-100))
    assert table not in tables()
    assert "integration_messageerror" in tables()


def test_a_day_in_use_is_left_to_the_next_run() -> None:
    with psycopg.connect(**_address()) as other:
        other.execute("SELECT count(*) FROM integration_messagetrack")
        assert track_days.drop_before(midnight(2)) == {}
        assert track_days.named(midnight(1).date()) in tables()
    track_days.drop_before(midnight(2))
    assert track_days.named(midnight(1).date()) not in tables()


def test_the_cleanup_removes_by_whole_days_also_what_lies_in_none() -> None:
    queue = a_queue_row()
    kept = [a_track(queue, midnight(-5)), a_track(queue, timezone.now())]
    for hours in (1, 2, 3):
        assert a_track(queue, midnight(-5) - timedelta(hours=hours)) == track_days.DEFAULT
    outcome = HistoryCleanup().run(
        HistoryParameters(tracking_days=5, chunk_rows=2),
        Context(instance_id=1, scheduled_at=timezone.now(), actor="nightly"),
    )
    assert outcome.counts["tracking"] == 3
    assert MessageTrack.objects.count() == len(kept)


def _address() -> dict[str, str | int]:
    known = connection.settings_dict
    return {
        "host": known["HOST"], "port": known["PORT"], "user": known["USER"],
        "dbname": known["NAME"],
    }  # fmt: skip
