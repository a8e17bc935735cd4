"""Samples of how queues stand: one statement for all, gaps where nothing is known, a day kept."""

import os
from datetime import timedelta

import pytest
from django.db import connection
from django.utils import timezone

from crontasks.dispatch.dispatcher import Dispatcher
from crontasks.dispatch.watcher import Watcher
from crontasks.hearts import Heart
from crontasks.models import CronInstance, CronRun, LagSample
from integration.models import Deployment, Queue, QueueSample
from integration.selectors.queues import rates
from integration.store import samples
from integration.store.sessions import database_now
from tests.support.rows import a_held, a_place, a_queue_row

pytestmark = [pytest.mark.servers, pytest.mark.django_db]


def write() -> int:
    with connection.cursor() as cursor:
        return samples.write(cursor)


def prune() -> int:
    with connection.cursor() as cursor:
        return samples.prune(cursor)


def a_sample(queue: Queue, ago: timedelta) -> QueueSample:
    return QueueSample.objects.create(queue=queue, at=timezone.now() - ago, position=1, end=2)


def test_a_sample_sums_the_partitions_and_counts_what_is_open() -> None:
    queue = a_queue_row("continuous")
    a_place(queue, next_offset=10, high_watermark=15)
    # The position may be newer than the last look at the topic.
    a_place(queue, partition=1, next_offset=30, high_watermark=20)
    for offset, state in enumerate(["HOLD", "HOLD", "RETRY", "RESOLVED"]):
        a_held(queue, offset, state=state, not_before=timezone.now())
    assert write() == 1
    sample = QueueSample.objects.get()
    assert (sample.position, sample.end, sample.held, sample.retrying) == (40, 45, 2, 1)


def test_what_nobody_has_looked_at_makes_a_gap_not_a_zero() -> None:
    queue = a_queue_row("continuous")
    a_place(queue)
    a_place(queue, partition=1, high_watermark=None)
    a_queue_row("continuous")
    a_queue_row("continuous", direction="outbound")
    assert write() == 0


def test_one_statement_serves_all_queues() -> None:
    for _ in range(5):
        a_place(a_queue_row("continuous"))
    assert write() == 5
    assert len(set(QueueSample.objects.values_list("at", flat=True))) == 1


def test_samples_of_more_than_a_day_go_in_portions(monkeypatch: pytest.MonkeyPatch) -> None:
    queue = a_queue_row("continuous")
    a_sample(queue, timedelta(hours=23))
    old = [a_sample(queue, timedelta(hours=25, minutes=n)) for n in range(5)]
    small = samples.PRUNE.replace(f"LIMIT {samples.PRUNE_ROWS}", "LIMIT 3")
    monkeypatch.setattr(samples, "PRUNE", small)
    assert [prune(), prune(), prune()] == [3, len(old) - 3, 0]
    assert QueueSample.objects.count() == 1


class TestWatcher:
    @pytest.fixture
    def watcher(self) -> Watcher:
        return Watcher(Dispatcher(Heart(kind="worker", node="here")))

    def test_it_samples_every_fifteen_seconds(self, watcher: Watcher) -> None:
        a_place(a_queue_row("continuous"))
        watcher.sample()
        watcher.sample()
        assert QueueSample.objects.count() == 1
        watcher._sampled_at -= samples.SAMPLE_SECONDS
        watcher.sample()
        assert QueueSample.objects.count() == 2

    def test_a_copy_of_a_database_is_not_sampled(self, watcher: Watcher) -> None:
        a_place(a_queue_row("continuous"))
        Deployment.objects.update(environment="another")
        watcher.sample()
        assert not QueueSample.objects.exists()

    def test_a_process_of_the_pool_does_not_hold_its_session_open(self, watcher: Watcher) -> None:
        watcher._open()
        socket = watcher._session.fileno()
        child = os.fork()
        if child == 0:
            try:
                os.fstat(socket)
            except OSError:
                os._exit(0)
            os._exit(1)
        assert os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) == 0
        watcher.sample()
        assert not watcher._session.closed, "the parent works on in it"

    def test_its_round_samples_and_prunes(self, watcher: Watcher) -> None:
        queue = a_queue_row("continuous")
        a_place(queue)
        a_sample(queue, timedelta(days=2))
        leadership = watcher.dispatcher.leadership
        assert leadership.stand()
        assert leadership.term is not None
        watcher.round(leadership.term)
        leadership.resign()
        assert QueueSample.objects.get().position == 10


def test_the_watch_writes_down_what_waits_and_which_runs_were_lost() -> None:
    a_place(a_queue_row("continuous"))
    instance = CronInstance.objects.get(task="errors_cleanup")
    died = timezone.now() - timedelta(minutes=2)
    run = CronRun.objects.create(instance=instance, started_at=died, state="RUNNING")
    watcher = Watcher(Dispatcher(Heart(kind="worker", node="w")))
    watcher.sample()
    assert [sample.lag for sample in LagSample.objects.exclude(queue=None)] == [5]
    run.refresh_from_db()
    assert run.state == "LOST"


def test_the_pace_of_a_minute_is_read_for_all_queues_at_once() -> None:
    now = database_now()
    for pace in (2, 5):
        queue = a_queue_row("continuous")
        for ago in (45, 30, 15, 0):
            count = (60 - ago) * pace
            at = now - timedelta(seconds=ago)
            QueueSample.objects.create(queue=queue, at=at, position=count, end=2 * count)
    both = rates.together(list(rates.last_minute().values()))
    assert both is not None
    assert both.outgoing == pytest.approx(7, rel=0.01)
    assert both.incoming == pytest.approx(14, rel=0.01)
    assert rates.together([]) is None
