"""What becomes of a provider row, and what never leaves it."""

import contextlib
import logging
import socket
import struct
import subprocess
import sys
import threading
import time

import pytest
from confluent_kafka import KafkaError, KafkaException
from confluent_kafka.admin import ConfigEntry

from integration.kafka import client, listeners, looks, troubles
from integration.kafka.client import bounded
from integration.kafka.errors import BrokerRefusedError, ProviderUnusableError
from integration.kafka.membership import Membership
from integration.kafka.publisher import KafkaPublisher, _Reports
from integration.kafka.source import KafkaSource
from integration.models import Provider
from integration.values import Assignment, TroubleKind

pytestmark = pytest.mark.fast
SECRETS = ("hunter2-secret", "-----BEGIN PRIVATE KEY-----")


def a_provider(**fields: object) -> Provider:
    values = {"pk": 7, "name": "plant", "bootstrap_servers": "127.0.0.1:1", **fields}
    return Provider(**values)


def a_secured_provider() -> Provider:
    return a_provider(
        security_protocol="SASL_SSL",
        sasl_mechanism="SCRAM-SHA-512",
        username="sluice",
        password=SECRETS[0],
        ca_certificate="CA",
        client_certificate="CERT",
        client_key=SECRETS[1],
    )


def test_a_secured_provider_becomes_the_librarys_properties() -> None:
    properties = client.connection(a_secured_provider()).properties
    assert properties["security.protocol"] == "SASL_SSL"
    assert properties["sasl.mechanism"] == "SCRAM-SHA-512"
    assert properties["sasl.password"] == SECRETS[0]
    assert properties["ssl.ca.pem"] == "CA"
    assert properties["ssl.key.pem"] == SECRETS[1]


def test_a_plain_provider_sends_no_credentials() -> None:
    properties = client.connection(
        a_provider(password=SECRETS[0], username="u", client_key=SECRETS[1])
    ).properties
    assert not any(name.startswith(("sasl.", "ssl.")) for name in properties)


def test_secrets_are_in_no_repr_and_in_no_error(caplog: pytest.LogCaptureFixture) -> None:
    to = client.connection(a_secured_provider())
    with caplog.at_level(logging.DEBUG), pytest.raises(ProviderUnusableError) as caught:
        client.new_consumer(to, "group", {})
    shown = [repr(to), str(to), str(caught.value), repr(caught.value), caplog.text]
    assert not any(secret in text for secret in SECRETS for text in shown)
    assert caught.value.__cause__ is None
    assert to.without_secrets(f"password is {SECRETS[0]}") == "password is ***"


def test_a_property_that_is_decided_or_unknown_is_refused_by_name() -> None:
    with pytest.raises(ProviderUnusableError, match=r"isolation\.level"):
        client.connection(a_provider(properties={"isolation.level": "read_uncommitted"}))


@pytest.mark.parametrize("name", [*client.CONSUMER, *client.PRODUCER, *client.TRANSACTIONAL])
def test_nothing_a_connection_carries_overrides_a_promise(name: str) -> None:
    forged = client.Connection(1, "forged", {name: "forged"}, {name: "forged"})
    if name in client.CONSUMER:
        assert client.consumer_properties(forged, "g")[name] == client.CONSUMER[name]
    decided = {**client.PRODUCER, **client.TRANSACTIONAL}
    if name in decided:
        assert client.producer_properties(forged, "t")[name] == decided[name]


def test_a_provider_may_change_what_is_not_decided() -> None:
    to = client.connection(a_provider(properties={"client.id": "erp", "client.rack": "b"}))
    properties = client.consumer_properties(to, "g")
    assert (properties["client.id"], properties["client.rack"]) == ("erp", "b")


def test_the_library_takes_all_that_is_decided() -> None:
    """An unknown property or a contradiction would fail here; nothing has to answer."""
    to = client.connection(a_provider(properties={"client.id": "erp"}))
    client.new_consumer(to, "g", {}).close()
    for protocol in client.MEMBER:
        client.new_client(to, client.member_properties(to, "g", protocol, 2.0)).close()
    # The queue of a producer may hold events already: what matters is that it was made.
    client.new_producer(to, "t", {}).poll(0)
    client.new_producer(to, None, {}).poll(0)


@pytest.mark.parametrize(
    ("code", "kind"),
    [
        (KafkaError._AUTO_OFFSET_RESET, TroubleKind.OUT_OF_RANGE),
        (KafkaError.OFFSET_OUT_OF_RANGE, TroubleKind.OUT_OF_RANGE),
        (KafkaError.UNKNOWN_TOPIC_OR_PART, TroubleKind.UNKNOWN_TOPIC),
        (KafkaError.UNKNOWN_TOPIC_ID, TroubleKind.UNKNOWN_TOPIC),
        (KafkaError._ALL_BROKERS_DOWN, TroubleKind.UNAVAILABLE),
        (KafkaError.LEADER_NOT_AVAILABLE, TroubleKind.UNAVAILABLE),
        (KafkaError.TOPIC_AUTHORIZATION_FAILED, TroubleKind.RIGHTS),
        (KafkaError._AUTHENTICATION, TroubleKind.REFUSED),
        (KafkaError._BAD_MSG, TroubleKind.OTHER),
    ],
)
def test_each_code_has_one_meaning(code: int, kind: TroubleKind) -> None:
    found = troubles.trouble(KafkaError(code), 3)
    assert (found.kind, found.partition) == (kind, 3)
    assert KafkaError(code).name() in found.text


def test_a_refusal_is_told_apart_from_silence() -> None:
    refused = KafkaException(KafkaError(KafkaError.SASL_AUTHENTICATION_FAILED))
    silent = KafkaException(KafkaError(KafkaError._TIMED_OUT))
    assert isinstance(troubles.unreachable("p", refused), BrokerRefusedError)
    assert troubles.unreachable("p", refused).code == "BROKER_REFUSED"
    assert troubles.unreachable("p", silent).code == "BROKER_UNREACHABLE"


def test_no_callback_can_raise(caplog: pytest.LogCaptureFixture) -> None:
    """An exception in one makes the library throw away what it has just fetched."""
    source = KafkaSource(client.connection(a_provider()), "topic", "group")
    broken: object = object()
    try:
        source._notice(broken)  # type: ignore[arg-type]
        source._group_committed(broken, [])  # type: ignore[arg-type]
        client.QuietLog().log("no level", "%d %d", "too", "few", "fitting")  # type: ignore[arg-type]
    finally:
        source.close()


def test_no_callback_of_a_member_can_raise() -> None:
    """An exception in one would leave the group without an answer."""
    member = Membership(client.connection(a_provider()), "topic", "group", "classic")
    broken: object = object()
    member._assign(broken, broken)  # type: ignore[arg-type]
    member._take_back(broken, broken)  # type: ignore[arg-type]
    member._notice(broken)  # type: ignore[arg-type]
    member._committed(broken, [])  # type: ignore[arg-type]
    assert member._told == Assignment()
    member.close()


def test_a_member_that_cannot_join_says_why_and_one_that_has_joined_does_not() -> None:
    member = Membership(client.connection(a_provider()), "topic", "group", "consumer")
    member._notice(KafkaError(KafkaError._TRANSPORT))
    assert member.refusal == ""
    member._notice(KafkaError(KafkaError.GROUP_AUTHORIZATION_FAILED))
    assert "GROUP_AUTHORIZATION_FAILED" in member.refusal
    member._assign(object(), [])  # type: ignore[arg-type] # no client is needed for nothing
    assert member.refusal == ""
    member._notice(KafkaError(KafkaError.GROUP_AUTHORIZATION_FAILED))
    assert member.refusal == ""


def test_no_callback_of_a_relays_producer_can_raise() -> None:
    """An exception in one comes out of the call that serves it, in the middle of a batch."""
    publisher = KafkaPublisher(client.connection(a_provider()), "t")
    producer = publisher._new_producer()
    until = time.monotonic() + 10
    while not publisher._is_shaken and time.monotonic() < until:
        producer.poll(0.05)
    assert publisher._is_shaken, "nobody answers at that port, and the client says so"
    broken: object = object()
    publisher._shake(broken)  # type: ignore[arg-type]
    reports = _Reports(0.0)
    reports.take(0, broken, None)  # type: ignore[arg-type]
    assert list(reports.failures) == [0]


def test_one_lost_broker_is_no_trouble_yet_but_all_are() -> None:
    source = KafkaSource(client.connection(a_provider()), "topic", "group")
    try:
        source._notice(KafkaError(KafkaError._TRANSPORT))
        assert not source._noticed
        source._notice(KafkaError(KafkaError._ALL_BROKERS_DOWN))
        assert [t.kind for t in source._noticed] == [TroubleKind.UNAVAILABLE]
    finally:
        source.close()


def test_importing_the_door_makes_no_client() -> None:
    """Clients do not survive a fork, so none may exist before the worker's children do."""
    program = (
        "import threading, os\n"
        "os.environ['DJANGO_SETTINGS_MODULE'] = 'tests.support.settings'\n"
        "import django; django.setup()\n"
        "import integration.kafka.source, integration.kafka.admin\n"
        "import pathlib\n"
        "print(len(list(pathlib.Path('/proc/self/task').iterdir())))\n"
    )
    done = subprocess.run(
        [sys.executable, "-c", program], capture_output=True, text=True, check=True
    )
    assert done.stdout.strip() == "1"


def test_a_call_that_never_comes_back_is_given_up() -> None:
    never = threading.Event()
    with pytest.raises(KafkaException, match="no answer in time"):
        bounded(never.wait, 0.05)
    never.set()


def test_what_a_bounded_call_raises_is_raised_here() -> None:
    def fail() -> None:
        raise LookupError("as it was")

    with pytest.raises(LookupError, match="as it was"):
        bounded(fail, 5)
    done: list[int] = []
    bounded(lambda: done.append(1), 5)
    assert done == [1]


def test_a_cluster_may_keep_to_itself_how_long_transactions_last() -> None:
    def told(**settings: str | None) -> float | None:
        return looks.longest_of({name: ConfigEntry(name, text) for name, text in settings.items()})

    assert told(**{"transaction.max.timeout.ms": "900000"}) == 900
    assert told(**{"num.partitions": "1"}) is None
    assert told(**{"transaction.max.timeout.ms": None}) is None


def test_a_port_that_answers_byte_by_byte_is_given_up() -> None:
    """What it says is long, and each byte comes before anybody would call it silent."""
    sent = 0

    def drip(server: socket.socket) -> None:
        nonlocal sent
        with contextlib.suppress(OSError), server.accept()[0] as line:
            line.sendall(struct.pack(">i", 10_000))
            while sent < 10_000:
                time.sleep(0.02)
                line.sendall(b"x")
                sent += 1

    with socket.create_server(("127.0.0.1", 0)) as server:
        thread = threading.Thread(target=drip, args=[server], daemon=True)
        thread.start()
        address = f"127.0.0.1:{server.getsockname()[1]}"
        assert listeners.other_than("SSL", [address]) is None
    thread.join()
    assert sent < 1_000
