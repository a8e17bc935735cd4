"""Testing a provider: each step and right against real brokers, open, secured and absent."""

import contextlib
import socket
import threading
from typing import NoReturn

import pytest
from confluent_kafka import KafkaException
from confluent_kafka.admin import AdminClient, NewTopic

from crontasks.health import diagnosis, flow_set_up
from crontasks.health.checks import check
from devstack.server import Server
from integration.kafka import admin, examination, listeners
from integration.kafka.errors import BrokerProtocolError
from integration.kafka.examination import Examination, Finding, Verdict
from integration.models import Provider
from integration.runs.queues import run_queue
from integration.selectors.setup.examination import examined as examine
from integration.selectors.setup.examination import ids_of
from tests.support.rows import a_place, a_queue_row
from tests.support.secured_kafka import PASSWORD, USER, SecuredKafka
from tests.support.unanswered import MOMENT_SECONDS, WHILE_SECONDS, wait_a_moment

pytestmark = [pytest.mark.servers, pytest.mark.django_db]

TOPICS = ("orders", "orders-out", "sluice-relay")


@pytest.fixture(scope="module")
def secured(secured_kafka: SecuredKafka) -> SecuredKafka:
    client = AdminClient({"bootstrap.servers": secured_kafka.bootstrap})
    for future in client.create_topics([NewTopic(name, 1, 1) for name in TOPICS]).values():
        # The relay's own is there once another test has used the cluster.
        with contextlib.suppress(KafkaException):
            future.result(10)
    return secured_kafka


def a_provider(cluster: SecuredKafka, **fields: object) -> Provider:
    values = {
        "name": "plant",
        "bootstrap_servers": cluster.secured,
        "security_protocol": "SASL_PLAINTEXT",
        "sasl_mechanism": "PLAIN",
        "username": USER,
        "password": PASSWORD,
    }
    return Provider.objects.create(**{**values, **fields})


def findings(found: Examination) -> dict[str, Finding]:
    return {
        f"{section.title}: {one.title}": one
        for section in found.sections
        for one in section.findings
    }


def test_an_open_cluster_grants_everything(kafka: Server) -> None:
    provider = Provider.objects.create(name="open", bootstrap_servers=kafka.bootstrap)
    found = findings(examine(provider, "a-topic-of-nobody"))
    login = found["Reach and log in: Log in as User:ANONYMOUS"]
    assert login.verdict is Verdict.OK
    assert "1 broker" in login.text
    ids = found[f"Write in transactions: Transactional id {ids_of(provider)}*"]
    assert [right.verdict for right in ids.rights] == [Verdict.OK, Verdict.OK]
    assert found["Create topics: Cluster"].verdict is Verdict.OK
    absent = found["Read: Topic a-topic-of-nobody"]
    assert absent.verdict is Verdict.UNKNOWN


def test_every_refused_right_names_the_command_that_grants_it(secured: SecuredKafka) -> None:
    """Running the commands shown, and nothing else, makes every right be there."""
    provider = a_provider(secured)
    a_queue_row("continuous", provider=provider, topic="orders")
    a_queue_row(provider=provider, topic="orders-out", direction="outbound")
    before = examine(provider)
    rights = {
        (one.title, right.operation): right.verdict
        for one in findings(before).values()
        for right in one.rights
    }
    ids = ids_of(provider)
    needed = {
        ("Topic orders", "Describe"),
        ("Topic orders", "Read"),
        ("Topic orders", "DescribeConfigs"),
        ("Topic orders", "Write"),
        ("Topic orders-out", "Write"),
        ("Topic sluice-relay", "Read"),
        (f"Consumer group {ids}*", "Read"),
        (f"Consumer group {ids}*", "Describe"),
        (f"Transactional id {ids}*", "Describe"),
        (f"Transactional id {ids}*", "Write"),
        ("Cluster", "Create"),
    }
    assert {key for key in needed if rights[key] is Verdict.REFUSED} == needed
    assert before.verdict is Verdict.REFUSED

    for one in findings(before).values():
        if one.verdict is not Verdict.OK:
            assert "--allow-principal User:sluice" in one.command, one
            secured.grant(one.command)
    after = examine(provider)
    assert [one for one in findings(after).values() if one.verdict is not Verdict.OK] == []


def test_one_missing_right_is_told_apart(secured: SecuredKafka) -> None:
    provider = a_provider(secured, username="other", password="other")
    a_queue_row(provider=provider, topic="orders")
    secured.grant(
        "kafka-acls.sh --add --allow-principal User:other --operation Describe "
        f"--topic orders --transactional-id {ids_of(provider)} --resource-pattern-type prefixed"
    )
    found = findings(examine(provider))
    lag_tools = found["Read: Consumer group sluice-*"]
    assert (lag_tools.verdict, lag_tools.is_needed) == (Verdict.REFUSED, False)
    topic = found["Read: Topic orders"]
    assert {right.operation: right.verdict for right in topic.rights} == {
        "Describe": Verdict.OK,
        "Read": Verdict.REFUSED,
        "DescribeConfigs": Verdict.REFUSED,
    }
    assert topic.command.endswith("--operation Read --operation DescribeConfigs --topic orders")
    ids = found[f"Write in transactions: Transactional id {ids_of(provider)}*"]
    assert {right.operation: right.verdict for right in ids.rights} == {
        "Describe": Verdict.OK,
        "Write": Verdict.REFUSED,
    }


def test_a_wrong_password_is_told(secured: SecuredKafka) -> None:
    found = findings(examine(a_provider(secured, password="not-it")))
    login = found["Reach and log in: Log in as User:sluice"]
    assert login.verdict is Verdict.REFUSED
    assert "not-it" not in str(found)


# What the provider is set to, at which port of the cluster, and what that port speaks.
WRONG = (
    ("PLAINTEXT", "secured", "SASL_PLAINTEXT"),
    ("PLAINTEXT", "encrypted", "SSL"),
    ("SSL", "bootstrap", "PLAINTEXT"),
    ("SSL", "sealed", "SASL_SSL"),
    ("SASL_SSL", "secured", "SASL_PLAINTEXT"),
    ("SASL_PLAINTEXT", "bootstrap", "PLAINTEXT"),
    ("SASL_SSL", "encrypted", "SSL"),
    ("PLAINTEXT", "mutual", "SSL or SASL_SSL"),
)
RIGHT = [(speaks, port, "") for _, port, speaks in WRONG if " " not in speaks]


def test_a_port_of_another_protocol_is_told_apart(secured: SecuredKafka) -> None:
    for protocol, port, speaks in WRONG:
        address = getattr(secured, port)
        found = listeners.other_than(protocol, ["127.0.0.1:1", address])
        assert found is not None, (protocol, port)
        told = BrokerProtocolError("plant", protocol, found)
        assert f"set to {protocol}, but the port {address} speaks {speaks}." in told.sentence
        needs_login = port in {"secured", "sealed"} and not protocol.startswith("SASL")
        assert ("offered: PLAIN" in told.next_step) is needs_login
    for protocol, port, _ in RIGHT:
        assert listeners.other_than(protocol, [getattr(secured, port)]) is None, (protocol, port)


@pytest.mark.usefixtures("unanswered")
@pytest.mark.parametrize(("protocol", "port"), [("PLAINTEXT", "encrypted"), ("SSL", "bootstrap")])
def test_the_wrong_protocol_is_named_with_the_one_that_the_port_speaks(
    secured: SecuredKafka, protocol: str, port: str
) -> None:
    address = getattr(secured, port)
    provider = a_provider(secured, bootstrap_servers=address, security_protocol=protocol)
    step = findings(examine(provider))[f"Reach and log in: {examination.PROTOCOL}"]
    assert step.verdict is Verdict.REFUSED
    assert step.text.startswith("BROKER_PROTOCOL: ")
    assert protocol in step.text


@pytest.mark.parametrize(("protocol", "port"), [("SSL", "encrypted"), ("SASL_SSL", "sealed")])
def test_the_right_protocol_goes_through_tls(
    secured: SecuredKafka, monkeypatch: pytest.MonkeyPatch, protocol: str, port: str
) -> None:
    provider = a_provider(
        secured,
        bootstrap_servers=getattr(secured, port),
        security_protocol=protocol,
        ca_certificate=secured.certificate,
        properties={"ssl.endpoint.identification.algorithm": "none"},
    )
    assert admin.reachable(provider).ok
    # A certificate that nobody vouches for is no matter of the protocol.
    wait_a_moment(monkeypatch, WHILE_SECONDS)
    Provider.objects.filter(pk=provider.pk).update(ca_certificate="")
    provider.refresh_from_db()
    assert admin.reachable(provider).text.startswith("BROKER_CERTIFICATE_UNTRUSTED: ")


def test_whoever_asks_is_told_of_the_wrong_protocol(
    secured: SecuredKafka, monkeypatch: pytest.MonkeyPatch
) -> None:
    wait_a_moment(monkeypatch, WHILE_SECONDS)
    provider = a_provider(secured, security_protocol="PLAINTEXT")
    queue = a_queue_row("continuous", provider=provider, topic="orders")
    link = check("provider", flow_set_up.provider(queue))
    assert link.why.startswith("BROKER_PROTOCOL: ")
    assert "to SASL_PLAINTEXT" in link.next_step
    (told,) = [one for one in diagnosis.providers() if not one.ok]
    assert (told.why, told.next_step) == (link.why, link.next_step)


@pytest.mark.django_db(transaction=True)
def test_a_run_meets_the_wrong_protocol_as_an_outage(
    secured: SecuredKafka, monkeypatch: pytest.MonkeyPatch
) -> None:
    wait_a_moment(monkeypatch, WHILE_SECONDS)
    provider = a_provider(secured, security_protocol="PLAINTEXT")
    queue = a_queue_row("continuous", provider=provider, topic="orders")
    place = a_place(queue)
    assert run_queue(queue.pk).ending == "OUTAGE"
    place.refresh_from_db()
    assert (place.state, place.state_code) == ("OUTAGE", "KAFKA_PROTOCOL")
    assert "speaks SASL_PLAINTEXT" in place.state_text


def test_a_port_of_something_else_is_left_to_what_the_client_says(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(listeners, "ASK_SECONDS", MOMENT_SECONDS)
    with socket.create_server(("127.0.0.1", 0)) as silent:
        address = f"127.0.0.1:{silent.getsockname()[1]}"
        assert listeners.other_than("SSL", [address]) is None


def test_a_name_service_that_is_silent_is_not_waited_for(monkeypatch: pytest.MonkeyPatch) -> None:
    is_over, waited = threading.Event(), []

    def silent(*_: object, **__: object) -> NoReturn:
        waited.append(is_over.wait(15))
        raise socket.gaierror(socket.EAI_AGAIN, "no answer")

    monkeypatch.setattr(socket, "getaddrinfo", silent)
    monkeypatch.setattr(listeners, "ASK_SECONDS", MOMENT_SECONDS)
    monkeypatch.setattr(examination, "REACH_SECONDS", MOMENT_SECONDS)
    told = listeners.other_than("SSL", ["kafka.example:9092", "kafka-2.example:9092"])
    provider = Provider(name="none", bootstrap_servers="kafka.example:9092")
    text = findings(examine(provider))["Reach and log in: Reach kafka.example:9092"].text
    asked_still = not waited
    is_over.set()
    assert (told, asked_still) == (None, True)
    assert "a name service that does not answer" in text


def test_brokers_that_send_us_astray_are_found_out(
    secured: SecuredKafka, monkeypatch: pytest.MonkeyPatch
) -> None:
    wait_a_moment(monkeypatch)
    # The only one who answers; a busy machine gets the time it needs.
    monkeypatch.setattr(examination, "SENT_ON_SECONDS", 10.0)
    provider = Provider.objects.create(name="astray", bootstrap_servers=secured.misled)
    found = findings(examine(provider))
    astray = found["Reach and log in: Reach the broker at its advertised address 127.0.0.1:1"]
    assert astray.verdict is Verdict.REFUSED
    assert "advertised.listeners" in found["Reach and log in: Go on"].text
    assert not [title for title in found if not title.startswith("Reach and log in")]


def test_where_nothing_listens_each_address_says_so() -> None:
    provider = Provider(
        name="none", bootstrap_servers="127.0.0.1:1, nowhere.invalid:9092,localhost"
    )
    found = findings(examine(provider))
    assert "nothing listens on this port" in found["Reach and log in: Reach 127.0.0.1:1"].text
    assert "not known to this" in found["Reach and log in: Reach nowhere.invalid:9092"].text
    assert "not written as host:port" in found["Reach and log in: Reach localhost"].text
    assert len(found) == 3
