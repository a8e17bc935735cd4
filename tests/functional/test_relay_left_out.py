"""Topics that cannot be written for a while: the relay leaves them out, and all others go on."""

import time

import pytest

from integration.delivery.relay import left_out
from integration.delivery.relay.left_out import leaves_out
from integration.delivery.relay.run import RelayEnd
from integration.delivery.relay.steps import RelayStep
from integration.models import Provider, RelayLease
from tests.functional.relay_world import a_provider, nothing_left, put, relay, sent, states
from tests.support.memory.relay import MemoryBroker

pytestmark = [pytest.mark.servers, pytest.mark.django_db(transaction=True)]

WHY = "no broker leads its partition 0"


@pytest.fixture
def provider() -> Provider:
    return a_provider()


def test_a_topic_that_cannot_be_written_holds_up_no_other_and_keeps_its_order(
    provider: Provider, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(left_out, "FIRST_LOOK_SECONDS", 0.2)
    broker, told = MemoryBroker(ailing={"ill": WHY}), []
    put(provider, b"i1", topic="ill")
    others = put(provider, b"1", b"2")
    put(provider, b"i2", topic="ill")

    def until() -> bool:
        if set(states(*others)) == {"PUBLISHED"} and not told:
            told.append(RelayLease.objects.get().trouble)
            assert sent(broker) == [b"1", b"2"]
            put(provider, b"3")
        if b"3" in sent(broker):
            broker.ailing.clear()
        return nothing_left()

    assert relay(provider, broker, until=until) is RelayEnd.STOPPED
    assert sent(broker) == [b"1", b"2", b"3", b"i1", b"i2"]
    [trouble] = told
    assert leaves_out(trouble)
    assert f"ill ({WHY})" in trouble
    assert RelayLease.objects.get().trouble == ""


def trouble() -> str:
    lease = RelayLease.objects.first()
    return "" if lease is None else lease.trouble


def test_what_keeps_a_relay_from_beginning_is_named(provider: Provider) -> None:
    """Kafka cannot end a transaction that has a record in such a topic, and begins no other."""
    broker = MemoryBroker(ailing={"ill": WHY})
    rows = put(provider, b"i", topic="ill")

    def until() -> bool:
        # The batch has failed by then.
        broker.is_pending = broker.is_pending or bool(trouble())
        return WHY in trouble()

    relay(provider, broker, until=until)
    assert not leaves_out(trouble())
    assert trouble().startswith("BROKER_UNREACHABLE: ")
    assert states(*rows) == ["PENDING"]


def test_who_takes_over_a_batch_that_failed_knows_its_topics(provider: Provider) -> None:
    broker = MemoryBroker(ailing={"ill": WHY})
    put(provider, b"i", topic="ill")
    relay(provider, broker, until=lambda: bool(trouble()))
    assert RelayLease.objects.get().batch is not None
    RelayLease.objects.update(trouble="")
    relay(provider, broker, until=lambda: bool(trouble()))
    assert leaves_out(trouble()), "before the next batch has failed"


def test_a_question_that_nobody_answered_is_asked_again_before_the_next_batch(
    provider: Provider,
) -> None:
    broker, steps = MemoryBroker(ailing={"ill": WHY}, tells_ailing=False), list[RelayStep]()
    put(provider, b"i", topic="ill")
    others = put(provider, b"1")

    def until() -> bool:
        broker.tells_ailing = broker.tells_ailing or trouble().startswith("BROKER_UNREACHABLE: ")
        return set(states(*others)) == {"PUBLISHED"}

    relay(provider, broker, until=until, observer=steps.append)
    assert sent(broker) == [b"1"]
    assert steps.count(RelayStep.BEGUN) == 2


def test_a_look_that_fails_changes_nothing(
    provider: Provider, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(left_out, "FIRST_LOOK_SECONDS", 0.05)
    monkeypatch.setattr(left_out, "LAST_LOOK_SECONDS", 0.05)
    broker, since, owners = MemoryBroker(ailing={"ill": WHY}), list[float](), list[object]()
    put(provider, b"i", topic="ill")

    def until() -> bool:
        if leaves_out(trouble()) and not since:
            broker.tells_ailing = False
            owners.append(broker.owners["relay"])
            since.append(time.monotonic())
        return bool(since) and time.monotonic() - since[0] > 0.5

    relay(provider, broker, until=until)
    assert leaves_out(trouble())
    assert broker.owners["relay"] is owners[0], "the publisher that works is kept"


def test_another_cluster_is_not_thought_to_be_as_the_one_before(
    provider: Provider, monkeypatch: pytest.MonkeyPatch
) -> None:
    for name in ("FIRST_LOOK_SECONDS", "LAST_LOOK_SECONDS"):
        monkeypatch.setattr(left_out, name, 1_000.0)
    first, second = MemoryBroker(ailing={"ill": WHY}), MemoryBroker()
    clusters = {provider.bootstrap_servers: first, "127.0.0.1:2": second}
    put(provider, b"0")
    relay(provider, first)
    put(provider, b"i", topic="ill")

    def until() -> bool:
        if leaves_out(trouble()):
            Provider.objects.update(bootstrap_servers="127.0.0.1:2")
        return nothing_left()

    relay(provider, clusters, until=until)
    assert (sent(first), sent(second)) == ([b"0"], [b"i"])
