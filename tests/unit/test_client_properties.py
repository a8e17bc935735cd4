"""Properties that a provider may set: bounds that the client library takes, promises refused."""

import pytest
from django.core.exceptions import ValidationError

from integration.kafka import client
from integration.models import Provider
from integration.policy import client_properties
from integration.policy.client_properties import (
    ALLOWED,
    DECIDED,
    PRODUCER,
    Choice,
    Number,
    mistakes,
)

pytestmark = pytest.mark.fast


@pytest.mark.parametrize("name", sorted(DECIDED))
def test_what_sluice_decides_is_refused_with_its_reason(name: str) -> None:
    assert mistakes({name: "1"}) == [f"{name} cannot be set: {DECIDED[name]}."]


def test_every_promise_of_the_engine_has_a_reason() -> None:
    promised = {"enable.idempotence", "acks", "partitioner", "isolation.level"}
    promised |= {"enable.auto.commit", "auto.offset.reset", "enable.auto.offset.store"}
    assert promised <= DECIDED.keys()
    decided = {*client.CONSUMER, *client.PRODUCER, *client.TRANSACTIONAL}
    assert not decided & ALLOWED.keys()
    assert not DECIDED.keys() & ALLOWED.keys()


@pytest.mark.parametrize(
    ("name", "value"),
    [
        ("linger.ms", -1),
        ("linger.ms", 5_001),
        ("linger.ms", "soon"),
        ("linger.ms", True),
        ("linger.ms", 1.5),
        ("linger.ms", "²"),
        ("linger.ms", "9" * 5_000),
        ("compression.type", "rar"),
        ("socket.keepalive.enable", 7),
        ("client.id", ""),
        ("client.id", "sluice\0"),
        ("client.id", "sluice\ud800"),
        ("delivery.timeout.ms", 60_001),
        ("no.such", 1),
        ("no.such", None),
    ],
)
def test_what_does_not_fit_is_named(name: str, value: object) -> None:
    (said,) = mistakes({name: value})
    assert said.startswith(name)


def test_timeouts_that_contradict_each_other_are_told_before_the_library_does() -> None:
    assert len(mistakes({"delivery.timeout.ms": 30_000, "transaction.timeout.ms": 20_000})) == 1
    assert len(mistakes({"linger.ms": 2_000, "delivery.timeout.ms": 2_000})) == 1
    assert mistakes({"linger.ms": "1999", "delivery.timeout.ms": "2000"}) == []


def test_the_library_takes_each_property_at_both_ends() -> None:
    """Nothing that may be saved ends in PROVIDER_UNUSABLE."""
    for name, rule in ALLOWED.items():
        for value in _ends(rule):
            chosen = {name: value}
            if mistakes(chosen):
                # Alone it contradicts a default: so it needs the other one.
                others = {"transaction.timeout.ms": 900_000, "delivery.timeout.ms": 10_000}
                chosen = {**others, "message.max.bytes": 1_000, **chosen}
                if name == "reconnect.backoff.ms":
                    chosen["reconnect.backoff.max.ms"] = value
                if name == "reconnect.backoff.max.ms":
                    chosen["reconnect.backoff.ms"] = value
            assert mistakes(chosen) == [], chosen
            provider = Provider(pk=1, name="p", bootstrap_servers="127.0.0.1:1", properties=chosen)
            to = client.connection(provider)
            client.new_producer(to, "t").poll(0)
            if name not in PRODUCER:
                client.new_consumer(to, "g").close()


def _ends(rule: client_properties.Rule) -> tuple[object, ...]:
    if isinstance(rule, Number):
        return rule.least, rule.most, str(rule.most)
    return rule.values if isinstance(rule, Choice) else ("text",)


def test_producers_alone_get_what_is_for_producers() -> None:
    own = {"linger.ms": 50, "compression.type": "zstd", "delivery.timeout.ms": 9_000}
    provider = Provider(pk=1, name="p", bootstrap_servers="a:1", properties=own)
    to = client.connection(provider)
    in_transactions, plain = client.producer_properties(to, "t"), client.producer_properties(to)
    assert {name: in_transactions[name] for name in own} == own
    assert {name: plain[name] for name in own} == own
    assert in_transactions["batch.size"] == client_properties.DEFAULTS["batch.size"]
    assert not own.keys() & client.consumer_properties(to, "g").keys()
    assert client.delivery_seconds(to) == 9
    assert client.delivery_seconds(client.Connection(1, "p", {})) == 20


def test_oauth_is_a_client_with_its_secret_and_an_issuer() -> None:
    provider = Provider(
        pk=1,
        name="p",
        bootstrap_servers="a:1",
        security_protocol="SASL_SSL",
        sasl_mechanism="OAUTHBEARER",
        username="sluice",
        password="hush",
    )
    with pytest.raises(ValidationError, match=r"token\.endpoint\.url"):
        provider.clean()
    provider.properties = {"sasl.oauthbearer.token.endpoint.url": "https://issuer.example/token"}
    provider.clean()
    to = client.connection(provider)
    assert to.properties["sasl.oauthbearer.client.id"] == "sluice"
    client.new_producer(to, "t").poll(0)
    assert to.without_secrets("hush") == "***"


def test_who_sets_a_wrong_value_is_told_the_right_ones() -> None:
    (said,) = mistakes({"socket.timeout.ms": 9})
    assert all(word in said.rstrip(".").split() for word in ("10", "300000", "ms"))
    (said,) = mistakes({"sasl.oauthbearer.method": "none"})
    assert "oidc, default" in said


def test_a_timeout_may_be_as_long_as_the_one_that_contains_it() -> None:
    both = {"socket.timeout.ms": 70_000, "transaction.timeout.ms": 70_000}
    assert "socket.timeout.ms" not in "".join(mistakes(both))
    assert "socket.timeout.ms" in "".join(mistakes({**both, "socket.timeout.ms": 70_001}))
