"""Who relays: one owner a shard, and nothing an earlier one does counts any more."""

import threading
import time
import uuid
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from contextlib import closing

import pytest
from django.conf import settings
from django.db import connection, transaction
from django.utils import timezone

from crontasks.models import CronInstance
from crontasks.running.serving import serve_relay
from integration.actions import outbox
from integration.delivery.relay.ports import Publisher, RelayLostError
from integration.delivery.relay.run import RelayEnd
from integration.delivery.relay.steps import RelayStep
from integration.models import Deployment, OutboxRow, Provider, RelayLease, Restore
from integration.runs import relay as wiring
from integration.runs.relay import relay_all, run_relay
from integration.store import locks, relay_lease
from integration.store.relay_lease import take
from integration.store.sessions import raw_connection
from tests.functional.relay_world import (
    a_provider,
    batch_of,
    nothing_left,
    put,
    relay,
    sent,
    states,
)
from tests.support.celery_world import eventually
from tests.support.killed import await_free_locks
from tests.support.memory.relay import MemoryBroker, MemoryPublisher

pytestmark = [pytest.mark.servers, pytest.mark.django_db(transaction=True)]


@pytest.fixture
def provider() -> Provider:
    return a_provider()


@pytest.fixture
def broker() -> MemoryBroker:
    return MemoryBroker()


@pytest.mark.parametrize("is_gone", [False, True], ids=["there", "gone"])
@pytest.mark.parametrize("is_half_way", [False, True], ids=["at rest", "half-way"])
def test_a_mark_that_kafka_confirmed_and_lost_is_set_again(
    provider: Provider, broker: MemoryBroker, is_half_way: bool, is_gone: bool
) -> None:
    """A broker that dies right after a commit can take it for ended without ending it anywhere."""
    put(provider, b"1")
    relay(provider, broker)
    before = dict(broker.watermarks)
    put(provider, b"2")
    relay(provider, broker)
    put(provider, b"3")

    def overtake(step: RelayStep) -> None:
        if step is RelayStep.STAMPED:
            RelayLease.objects.update(epoch=100)
            broker.is_available = False

    if is_half_way:
        assert relay(provider, broker, until=lambda: False, observer=overtake) is RelayEnd.LOST
        broker.is_available = True
    broker.watermarks |= before
    if is_gone:
        broker.hanging.append(broker.records.pop())
    relay(provider, broker)
    assert sent(broker) == [b"1", b"2", b"3"]
    assert broker.hanging == []
    assert set(states()) == {"PUBLISHED"}
    assert not Restore.objects.exists()


def test_a_batch_from_further_back_is_of_another_state_of_the_database(
    provider: Provider, broker: MemoryBroker
) -> None:
    put(provider, b"1")
    relay(provider, broker)
    before = dict(broker.watermarks)
    for value in (b"2", b"3"):
        put(provider, value)
        relay(provider, broker)
    broker.watermarks |= before
    put(provider, b"4")
    relay(provider, broker, until=Restore.objects.exists)
    assert states()[-1] == "PENDING"


def test_a_second_relay_of_the_same_shard_goes_home(
    provider: Provider, broker: MemoryBroker
) -> None:
    first = take(provider.pk, 0, "first")
    assert first is not None
    try:
        assert relay(provider, broker, until=lambda: False) is RelayEnd.HELD
    finally:
        first.close()
    put(provider, b"1")
    assert relay(provider, broker) is RelayEnd.STOPPED


def test_an_owner_of_an_older_epoch_changes_nothing(
    provider: Provider, broker: MemoryBroker
) -> None:
    put(provider, b"1")

    def overtake(step: RelayStep) -> None:
        if step is RelayStep.STAMPED:
            RelayLease.objects.update(epoch=100)

    assert relay(provider, broker, until=lambda: False, observer=overtake) is RelayEnd.LOST
    # Written to Kafka but not marked: the next owner finds it by the watermark.
    assert states() == ["PENDING"]
    assert RelayLease.objects.get().batch_rows == [OutboxRow.objects.get().pk]
    relay(provider, broker)
    assert sent(broker) == [b"1"]


def test_a_relay_whose_session_is_terminated_goes_home(
    provider: Provider, broker: MemoryBroker
) -> None:
    put(provider, b"1")

    def terminate(step: RelayStep) -> None:
        if step is RelayStep.STAMPED:
            with connection.cursor() as cursor:
                cursor.execute(
                    "SELECT pg_terminate_backend(pid) FROM pg_stat_activity "
                    "WHERE application_name LIKE 'sluice-relay%%' "
                    "AND datname = current_database()"
                )

    assert relay(provider, broker, until=lambda: False, observer=terminate) is RelayEnd.LOST
    await_free_locks()
    relay(provider, broker)
    assert sent(broker) == [b"1"]


def test_who_cannot_be_noted_as_the_owner_frees_the_shard_and_says_why(
    provider: Provider, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(relay_lease, "PATIENT", "SET lock_timeout = '100ms'")
    RelayLease.objects.create(provider=provider)
    with transaction.atomic():
        RelayLease.objects.select_for_update().get()
        with pytest.raises(RelayLostError, match="lock timeout"):
            take(provider.pk, 0, "first")
        await_free_locks()
    tenure = take(provider.pk, 0, "first")
    assert tenure is not None
    tenure.close()


def test_a_relay_begins_while_somebody_works_at_its_instance() -> None:
    instance = CronInstance.objects.create(name="relay", task="relay", interval_seconds=1)
    settings.SLUICE_RELAY = f"{__name__}.nothing_to_relay"
    session = raw_connection("somebody")
    with session, session.transaction():
        session.execute("SELECT 1 FROM crontasks_croninstance FOR UPDATE")
        with connection.cursor() as cursor:
            cursor.execute("SET lock_timeout = '2s'")
            serve_relay()
            cursor.execute("RESET lock_timeout")
    CronInstance.objects.filter(pk=instance.pk).update(asked_at=timezone.now())
    serve_relay()
    assert CronInstance.objects.get(pk=instance.pk).asked_at is None


def nothing_to_relay(stop: Callable[[], bool]) -> None:
    """Comes home at once."""


def test_relays_of_all_providers_end_at_once_when_others_hold_them(provider: Provider) -> None:
    other = a_provider(name="other")
    held = [take(p.pk, 0, "elsewhere") for p in (provider, other)]
    since = time.monotonic()
    relay_all(lambda: time.monotonic() - since > 15)
    assert time.monotonic() - since < 10
    for tenure in held:
        assert tenure is not None
        tenure.close()


def test_a_copy_of_the_database_relays_nothing(provider: Provider) -> None:
    deployment = Deployment.objects.create(
        name="sluice", environment=settings.SLUICE_ENVIRONMENT, canary=""
    )
    assert wiring.shards() == [(provider.pk, 0)]
    deployment.environment = "production"
    deployment.save()
    assert wiring.shards() == []


def test_who_stands_still_before_it_has_the_lease_holds_the_shard_no_longer_than_that(
    provider: Provider,
) -> None:
    """The lease names the owner before it, whose sessions are gone: nobody could end this one."""
    with raw_connection("stands") as standing:
        standing.execute(relay_lease.PATIENT)
        key = [locks.LockClass.RELAY, locks.relay_key(provider.pk, 0)]
        assert locks.take(standing, key)
        assert take(provider.pk, 0, "other") is None
        [silence] = standing.execute("SHOW idle_session_timeout").fetchone() or ("",)
        assert silence == f"{locks.UNLEASED_SECONDS // 60}min"
        standing.execute("SET idle_session_timeout = '100ms'")
        eventually(lambda: take(provider.pk, 0, "other")).close()


def test_a_relay_at_work_goes_to_the_cluster_that_the_provider_names_now(
    provider: Provider,
) -> None:
    first, second = MemoryBroker(), MemoryBroker()
    clusters = {provider.bootstrap_servers: first, "127.0.0.1:2": second}
    over = threading.Event()

    def publisher_for(provider_id: int, shard: int) -> Publisher:
        with closing(connection):
            named = Provider.objects.get(pk=provider_id).bootstrap_servers
        return MemoryPublisher(clusters[named])

    with ThreadPoolExecutor(1) as thread:
        end = thread.submit(run_relay, provider.pk, stop=over.is_set, publisher_for=publisher_for)
        try:
            put(provider, b"before")
            eventually(lambda: first.records)
            Provider.objects.update(bootstrap_servers="127.0.0.1:2")
            eventually(lambda: second.owners)
            put(provider, b"after")
            eventually(lambda: second.records)
        finally:
            over.set()
    assert end.result() is RelayEnd.STOPPED
    # The last batch is not sent again to where it never was.
    assert (sent(first), sent(second)) == ([b"before"], [b"after"])


def test_a_relay_that_begins_at_another_cluster_sends_nothing_again(provider: Provider) -> None:
    first, second = MemoryBroker(), MemoryBroker()
    for value in (b"1", b"2"):
        put(provider, value)
        relay(provider, first)
    # As a copy of the first has it that is one batch behind.
    second.watermarks["relay"] = RelayLease.objects.get().watermark_before
    put(provider, b"3")
    relay(provider, second)
    assert (sent(first), sent(second)) == ([b"1", b"2"], [b"3"])


def test_a_batch_that_may_be_in_the_cluster_before_is_in_doubt(provider: Provider) -> None:
    first, second = MemoryBroker(lost_answers=1), MemoryBroker(watermarks={"relay": ""})
    rows = put(provider, b"once")
    relay(provider, first, until=lambda: bool(first.records))
    in_doubt = RelayLease.objects.filter(in_doubt_since__isnull=False)
    relay(provider, second, until=in_doubt.exists)
    assert (sent(second), states(*rows)) == ([], ["STAMPED"])
    lease = in_doubt.get()
    outbox.resolve_in_doubt(lease.pk, batch=batch_of(*rows), sent=True, actor="anna")
    put(provider, b"after")
    relay(provider, second)
    assert sent(second) == [b"after"]


@pytest.mark.parametrize("is_there", [True, False], ids=["there", "lost since"])
def test_what_people_said_of_a_batch_is_no_earlier_state_of_the_database(
    provider: Provider, is_there: bool
) -> None:
    """Another cluster was named by mistake; the batch was found in the one before."""
    first, second = MemoryBroker(), MemoryBroker()
    put(provider, b"0")
    relay(provider, first)
    before, first.lost_answers = dict(first.watermarks), 1
    rows = put(provider, b"once")
    relay(provider, first, until=lambda: len(first.records) == 2)
    in_doubt = RelayLease.objects.filter(in_doubt_since__isnull=False)
    relay(provider, second, until=in_doubt.exists)
    outbox.resolve_in_doubt(in_doubt.get().pk, batch=batch_of(*rows), sent=True, actor="anna")
    put(provider, b"after")
    if not is_there:
        first.watermarks |= before
    relay(provider, first, until=lambda: nothing_left() or Restore.objects.exists())
    assert not Restore.objects.exists()
    assert (sent(first), sent(second)) == ([b"0", b"once", b"after"], [])


def test_a_cluster_that_has_an_older_batch_is_asked_about_once_the_stamped_one_is_decided(
    provider: Provider,
) -> None:
    """After a failback: people decide what the cluster is, and no decision sends a batch twice."""
    first = MemoryBroker()
    for value in (b"1", b"2", b"3"):
        put(provider, value)
        relay(provider, first)
    first.lost_answers = 1
    rows = put(provider, b"4")
    relay(provider, first, until=lambda: len(first.records) == 4)
    second = MemoryBroker(watermarks={"relay": str(uuid.uuid4())})
    in_doubt = RelayLease.objects.filter(in_doubt_since__isnull=False)
    relay(provider, second, until=in_doubt.exists)
    assert not Restore.objects.exists()
    outbox.resolve_in_doubt(in_doubt.get().pk, batch=batch_of(*rows), sent=True, actor="anna")
    relay(provider, second, until=Restore.objects.exists)
    assert sent(second) == []
