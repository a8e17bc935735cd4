"""Testing a provider: each step and right against real brokers, open, secured and absent."""

import tempfile
from collections.abc import Iterator
from pathlib import Path

import pytest
from confluent_kafka.admin import AdminClient, NewTopic

from devstack import ports
from devstack.server import Server
from integration.kafka import examination
from integration.kafka.examination import Examination, Finding, Verdict
from integration.models import Provider
from integration.selectors.setup.examination import examined as examine
from integration.selectors.setup.examination import ids_of
from tests.support.rows import a_queue_row
from tests.support.secured_kafka import PASSWORD, USER, SecuredKafka

pytestmark = [pytest.mark.servers, pytest.mark.django_db]

TOPICS = ("orders", "orders-out", "sluice-relay")


@pytest.fixture(scope="module")
def secured() -> Iterator[SecuredKafka]:
    folder = Path(tempfile.mkdtemp(prefix="sluice-tests-"))
    chosen: list[int] = []
    for _ in range(4):
        chosen.append(ports.choose(chosen))
    cluster = SecuredKafka(folder, (chosen[0], chosen[1], chosen[2], chosen[3]))
    cluster.start()
    client = AdminClient({"bootstrap.servers": cluster.bootstrap})
    for future in client.create_topics([NewTopic(name, 1, 1) for name in TOPICS]).values():
        future.result(10)
    yield cluster
    cluster.stop()
    cluster.discard()


def a_provider(cluster: SecuredKafka, **fields: str) -> Provider:
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
    assert "does not exist yet" in absent.text


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
    assert "Check user, password and certificates" in login.text
    assert "not-it" not in str(found)


def test_the_wrong_protocol_is_named_as_the_likely_cause(secured: SecuredKafka) -> None:
    provider = a_provider(secured, security_protocol="PLAINTEXT", sasl_mechanism="")
    login = findings(examine(provider))["Reach and log in: Log in as User:ANONYMOUS"]
    assert login.verdict is Verdict.REFUSED
    assert "security protocol is not the one of this listener" in login.text


def test_brokers_that_send_us_astray_are_found_out(
    secured: SecuredKafka, monkeypatch: pytest.MonkeyPatch
) -> None:
    # A busy machine gets the time it needs.
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
