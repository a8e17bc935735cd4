"""Topics that take nothing for a while: the relay leaves them out, and all others go on."""

import pytest

from integration.delivery.relay import policy
from integration.delivery.relay.run import RelayEnd
from integration.models import Provider, RelayLease
from tests.functional.relay_world import a_provider, nothing_left, put, relay, sent, states
from tests.support.memory.relay import MemoryBroker

pytestmark = [pytest.mark.servers, pytest.mark.django_db(transaction=True)]

WHY = "no broker leads its partition 0"


@pytest.fixture
def provider() -> Provider:
    return a_provider()


def test_a_topic_that_takes_nothing_holds_up_no_other_and_keeps_its_order(
    provider: Provider, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(policy, "FIRST_REST_SECONDS", 0.2)
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
    assert f"ill ({WHY})" in trouble
    assert RelayLease.objects.get().trouble == ""
