"""What bulk runs leave behind goes when nobody can need it any more, and not before."""

import uuid
from datetime import timedelta
from typing import Any

import psycopg
import pytest
from django.db import connection
from django.utils import timezone

from crontasks.builtin.history_cleanup import HistoryCleanup, HistoryParameters
from crontasks.bulk.deciding import give_up
from crontasks.cleanup import simulation
from crontasks.cleanup.stages import BULK_RUNS, STAGES
from crontasks.outcome import Context
from integration.actions.configuration import Author
from integration.models import BulkRun, MessageError, Provider, Queue

pytestmark = [pytest.mark.servers, pytest.mark.django_db(transaction=True)]
DAY = timedelta(days=1)


def a_run(state: str, *, days: float = 0) -> BulkRun:
    ended = timezone.now() - days * DAY
    return BulkRun.objects.create(
        job="import",
        state=state,
        actor="a",
        asked_at=ended - DAY,
        ended_at=None if state in {"ASKED", "RUNNING"} else ended,
    )


def staged(run: uuid.UUID, *parts: str) -> list[str]:
    names = [f"bulk_{run.hex}_{part}" for part in parts or ("ranges", "documents", "rejects")]
    with connection.cursor() as cursor:
        for name in names:
            cursor.execute(f"CREATE UNLOGGED TABLE {name} (n int)")
    return names


def tables() -> set[str]:
    with connection.cursor() as cursor:
        cursor.execute("SELECT tablename FROM pg_tables WHERE tablename ~ '^bulk_[0-9a-f]{32}_'")
        return {name for (name,) in cursor.fetchall()}


@pytest.fixture(autouse=True)
def no_tables_left() -> Any:
    """Other tests leave tables of runs that are forgotten, which are due at once."""
    _drop_tables()
    yield
    _drop_tables()


def _drop_tables() -> None:
    with connection.cursor() as cursor:
        for name in tables():
            cursor.execute(f"DROP TABLE {name}")


def cleaned(**parameters: Any) -> dict[str, int]:
    context = Context(instance_id=1, scheduled_at=timezone.now(), actor="nightly")
    return dict(HistoryCleanup().run(HistoryParameters(**parameters), context).counts)


def foretold(rule: Any) -> tuple[int, list[int]]:
    said = HistoryCleanup.sql_values(HistoryParameters(), timezone.now())
    (found,) = simulation.forecast([rule], said, [timezone.now()])
    return found.rows, [one.rows for one in found.protected]


def test_stages_go_some_days_after_their_run_has_ended() -> None:
    kept = [
        *staged(a_run("RUNNING", days=100).pk),
        *staged(a_run("ASKED", days=100).pk),
        *staged(a_run("FAILED", days=6).pk),
    ]
    staged(a_run("FAILED", days=8).pk)
    staged(a_run("CANCELLED", days=8).pk, "ranges")
    staged(a_run("DONE", days=8).pk, "documents", "something_of_another_job")
    staged(uuid.uuid4(), "ranges")
    assert foretold(STAGES) == (7, [6, 0, 3])
    assert cleaned()["stages"] == 7
    assert tables() == set(kept)
    assert cleaned(stages_days=5)["stages"] == 3


def test_the_stage_of_a_run_that_is_out_in_part_stays_for_as_long_as_the_run() -> None:
    run = a_run("CANCELLED", days=8)
    BulkRun.objects.filter(pk=run.pk).update(facts={"sending_begun": True})
    names = staged(run.pk)
    assert foretold(STAGES)[0] == 0
    assert cleaned()["stages"] == 0
    assert tables() == set(names)
    run.delete()
    assert cleaned()["stages"] == 3


def test_a_stage_that_somebody_uses_is_left_to_the_next_time() -> None:
    run = a_run("FAILED", days=8)
    names = staged(run.pk)
    where = connection.settings_dict
    with psycopg.connect(
        host=where["HOST"], port=where["PORT"], user=where["USER"], dbname=where["NAME"]
    ) as other:
        other.execute("SELECT 1 FROM integration_bulkrun WHERE id = %s FOR UPDATE", [run.pk])
        assert cleaned()["stages"] == 0
        other.rollback()
        other.execute(f"SELECT 1 FROM {names[0]}")
        assert cleaned()["stages"] == 0
        other.rollback()
    assert tables() == set(names)
    BulkRun.objects.update(state="RUNNING")
    assert cleaned()["stages"] == 0, "it was let go on"
    BulkRun.objects.update(state="FAILED")
    assert cleaned()["stages"] == 3


def test_runs_are_forgotten_when_their_rejects_are_closed() -> None:
    provider = Provider.objects.create(name="main", bootstrap_servers="127.0.0.1:1")
    queue = Queue.objects.create(
        name="q", provider=provider, topic="q", kind="continuous", start_from="beginning"
    )
    runs = {name: a_run("DONE", days=91) for name in ("open", "closed", "none")}
    young, waiting = a_run("FAILED", days=89), a_run("ASKED", days=400)
    archive = a_run("FAILED", days=400)
    lost = a_run("FAILED", days=400)
    BulkRun.objects.filter(pk__in=[archive.pk, lost.pk]).update(job="archive", plan={"parts": []})
    assert give_up(lost.pk, Author("a"))
    for name, state in (("open", "HOLD"), ("open", "RESOLVED"), ("closed", "DELETED")):
        MessageError.objects.create(
            queue=queue,
            topic_uuid=str(runs[name].pk),
            partition=0,
            offset=MessageError.objects.count(),
            state=state,
            failure_class="permanent",
            code="BAD_CSV",
            first_failed_at=timezone.now(),
            last_failed_at=timezone.now(),
            closed_at=None if state == "HOLD" else timezone.now(),
        )
    assert foretold(BULK_RUNS) == (3, [1, 1, 1, 1])
    assert cleaned()["bulk_runs"] == 3
    assert set(BulkRun.objects.all()) == {runs["open"], young, waiting, archive}
    assert MessageError.objects.count() == 3, "failures go by their queue's own retention"
