"""Relays to clusters that tell no id: only the provider's own state tells whether it was moved."""

import pytest

from integration.actions import outbox
from integration.delivery.relay.run import RelayEnd
from integration.delivery.relay.steps import RelayStep
from integration.models import Provider, RelayLease, Restore
from tests.functional.relay_world import (
    a_provider,
    batch_of,
    nothing_left,
    put,
    relay,
    sent,
    states,
)
from tests.support.memory.relay import MemoryBroker

pytestmark = [pytest.mark.servers, pytest.mark.django_db(transaction=True)]


@pytest.fixture
def provider() -> Provider:
    return a_provider()


def test_a_cluster_that_tells_no_id_is_not_taken_for_another(provider: Provider) -> None:
    broker = MemoryBroker(cluster="")
    for value in (b"1", b"2"):
        put(provider, value)
        relay(provider, broker)
    assert RelayLease.objects.get().cluster == ""
    # The mark of the last batch is lost, and its record.
    broker.watermarks["relay"] = RelayLease.objects.get().watermark_before
    del broker.records[-1]
    put(provider, b"3")
    relay(provider, broker)
    assert sent(broker) == [b"1", b"2", b"3"]


def test_a_batch_that_a_cluster_without_an_id_may_have_is_not_sent_to_the_next(
    provider: Provider,
) -> None:
    """The provider is changed while its cluster does not answer: no publisher is open then."""
    first, second = (MemoryBroker(cluster="", watermarks={"relay": ""}) for _ in range(2))
    clusters = {provider.bootstrap_servers: first, "127.0.0.1:2": second}
    first.lost_answers = 1
    rows = put(provider, b"once")
    in_doubt = RelayLease.objects.filter(in_doubt_since__isnull=False)

    def until() -> bool:
        if first.records and first.is_available:
            first.is_available = False
            Provider.objects.update(bootstrap_servers="127.0.0.1:2")
        return in_doubt.exists()

    relay(provider, clusters, until=until)
    assert (sent(second), states(*rows)) == ([], ["STAMPED"])


def test_a_provider_that_is_changed_between_two_owners_may_name_another_cluster(
    provider: Provider,
) -> None:
    first, second = (MemoryBroker(cluster="", watermarks={"relay": ""}) for _ in range(2))
    clusters = {provider.bootstrap_servers: first, "127.0.0.1:2": second}
    rows = put(provider, b"once")

    def overtake(step: RelayStep) -> None:
        if step is RelayStep.STAMPED:
            RelayLease.objects.update(epoch=100)

    assert relay(provider, clusters, until=lambda: False, observer=overtake) is RelayEnd.LOST
    Provider.objects.update(bootstrap_servers="127.0.0.1:2")
    in_doubt = RelayLease.objects.filter(in_doubt_since__isnull=False)
    relay(provider, clusters, until=lambda: in_doubt.exists() or bool(second.records))
    assert (sent(first), sent(second), states(*rows)) == ([b"once"], [], ["STAMPED"])
    outbox.resolve_in_doubt(in_doubt.get().pk, batch=batch_of(*rows), sent=True, actor="anna")
    put(provider, b"after")
    relay(provider, clusters)
    assert sent(second) == [b"after"]


def test_without_an_id_the_next_owner_of_the_same_provider_asks_nobody(provider: Provider) -> None:
    broker = MemoryBroker(cluster="")
    put(provider, b"0")
    relay(provider, broker)
    rows = put(provider, b"once")

    def overtake(step: RelayStep) -> None:
        if step is RelayStep.STAMPED:
            RelayLease.objects.update(epoch=100)
            broker.is_available = False

    assert relay(provider, broker, until=lambda: False, observer=overtake) is RelayEnd.LOST
    broker.is_available = True
    # Stored in other bytes, as by each save.
    provider.name, provider.password = "renamed", "as before"
    provider.save()
    relay(provider, broker)
    assert (sent(broker), states(*rows)) == ([b"0", b"once"], ["PUBLISHED"])


def test_a_changed_provider_does_not_hide_what_a_cluster_without_an_id_has_lost(
    provider: Provider,
) -> None:
    """It may be the same cluster with other credentials."""
    broker, lost = MemoryBroker(cluster=""), list[object]()
    put(provider, b"1")
    relay(provider, broker)
    put(provider, b"2")

    def until() -> bool:
        if not lost and nothing_left():
            lost.append(broker.records.pop())
            broker.watermarks["relay"] = RelayLease.objects.get().watermark_before
            Provider.objects.update(bootstrap_servers="127.0.0.1:2")
        return len(broker.records) == 2 and bool(lost) and nothing_left()

    relay(provider, broker, until=until)
    assert sent(broker) == [b"1", b"2"]
    assert not Restore.objects.exists()
