"""Texts of runs that no database holds: what a cron task says or raises never loses its row."""

import pytest

from crontasks import ticks
from crontasks.models import CronRun
from crontasks.outcome import Outcome, RunState
from crontasks.running import history, serving
from tests.functional.test_crontasks import a_queue, an_instance, later

pytestmark = [pytest.mark.servers, pytest.mark.django_db]
TEXT = "ValueError: line \0 of caf\udce9.csv"


def test_a_run_is_written_down_whatever_its_task_has_said():
    instance = an_instance()
    context = ticks.Context(instance_id=instance.pk, scheduled_at=later(0))
    context.say(TEXT)
    run = history.begin(instance, context)
    counts = {"of \0": 1, "of \udce9": 2}
    history.end(run, Outcome(text=TEXT, counts=counts, state=RunState.FAILED), context)
    run.refresh_from_db()
    assert sum(run.counts.values()) == 3
    assert (run.state, run.ended_at is None) == ("FAILED", False)
    for told in (run.text, run.log_excerpt):
        assert told.startswith("ValueError: line ")
        assert told.endswith(".csv")


def test_a_run_of_a_queue_is_written_down_once_whatever_the_engine_raised(settings):
    settings.SLUICE_ENGINE = "tests.functional.test_run_texts.broken_engine"
    queue = a_queue()
    for _ in range(2):
        serving.serve_queue(queue.pk)
    run = CronRun.objects.get(instance__queue=queue)
    assert run.state == "FAILED"
    assert run.text.startswith("ValueError: line ")


def broken_engine(queue_id: int, *, stop: object) -> None:
    raise ValueError(TEXT.removeprefix("ValueError: "))
