"""Who relays: one owner a shard, and nothing an earlier one does counts any more."""

import time

import pytest
from django.conf import settings
from django.db import connection

from integration.delivery.relay.run import RelayEnd
from integration.delivery.relay.steps import RelayStep
from integration.models import Deployment, OutboxRow, Provider, RelayLease
from integration.runs import relay as wiring
from integration.runs.relay import relay_all
from integration.store.relay_lease import take
from tests.functional.relay_world import a_provider, put, relay, sent, states
from tests.support.memory.relay import MemoryBroker

pytestmark = [pytest.mark.servers, pytest.mark.django_db(transaction=True)]


@pytest.fixture
def provider() -> Provider:
    return a_provider()


@pytest.fixture
def broker() -> MemoryBroker:
    return MemoryBroker()


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
    relay(provider, broker)
    assert sent(broker) == [b"1"]


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
