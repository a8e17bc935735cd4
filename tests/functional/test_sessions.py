"""How the database's sessions are set, and how many each process opens (docs/sizing.md)."""

import time
from pathlib import Path

import psutil
import pytest
import redis
from django.db import connection

from integration.models import PartitionLease, RelayLease
from integration.store.sessions import fetch_all, raw_connection
from tests.support.builders import a_queue
from tests.support.celery_world import Child, celery_world, eventually
from tests.support.kafka_world import Kafka

pytestmark = [pytest.mark.servers, pytest.mark.django_db(transaction=True)]

SLOTS, PROVIDERS = 2, 1
JIT = "SELECT current_setting('jit')"
# Long enough for the watch of both workers and for a beat or two of everything else.
WATCHED_SECONDS = 6.0


def sessions(child: Child, port: int) -> int:
    """Connections of the process and its children to PostgreSQL, at this moment."""
    count = 0
    for pid in [child.pid, *child.children()]:
        try:
            opened = psutil.Process(pid).net_connections(kind="tcp")
        except psutil.NoSuchProcess:
            continue
        count += sum(
            bool(one.raddr) and one.raddr.port == port and one.status == psutil.CONN_ESTABLISHED
            for one in opened
        )
    return count


def test_no_statement_is_compiled() -> None:
    """What the dispatcher asks twice a second would take three seconds among many failures."""
    assert fetch_all(JIT) == [("off",)]
    with raw_connection("test") as session:
        assert session.execute(JIT).fetchall() == [("off",)]


def test_no_process_opens_more_than_is_told(
    servers, child_environment: dict[str, str], tmp_path: Path
) -> None:
    with redis.Redis.from_url(child_environment["SLUICE_CELERY_BROKER_URL"]) as client:
        client.flushall()
    for _ in range(SLOTS):
        a_queue(Kafka(servers.kafka_bootstrap), stay_seconds=120)
    port = int(connection.settings_dict["PORT"])
    with celery_world(child_environment, tmp_path) as world:
        relay = world.worker("relay", concurrency=1, queues="relay")
        worker = world.worker("worker", concurrency=SLOTS)
        beat = world.beat("beat")
        held = PartitionLease.objects.filter(released_at=None)
        eventually(lambda: held.count() == SLOTS, worker)
        eventually(lambda: RelayLease.objects.exclude(owner="").exists(), relay, beat)
        most = dict.fromkeys((worker, relay, beat), 0)
        until = time.monotonic() + WATCHED_SECONDS
        while time.monotonic() < until:
            most = {child: max(count, sessions(child, port)) for child, count in most.items()}
            # A sample every so often; what is asserted are bounds, not moments.
            time.sleep(0.05)

    # The dispatcher's one and two for each slot are always there, and the relay's list of providers
    # and its watch of idle queues; what is opened for a moment may fall between two samples: the
    # watch that finds notices, settings of a provider.
    assert 1 + 2 * SLOTS <= most[worker] <= 2 + 2 * SLOTS
    assert 2 + 3 * PROVIDERS <= most[relay] <= 4 + 4 * PROVIDERS
    assert 1 <= most[beat] <= 2
    page = (Path(__file__).parents[2] / "docs" / "sizing.md").read_text()
    told = page.replace("\N{MULTIPLICATION SIGN}", "*")
    assert all(
        term in told
        for term in ("(2 + 2 * slots)", "(4 + 4 * shards of all providers)", "2 * beats")
    )
