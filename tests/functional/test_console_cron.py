"""Cron instances over HTTP: when they run, how it went, running one now, letting one rest."""

import re
from contextlib import closing
from datetime import timedelta
from typing import Any

import pytest
from django.db import connection
from django.test import Client
from django.test.utils import CaptureQueriesContext
from django.urls import reverse
from django.utils import timezone

from console.cron import words
from console.layout.access import Right
from console.models import Limit
from crontasks.instances.actions import CONSUMERS
from crontasks.instances.selectors import RUNS_SHOWN
from crontasks.models import CronInstance, CronRun
from devstack.server import Server
from integration.actions.configuration import Author, record
from integration.delivery.report import RunEnding
from integration.models import ConfigurationChange, ExternalSystem, QueueChange
from integration.policy.states import Ended
from integration.store import locks
from integration.store.sessions import raw_connection
from tests.support.rows import a_person, a_queue_row

pytestmark = [pytest.mark.servers, pytest.mark.django_db]


def logged_in(role: str, name: str) -> Client:
    client = Client()
    client.force_login(a_person(role, name))
    return client


@pytest.fixture
def client() -> Client:
    return logged_in("Operators", "otto")


@pytest.fixture
def cleanup() -> CronInstance:
    return CronInstance.objects.get(task="errors_cleanup")


def a_run(instance: CronInstance, **fields: object) -> CronRun:
    values: dict[str, Any] = {
        "started_at": timezone.now(),
        "state": "DONE",
        "counts": {"deleted": 12},
        **fields,
    }
    return CronRun.objects.create(instance=instance, **values)


# --- what is shown ------------------------------------------------------------------------------


def test_the_list_tells_schedule_next_moment_and_last_run(
    client: Client, cleanup: CronInstance
) -> None:
    a_run(cleanup, state="FAILED", text="first")
    a_run(cleanup, text="removed twelve rows")
    page = client.get(reverse("cron")).text
    assert "every hour at minute 17" in page
    assert "<code>17 * * * *</code>" in page
    assert "removed twelve rows" in page
    assert "first" not in page.split("removed twelve rows")[0].split(cleanup.name)[-1]


def test_a_run_that_removed_nothing_is_told_as_one_and_asked_runs_by_their_asking(
    client: Client, cleanup: CronInstance
) -> None:
    a_run(cleanup, counts={})
    listed = client.get(reverse("cron"), {"q": cleanup.name}).text
    assert "no run with work yet" not in listed
    page = client.get(reverse("cleanup")).text
    assert ">Last runs</h3>" in page
    assert ">nothing</td>" in page
    change = record(cleanup, {}, {"run": "asked for"}, Author("otto", ""))
    assert change is not None
    shown = client.get(reverse("change", args=[change.pk])).text
    assert "Run now:" in shown
    assert "\N{RIGHTWARDS ARROW}" not in shown.split("Run now:")[1][:200]


def test_the_list_is_filtered_by_name_and_state(client: Client, cleanup: CronInstance) -> None:
    a_run(cleanup, state="FAILED")
    CronInstance.objects.filter(task="lag_monitor").update(active=False)

    def named(query: str) -> set[str]:
        shown = client.get(f"{reverse('cron')}?{query}").context["instances"]
        return {row.task for row in shown}

    assert named("q=CLEANUP") == {"errors_cleanup", "history_cleanup"}
    assert named("state=failed") == {"errors_cleanup"}
    assert named("state=paused") == {"lag_monitor"}
    assert "lag_monitor" not in named("state=active")
    empty = client.get(f"{reverse('cron')}?q=nowhere").text
    assert "No schedule matches" in empty
    assert "Clear filters" in empty


def test_a_moment_that_nobody_acted_upon_is_told_as_late(
    client: Client, cleanup: CronInstance
) -> None:
    CronInstance.objects.update(last_scheduled_at=timezone.now())
    assert "late: was due" not in client.get(reverse("cron")).text
    long_ago = timezone.now() - timedelta(hours=3)
    CronInstance.objects.filter(pk=cleanup.pk).update(last_scheduled_at=long_ago)
    page = client.get(reverse("cron-instance", args=[cleanup.pk])).text
    assert "has not started" in page


def test_how_a_queues_run_ended_and_what_it_counted_is_told_in_words(client: Client) -> None:
    queue = a_queue_row(name="spoken")
    instance = CronInstance.objects.get(queue=queue)
    counts = {"APPLIED": 40, "RETRY": 2, "DUPLICATE": 1, "HOLD": 3}
    run = a_run(instance, ending="YIELDED", counts=counts)
    addresses = [
        reverse("queue", args=[queue.name]),
        reverse("cron-instance", args=[instance.pk]),
        reverse("cron-run", args=[run.pk]),
    ]
    pages = [client.get(address).text for address in addresses]
    for page in pages:
        assert "Gave up its slot" in page
        assert ">YIELDED" not in page
    told = "3 put on hold, 2 to be retried, 40 applied, 1 repeat dropped"
    for page in pages[:2]:
        assert told in re.sub(r"<[^>]*>", "", page)
    assert '<span title="HOLD">Put on hold</span></td><td class="num">3</td>' in pages[2]


def test_every_ending_and_every_count_of_the_engine_has_words() -> None:
    assert not {str(one) for one in RunEnding} - set(words.ENDINGS)
    assert not {str(one) for one in Ended} - set(words.OF_MESSAGES)


@pytest.mark.parametrize(
    ("task", "counts", "told"),
    [
        ("errors_cleanup", {"DELETED": 1, "RESOLVED": 2}, "2 resolved failures, 1 deleted failure"),
        ("history_cleanup", {"lost_runs": 1}, "1 run found lost"),
        ("reprocessing", {"LATE": 2, "RELEASED": 1}, "1 released, 2 not released: late"),
        ("queue_consumer", {"PASSED": 2}, "2 passed over as not ours"),
        ("error_queue_consumer", {"PASSED": 2}, "2 already among the failures here"),
        ("of_ones_own", {"rows_sent": 1_200, "APPLIED": 1}, "1200 rows sent, 1 applied"),
    ],
)
def test_counts_of_other_tasks_are_told_in_their_own_words(
    task: str, counts: dict[str, int], told: str
) -> None:
    found = words.counted(counts, task=task, is_consumer=task in CONSUMERS)
    assert ", ".join(f"{one.count} {one.words}" for one in found) == told


def test_the_page_tells_runs_rules_and_next_moments(client: Client, cleanup: CronInstance) -> None:
    a_run(cleanup, text="removed twelve rows")
    page = client.get(reverse("cron-instance", args=[cleanup.pk])).text
    assert "12 deleted" in page
    assert "Skip the run" in page
    assert "Chunk rows" in page
    assert page.count("UTC</span></li>") == 5


def test_a_run_has_a_page_with_its_counts_log_node_and_duration(
    client: Client, cleanup: CronInstance
) -> None:
    run = a_run(cleanup, log_excerpt="<b>line</b>", node="worker-7", duration_seconds=1.25)
    page = client.get(reverse("cron-run", args=[run.pk])).text
    for told in ("&lt;b&gt;line", "worker-7", "1.250 s", "deleted", "12"):
        assert told in page
    assert client.get(reverse("cron-run", args=[999_999])).status_code == 404


def test_runs_are_paged_by_their_place_also_when_they_began_at_once(
    client: Client, cleanup: CronInstance
) -> None:
    at = timezone.now()
    made = [a_run(cleanup, started_at=at).pk for _ in range(RUNS_SHOWN + 3)]
    address = reverse("cron-instance", args=[cleanup.pk])
    first = client.get(address).context["page"]
    second = client.get(address, {"before": first.older}).context["page"]
    seen = [run.pk for page in (first, second) for run in page.runs]
    assert seen == made[::-1]
    assert second.older == ""
    for spoilt in ("x", "_1", f"{at.isoformat()}_", "2026-01-01_1", "9" * 40):
        assert client.get(address, {"before": spoilt}).status_code == 200


def test_the_number_of_statements_does_not_grow(client: Client) -> None:
    counts = []
    for _ in range(2):
        for _ in range(5):
            a_queue_row("continuous")
        for instance in CronInstance.objects.all():
            a_run(instance)
        client.get(reverse("cron"))
        with CaptureQueriesContext(connection) as asked:
            client.get(reverse("cron"))
        counts.append(len(asked))
    assert counts[0] == counts[1] <= 14


def test_people_limited_to_systems_see_only_the_schedules_of_their_queues(
    cleanup: CronInstance,
) -> None:
    mine, theirs = (ExternalSystem.objects.create(name=name) for name in ("mine", "theirs"))
    queues = [a_queue_row(system=system) for system in (mine, theirs, None)]
    ours = CronInstance.objects.get(queue=queues[0])
    person = a_person("Administrators", "lena")
    Limit.objects.create(person=person).systems.add(mine)
    client = Client()
    client.force_login(person)
    assert [row.id for row in client.get(reverse("cron")).context["instances"]] == [ours.pk]
    for instance in CronInstance.objects.exclude(pk=ours.pk):
        assert client.get(reverse("cron-instance", args=[instance.pk])).status_code == 404
    hidden = CronInstance.objects.filter(queue__in=queues[1:])
    for pk in [cleanup.pk, *hidden.values_list("pk", flat=True)]:
        run = a_run(CronInstance.objects.get(pk=pk))
        assert client.get(reverse("cron-run", args=[run.pk])).status_code == 404
        for name in ("cron-one-run", "cron-change", "cron-delete"):
            assert client.get(reverse(name, args=[pk])).status_code == 404, name
        for name in ("run-now", "cron-pause", "cron-activate", "cron-change", "cron-delete"):
            assert client.post(reverse(name, args=[pk]), {"reason": "x"}).status_code == 404, name
    new = client.get(reverse("cron-new"))
    assert new.status_code == 403
    assert client.post(f"{reverse('cron-new')}?task=reprocessing", {"name": "x"}).status_code == 403


# --- what is done -------------------------------------------------------------------------------


def test_run_now_sends_it_to_the_workers_and_notes_who_asked(
    client: Client, cleanup: CronInstance, valkey: Server
) -> None:
    answer = client.post(reverse("run-now", args=[cleanup.pk]))
    assert answer.status_code == 303
    cleanup.refresh_from_db()
    assert cleanup.asked_at is not None
    note = ConfigurationChange.objects.get(kind="croninstance")
    assert (note.actor, note.name, note.after) == ("otto", cleanup.name, {"run": "asked for"})


def test_run_now_of_a_consumer_is_told_among_the_decisions_about_its_queue(
    client: Client, valkey: Server
) -> None:
    queue = a_queue_row()
    instance = CronInstance.objects.get(queue=queue)
    assert client.post(reverse("run-now", args=[instance.pk])).status_code == 303
    queue.refresh_from_db()
    assert queue.start_requested_at is not None
    assert QueueChange.objects.get(queue=queue).action == "run now"


def test_a_second_run_is_refused_while_the_first_is_at_work(
    client: Client, cleanup: CronInstance
) -> None:
    a_run(cleanup, state="RUNNING")
    with closing(raw_connection("a run")) as session:
        session.execute(locks.TRY, (locks.LockClass.INSTANCE, cleanup.pk))
        answer = client.post(reverse("run-now", args=[cleanup.pk]))
    assert answer.status_code == 409
    assert not ConfigurationChange.objects.filter(kind="croninstance").exists()


def test_other_parameters_need_the_right_to_store_them(
    client: Client, cleanup: CronInstance
) -> None:
    history = CronInstance.objects.get(task="history_cleanup")
    given = {"with-parameters": "1", "parameter-decisions_days": "30"}
    assert client.post(reverse("run-now", args=[history.pk]), given).status_code == 403
    assert client.get(reverse("cron-one-run", args=[history.pk])).status_code == 403
    shown = client.get(reverse("cron-instance", args=[history.pk])).text
    assert reverse("cron-one-run", args=[history.pk]) not in shown
    history.refresh_from_db()
    assert history.asked_at is None


def test_other_parameters_hold_for_one_run_only(cleanup: CronInstance, valkey: Server) -> None:
    client = logged_in("Administrators", "lena")
    form = client.get(reverse("cron-one-run", args=[cleanup.pk])).text
    assert 'name="parameter-chunk_rows" value="1000"' in form
    wrong = {"with-parameters": "1", "parameter-chunk_rows": "0"}
    refused = client.post(reverse("run-now", args=[cleanup.pk]), wrong)
    assert refused.status_code == 422
    assert list(refused.context["form"].errors) == ["parameter-chunk_rows"]
    given = {"with-parameters": "1", "parameter-chunk_rows": "7", "parameter-simulate": "on"}
    assert client.post(reverse("run-now", args=[cleanup.pk]), given).status_code == 303
    cleanup.refresh_from_db()
    assert cleanup.parameters == {}
    note = ConfigurationChange.objects.get(kind="croninstance")
    assert note.after == {
        "run": "asked for",
        "parameters": {"chunk_rows": 7, "simulate": True},
    }


def test_an_instance_is_paused_with_a_reason_and_activated_again(
    client: Client, cleanup: CronInstance
) -> None:
    pause = reverse("cron-pause", args=[cleanup.pk])
    assert client.post(pause).status_code == 422
    assert client.post(pause, {"reason": "disk is being moved"}).status_code == 303
    cleanup.refresh_from_db()
    assert not cleanup.active
    assert not cleanup.periodic_task.enabled
    page = client.get(reverse("cron-instance", args=[cleanup.pk])).text
    assert "disk is being moved" in page
    assert client.post(pause, {"reason": "again"}).status_code == 303
    assert ConfigurationChange.objects.filter(kind="croninstance").count() == 1
    activate = reverse("cron-activate", args=[cleanup.pk])
    assert client.post(activate).status_code == 303
    cleanup.refresh_from_db()
    assert cleanup.active
    change = ConfigurationChange.objects.filter(kind="croninstance").first()
    assert change is not None
    assert (change.before, change.after) == ({"active": False}, {"active": True})


def test_viewers_find_every_button_disabled_with_the_missing_right(cleanup: CronInstance) -> None:
    client = logged_in("Viewers", "vera")
    page = client.get(reverse("cron-instance", args=[cleanup.pk])).text
    assert Right.OPERATE.missing in page
    assert Right.CONFIGURE.missing in page
    for name in ("run-now", "cron-pause", "cron-activate", "cron-change", "cron-delete"):
        assert client.post(reverse(name, args=[cleanup.pk]), {"reason": "x"}).status_code == 403


def test_an_instance_that_is_gone_is_a_page_of_its_own(client: Client) -> None:
    assert client.get(reverse("cron-instance", args=[999_999])).status_code == 404
    assert client.post(reverse("run-now", args=[999_999])).status_code == 404
