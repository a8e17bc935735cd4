"""/metrics: true figures in Prometheus' own format, few queries, and only for who may read them."""

import re
from collections.abc import Sequence
from datetime import timedelta
from typing import Any

import pytest
from django.db import connection
from django.test import Client
from django.utils import timezone
from prometheus_client.parser import text_string_to_metric_families
from pytest_django import DjangoAssertNumQueries

from console.models import Limit
from crontasks.models import CronInstance, CronRun
from devstack import paths
from devstack.servers import Servers
from integration.delivery.tally import Tally
from integration.models import (
    BulkRun,
    Delivery,
    Endpoint,
    EndpointCircuit,
    ExternalSystem,
    RelayLease,
)
from integration.policy.histograms import CALL_SECONDS, Histogram
from integration.runs.queues import run_queue
from integration.store import tallies
from integration.version import sluice_version
from tests.support.builders import a_brief_queue
from tests.support.kafka_world import Kafka
from tests.support.memory.endpoint import MemoryDeliverer
from tests.support.partners import an_endpoint, an_outbound_queue, post, send
from tests.support.rows import (
    a_blocked_queue,
    a_held,
    a_message_to_send,
    a_person,
    a_place,
    a_queue_row,
    some_live_processes,
)

pytestmark = [pytest.mark.servers, pytest.mark.django_db]

TOKEN = "only-for-tests-0123456789"
QUERIES = 13
Samples = dict[tuple[str, frozenset[tuple[str, str]]], float]


def scraped(client: Client | None = None) -> Samples:
    answer = (client or Client()).get("/metrics")
    assert answer.status_code == 200
    assert answer["Content-Type"].startswith("text/plain; version=0.0.4")
    return {
        (sample.name, frozenset(sample.labels.items())): sample.value
        for family in text_string_to_metric_families(answer.text)
        for sample in family.samples
    }


def value(samples: Samples, name: str, **labels: str) -> float | None:
    return samples.get((f"sluice_{name}", frozenset(labels.items())))


def a_tally(ended: str, seconds: Sequence[float] = (), endpoint: Endpoint | None = None) -> Tally:
    """What a run has counted of one message, or of those that took so long."""
    tally = Tally()
    tally.endings[ended] = max(len(seconds), 1)
    if seconds:
        tally.latency.add_all(seconds)
    if endpoint is not None:
        tally.calls[endpoint.pk] = Histogram(CALL_SECONDS)
        tally.calls[endpoint.pk].add_all(seconds)
    return tally


def test_a_queue_tells_lag_age_churn_and_state() -> None:
    queue = a_queue_row(kind="continuous")
    old = timezone.now() - timedelta(minutes=5)
    a_place(queue, next_offset=10, high_watermark=15, epoch=3, oldest_waiting_at=old)
    a_place(queue, partition=1, next_offset=7, high_watermark=7, epoch=2)
    a_queue_row(name="never-opened")

    samples = scraped()

    assert value(samples, "queue_lag", queue=queue.name) == 5
    assert value(samples, "queue_oldest_waiting_seconds", queue=queue.name) == pytest.approx(
        300, abs=20
    )
    assert value(samples, "queue_blocked_seconds", queue=queue.name) == 0
    assert value(samples, "queue_position_total", queue=queue.name) == 17
    assert value(samples, "queue_takes_total", queue=queue.name) == 5
    assert value(samples, "queue_wanted", queue=queue.name) == 1
    assert value(samples, "queue_partitions", queue=queue.name, state="RUNNING") == 2
    assert value(samples, "queue_partitions", queue=queue.name, state="BLOCKED") == 0
    assert value(samples, "queue_lag", queue="never-opened") is None, "not known is not zero"


def test_a_blocked_queue_tells_for_how_long() -> None:
    queue, place, _ = a_blocked_queue()
    a_held(queue, 3, state="RETRY", not_before=timezone.now())
    a_held(queue, 4, state="RESOLVED")
    place.state_since = timezone.now() - timedelta(hours=7)
    place.save(update_fields=["state_since"])

    samples = scraped()

    assert value(samples, "queue_blocked_seconds", queue=queue.name) == pytest.approx(
        25_200, abs=60
    )
    assert value(samples, "open_failures", queue=queue.name, state="HOLD") == 1
    assert value(samples, "open_failures", queue=queue.name, state="RETRY") == 1
    assert value(samples, "open_failures", queue=queue.name, state="READY") == 0
    assert value(samples, "open_failures", queue=queue.name, state="RESOLVED") is None


def test_a_queue_tells_for_how_long_an_open_transaction_has_held_it_back() -> None:
    since = timezone.now() - timedelta(minutes=2)
    noted = {"state_code": "TRANSACTION_OPEN", "state_since": since, "high_watermark": 10}
    held, passed = a_queue_row(kind="continuous"), a_queue_row(kind="continuous")
    a_place(held, next_offset=10, **noted)
    a_place(passed, next_offset=9, **noted)

    samples = scraped()

    assert value(samples, "queue_held_back_seconds", queue=held.name) == pytest.approx(120, abs=20)
    assert value(samples, "queue_held_back_seconds", queue=passed.name) == 0


def test_what_runs_have_counted_adds_up_and_a_queue_without_any_has_a_zero() -> None:
    queue, idle, endpoint = a_queue_row(), a_queue_row(), an_endpoint()
    tallies.add(queue.pk, a_tally("APPLIED", [0.02, 0.3, 0.4], endpoint))
    tallies.add(queue.pk, a_tally("HOLD"))
    tallies.add(queue.pk, a_tally("APPLIED", [7_200.0], endpoint))

    samples = scraped()

    assert value(samples, "messages_total", queue=queue.name, ended="APPLIED") == 4
    assert value(samples, "messages_total", queue=queue.name, ended="HOLD") == 1
    assert value(samples, "messages_total", queue=idle.name, ended="APPLIED") == 0
    buckets = {"0.025": 1, "0.25": 1, "0.5": 3, "3600.0": 3, "+Inf": 4}
    latency = "message_latency_seconds"
    assert buckets == {
        le: value(samples, f"{latency}_bucket", queue=queue.name, le=le) for le in buckets
    }
    assert value(samples, f"{latency}_count", queue=queue.name) == 4
    assert value(samples, f"{latency}_sum", queue=queue.name) == pytest.approx(7_200.72)
    calls = "call_duration_seconds"
    assert value(samples, f"{calls}_bucket", endpoint=endpoint.name, le="0.5") == 3
    assert value(samples, f"{calls}_count", endpoint=endpoint.name) == 4
    assert value(samples, "build_info", version=sluice_version()) == 1


@pytest.mark.django_db(transaction=True)
def test_runs_count_what_they_did_and_how_long_it_took(servers: Servers) -> None:
    broker = Kafka(servers.kafka_bootstrap)
    queue, out = a_brief_queue(broker), an_outbound_queue(broker, stay_seconds=0.0)
    broker.send(queue.topic, [{"n": 1}, {"n": 2, "do": "permanent"}])
    post(broker, out, 2)
    for _ in range(2):
        run_queue(queue.pk)
        send(out, MemoryDeliverer())

    samples = scraped()

    assert value(samples, "messages_total", queue=queue.name, ended="APPLIED") == 1
    assert value(samples, "messages_total", queue=queue.name, ended="HOLD") == 1
    assert value(samples, "messages_total", queue=out.name, ended="DELIVERED") == 2
    assert value(samples, "message_latency_seconds_count", queue=queue.name) == 1
    assert value(samples, "message_latency_seconds_count", queue=out.name) == 2
    endpoint = out.endpoint.name
    assert value(samples, "call_duration_seconds_count", endpoint=endpoint) == 2


def test_the_relay_tells_what_waits_since_when_and_what_is_in_doubt() -> None:
    queue = a_queue_row(direction="outbound")
    now = timezone.now()
    a_message_to_send(queue, created_at=now - timedelta(minutes=3))
    a_message_to_send(queue, state="STAMPED")
    a_message_to_send(queue, state="DEAD")
    a_message_to_send(queue, state="PUBLISHED", created_at=now - timedelta(days=1))
    in_future = {"created_at": now - timedelta(days=1), "not_before": now + timedelta(hours=1)}
    a_message_to_send(queue, **in_future)
    lease = RelayLease.objects.create(provider=queue.provider, epoch=4)

    samples = scraped()
    name = queue.provider.name

    assert value(samples, "relay_pending", provider=name) == 3
    assert value(samples, "relay_age_seconds", provider=name) == pytest.approx(180, abs=20)
    assert value(samples, "relay_dead", provider=name) == 1
    assert value(samples, "relay_in_doubt", provider=name) == 0
    assert value(samples, "relay_held", provider=name) == 0
    assert value(samples, "relay_takes_total", provider=name) == 4
    a_message_to_send(queue, created_at=now, not_before=now - timedelta(minutes=9))
    assert value(samples, "relay_in_doubt_seconds", provider=name) == 0
    lease.in_doubt_since = now - timedelta(minutes=4)
    lease.save()
    samples = scraped()
    assert value(samples, "relay_age_seconds", provider=name) == pytest.approx(540, abs=20)
    assert value(samples, "relay_in_doubt", provider=name) == 1
    assert value(samples, "relay_in_doubt_seconds", provider=name) == pytest.approx(240, abs=20)


def test_an_endpoint_tells_since_when_it_is_down_and_a_queue_what_may_have_arrived() -> None:
    up, down = an_endpoint(), an_endpoint(enabled=False)
    since = timezone.now() - timedelta(minutes=2)
    EndpointCircuit.objects.update_or_create(
        endpoint=down, defaults={"state": "OPEN", "opened_at": since}
    )
    queue = a_queue_row(direction="outbound", endpoint=up)
    told = {"queue": queue, "endpoint": up, "partition": 0, "epoch": 1, "started_at": since}
    for offset, state in enumerate(["UNKNOWN", "UNKNOWN", "SENDING", "DELIVERED"]):
        Delivery.objects.create(offset=offset, state=state, message_id=f"m-{offset}", **told)

    samples = scraped()

    assert value(samples, "endpoint_wanted", endpoint=up.name) == 1
    assert value(samples, "endpoint_wanted", endpoint=down.name) == 0
    assert value(samples, "endpoint_down_seconds", endpoint=up.name) == 0
    assert value(samples, "endpoint_down_seconds", endpoint=down.name) == pytest.approx(120, abs=20)
    assert value(samples, "deliveries_unknown", queue=queue.name) == 2


def test_runs_hearts_and_connections_are_told() -> None:
    some_live_processes()
    instance = CronInstance.objects.get(task="errors_cleanup")
    now = timezone.now()
    for state, age in (("FAILED", 1), ("DONE", 2), ("DONE", 90)):
        started_at = now - timedelta(minutes=age)
        CronRun.objects.create(instance=instance, state=state, started_at=started_at)

    samples = scraped()

    assert value(samples, "runs", task="errors_cleanup", state="FAILED") == 1
    assert value(samples, "runs", task="errors_cleanup", state="DONE") == 1
    assert value(samples, "runs", task="relay", state="DONE") == 0
    assert value(samples, "heartbeat_age_seconds", kind="beat", node="beat@host") is not None
    assert value(samples, "worker_slots", queues="celery") == 3
    in_use = value(samples, "database_connections")
    limit = value(samples, "database_connections_limit")
    assert in_use is not None
    assert limit is not None
    assert 1 <= in_use <= limit


def test_every_figure_is_explained_to_people() -> None:
    some_live_processes()
    queue, _, _ = a_blocked_queue()
    tallies.add(queue.pk, a_tally("APPLIED", [1.0], an_endpoint()))

    names = {re.sub("_(bucket|sum|count)$", "", name) for name, _ in scraped()}

    page = (paths.ROOT / "docs" / "operations.md").read_text()
    assert len(names) > 20
    assert not sorted(name for name in names if f"`{name}`" not in page)


def test_bulk_runs_tell_how_many_wait_and_for_how_long() -> None:
    assert value(scraped(), "bulk_waiting_seconds") == 0
    old = timezone.now() - timedelta(minutes=5)
    BulkRun.objects.create(job="import", actor="anna", asked_at=old)
    BulkRun.objects.create(job="import", actor="anna", asked_at=old, state="RUNNING")
    BulkRun.objects.create(job="import", actor="anna", asked_at=old, state="DONE")

    samples = scraped()

    assert value(samples, "bulk_runs", state="ASKED") == 1
    assert value(samples, "bulk_runs", state="RUNNING") == 1
    assert value(samples, "bulk_waiting_seconds") == pytest.approx(300, abs=20)


def test_the_queries_do_not_grow_with_the_queues(
    django_assert_max_num_queries: DjangoAssertNumQueries,
) -> None:
    for _ in range(12):
        a_blocked_queue()
    # Five more are savepoints inside the test's own transaction.
    with django_assert_max_num_queries(QUERIES + 5):
        scraped()


@pytest.mark.parametrize(
    ("sqlstate", "level"), [("53200", "WARNING"), ("40P01", "WARNING"), ("XX000", "ERROR")]
)
def test_figures_that_fail_are_an_error_in_the_log_unless_that_passes(
    caplog: pytest.LogCaptureFixture, sqlstate: str, level: str
) -> None:
    with connection.cursor() as cursor:
        cursor.execute(
            "ALTER TABLE integration_tally RENAME TO kept; CREATE FUNCTION fails() RETURNS int "
            f"STABLE LANGUAGE plpgsql AS $$ BEGIN RAISE SQLSTATE '{sqlstate}'; END $$; "
            "CREATE VIEW integration_tally AS SELECT * FROM kept WHERE fails() = 0"
        )
    assert Client().get("/metrics").status_code == 503
    [line] = [one for one in caplog.records if one.name == "console.monitoring.metrics"]
    assert line.levelname == level


@pytest.mark.parametrize("who", ["a stranger", "without a role", "limited to a system"])
def test_who_may_not_see_every_queue_is_refused(settings: Any, who: str) -> None:
    settings.SLUICE_METRICS_TOKEN = TOKEN
    settings.SLUICE_METRICS_ADDRESSES = ()
    queue = a_queue_row()
    client = Client()
    if who == "without a role":
        client.force_login(a_person())
    elif who == "limited to a system":
        person = a_person("Viewers")
        limit = Limit.objects.create(person=person)
        limit.systems.add(ExternalSystem.objects.create(name="partner"))
        client.force_login(person)

    answer = client.get("/metrics")

    assert (answer.status_code, answer["WWW-Authenticate"]) == (401, 'Bearer realm="sluice"')
    assert "SLUICE_METRICS_TOKEN" in answer.text
    assert queue.name not in answer.text


@pytest.mark.parametrize("sent", ["", "Bearer", f"Bearer {TOKEN}x", f"Basic {TOKEN}", "Bearer é"])
def test_only_the_whole_token_opens(settings: Any, sent: str) -> None:
    settings.SLUICE_METRICS_TOKEN = TOKEN
    settings.SLUICE_METRICS_ADDRESSES = ()

    assert Client().get("/metrics", headers={"authorization": sent}).status_code == 401


def test_a_scraper_inside_needs_no_tls(settings: Any) -> None:
    settings.SECURE_SSL_REDIRECT = True

    assert Client().get("/metrics").status_code == 200
    assert Client().get("/login/").status_code == 301


def test_the_token_or_the_right_to_see_everything_opens(settings: Any) -> None:
    settings.SLUICE_METRICS_TOKEN = TOKEN
    client = Client(headers={"authorization": f"Bearer {TOKEN}"})
    assert value(scraped(client), "database_connections") is not None

    client = Client()
    client.force_login(a_person("Viewers"))
    assert value(scraped(client), "database_connections") is not None


def test_without_a_token_and_an_address_nobody_is_answered(settings: Any) -> None:
    settings.SLUICE_METRICS_ADDRESSES = ()
    a_queue_row()

    answer = Client().get("/metrics")

    assert answer.status_code == 401
    assert "SLUICE_METRICS_ADDRESSES" in answer.text


def test_an_address_of_the_list_opens_beside_the_token(settings: Any) -> None:
    settings.SLUICE_METRICS_TOKEN = TOKEN
    settings.SLUICE_METRICS_ADDRESSES = ("192.0.2.0/24", "2001:db8::7")

    for peer, status in (
        ("192.0.2.9", 200),
        ("::ffff:192.0.2.9", 200),
        ("2001:db8::7", 200),
        ("2001:db8::8", 401),
        ("127.0.0.1", 401),
        ("192.0.3.9", 401),
    ):
        assert Client(REMOTE_ADDR=peer).get("/metrics").status_code == status, peer


def test_whose_sight_is_limited_is_refused_at_a_listed_address_too() -> None:
    person = a_person("Viewers")
    Limit.objects.create(person=person)
    client = Client()
    client.force_login(person)

    assert client.get("/metrics").status_code == 401


@pytest.mark.parametrize(
    ("peer", "headers", "status"),
    [
        ("127.0.0.1", {}, 200),
        ("::1", {}, 200),
        ("127.0.0.1", {"x-forwarded-for": "203.0.113.9"}, 401),
        ("127.0.0.1", {"forwarded": "for=203.0.113.9"}, 401),
        ("127.0.0.1", {"x-forwarded-proto": "https"}, 401),
        ("203.0.113.9", {}, 401),
        ("", {}, 401),
    ],
)
def test_in_development_this_host_itself_is_answered(
    peer: str, headers: dict[str, str], status: int
) -> None:
    answer = Client(REMOTE_ADDR=peer).get("/metrics", headers=headers)

    assert answer.status_code == status
