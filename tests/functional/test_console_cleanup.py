"""The cleanup page: a simulation tells exactly what the run then removes, and who may see it."""

from datetime import timedelta
from typing import Any

import pytest
from django.db import connection
from django.test import Client
from django.urls import reverse
from django.utils import timezone

from console.models import Limit
from crontasks import parameters, ticks
from crontasks.cleanup import selectors as cleanups
from crontasks.definitions import registry
from crontasks.models import CronInstance, CronRun, Notice
from integration.models import (
    ExternalSystem,
    MessageTrack,
    Operation,
    OutboxRow,
    QueuePartition,
)
from tests.functional.test_cleanup import a_queue, an_error, an_outgoing, context
from tests.support.rows import a_person

pytestmark = [pytest.mark.servers, pytest.mark.django_db]
DAY = timedelta(days=1)


@pytest.fixture
def client() -> Client:
    client = Client()
    client.force_login(a_person("Operators", "otto"))
    return client


def of_task(task: str) -> CronInstance:
    return CronInstance.objects.get(task=task)


def old_and_young_rows() -> None:
    """Some of everything that the cleanups know, on both sides of each border."""
    queue = a_queue(retention_seconds=30 * 86_400)
    strict = a_queue("strict", kind="sequential")
    QueuePartition.objects.create(queue=strict, partition=0, topic_uuid="u", next_offset=50)
    for days in (29, 31, 32, 120, 500):
        an_error(queue, days=days)
        an_error(queue, days=days, state="DELETED")
    an_error(queue, days=None, state="HOLD")
    an_error(strict, state="DELETED", offset=49)
    an_error(strict, state="DELETED", offset=51)
    for state in ("PUBLISHED", "CANCELLED", "PENDING", "DEAD"):
        for days in (1, 8, 40):
            an_outgoing(state, days)
    now = timezone.now()
    for days in (10, 31, 45, 45):
        MessageTrack.objects.create(
            queue=queue,
            partition=0,
            offset=days,
            arrival_batch=1,
            message_id="m",
            interface="i",
            ended="APPLIED",
            at=now - days * DAY,
        )
    for days in (1, 91):
        Notice.objects.create(
            kind="GAP", subject=str(days), text="t", opened_at=now, closed_at=now - days * DAY
        )
    few = CronInstance.objects.create(name="few", task="trace", interval_seconds=10, keep_runs=2)
    for hours in range(5):
        CronRun.objects.create(instance=few, started_at=now - timedelta(hours=hours), state="DONE")
    Operation.objects.create(
        verb="hold", title="left", actor="a", state="PLANNED", created_at=now - 2 * DAY
    )


def rows_by_status(rule: Any) -> dict[str, int]:
    """What is in the rule's table, counted past the rule's own conditions."""
    status = "''" if rule.status.startswith(("''", "o.")) else rule.status
    with connection.cursor() as cursor:
        # Tables of bulk runs are listed by a query, and have no table of their own.
        source = rule.source if rule.source.startswith("(") else f"{rule.table} t"
        cursor.execute(f"SELECT {status}, count(*) FROM {source} GROUP BY 1")
        return dict(cursor.fetchall())


@pytest.mark.parametrize("task", ["errors_cleanup", "history_cleanup"])
def test_a_simulation_equals_the_run_row_by_row(client: Client, task: str) -> None:
    old_and_young_rows()
    instance = of_task(task)
    page = client.get(reverse("cleanup"), {"simulate": instance.pk})
    simulated = page.context["simulation"]
    assert simulated.rows > 5
    assert f"would remove <strong>{simulated.rows} rows</strong>" in page.text
    before = {one.rule.name: rows_by_status(one.rule) for one in simulated.forecasts}

    # The task alone: a tick would add a row to the runs that are counted here.
    kind = registry.named(task).task
    outcome = kind().run(parameters.read(kind.parameters, {}), context())
    counts = outcome.counts

    for one in simulated.forecasts:
        after = rows_by_status(one.rule)
        gone = {
            status: count - after.get(status, 0)
            for status, count in before[one.rule.name].items()
            if count != after.get(status, 0)
        }
        told = one.by_status if set(gone) <= set(one.by_status) else {"": one.rows}
        assert gone == told, one.rule.name
    assert sum(counts.values()) - counts.get("lost_runs", 0) == simulated.rows
    again = cleanups.simulate(instance.pk)
    assert again is not None
    assert again.rows == 0


def test_the_page_tells_rules_protection_next_runs_and_what_the_last_ones_removed(
    client: Client,
) -> None:
    old_and_young_rows()
    instance = of_task("errors_cleanup")
    ticks.tick(instance.pk, timezone.now())
    page = client.get(reverse("cleanup"), {"simulate": instance.pk}).text
    for told in (
        "the queue&#x27;s retention, at least 7 days",
        "Open: never removed, however old, expired or not",
        "Closed before its queue has come past its message",
        "A run now would remove nothing",
        "5 DELETED, 4 RESOLVED",
        "due by then",
    ):
        assert told in page, told
    assert page.count("due by then") == 5


def test_what_becomes_due_until_the_next_runs_is_told(client: Client) -> None:
    queue = a_queue()
    an_error(queue, days=7 - 1 / 24 / 60)
    instance = of_task("errors_cleanup")
    upcoming = client.get(reverse("cleanup"), {"simulate": instance.pk}).context["simulation"]
    assert sum(one.rows for one in upcoming.upcoming) == 1


def test_a_simulation_changes_nothing(client: Client) -> None:
    old_and_young_rows()
    before = (OutboxRow.objects.count(), MessageTrack.objects.count(), CronRun.objects.count())
    for task in ("errors_cleanup", "history_cleanup"):
        client.get(reverse("cleanup"), {"simulate": of_task(task).pk})
    after = (OutboxRow.objects.count(), MessageTrack.objects.count(), CronRun.objects.count())
    assert before == after


def test_what_is_no_cleanup_cannot_be_simulated(client: Client) -> None:
    assert client.get(reverse("cleanup"), {"simulate": of_task("relay").pk}).status_code == 404
    assert client.get(reverse("cleanup"), {"simulate": 999_999}).status_code == 404
    assert client.get(reverse("cleanup"), {"simulate": "x" * 50}).status_code == 200


def test_without_any_cleanup_the_page_tells_what_that_means(client: Client) -> None:
    CronInstance.objects.filter(task__endswith="cleanup").delete()
    assert "Nothing is ever cleaned up" in client.get(reverse("cleanup")).text


def test_people_limited_to_systems_are_told_that_cleanup_is_for_all() -> None:
    person = a_person("Administrators", "lena")
    Limit.objects.create(person=person).systems.add(ExternalSystem.objects.create(name="mine"))
    client = Client()
    client.force_login(person)
    instance = of_task("errors_cleanup")
    answer = client.get(reverse("cleanup"), {"simulate": instance.pk})
    assert answer.status_code == 200
    assert "simulation" not in answer.context
    assert "You cannot see this page" in answer.text
