"""Clusters as companies run them: by SCRAM and by certificate everything works that is granted.

What is not granted, and certificates that nobody should accept, each have their code.
"""

import time
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from typing import NamedTuple
from uuid import uuid4

import pytest

from crontasks.health import flow_set_up
from crontasks.health.checks import check
from crontasks.health.flow import check_flow
from crontasks.problems.asking import providers_away
from integration.delivery.relay.ports import OutgoingRow, Sent
from integration.delivery.relay.steps import unobserved
from integration.kafka import admin, publisher
from integration.kafka.errors import BrokerRightsError
from integration.kafka.examination import Examination, Verdict
from integration.kafka.source import consumer_group
from integration.models import OutboxRow, Provider, Queue, QueuePartition, RelayLease
from integration.runs.queues import run_queue
from integration.runs.relay import publisher_for, run_relay
from integration.selectors.setup.examination import examined, ids_of
from tests.functional.relay_world import nothing_left, put
from tests.support.builders import a_queue
from tests.support.flows import drain, drain_past, effects, standing
from tests.support.kafka_world import Kafka
from tests.support.rows import a_queue_row
from tests.support.secured_kafka import SecuredKafka
from tests.support.unanswered import WHILE_SECONDS, wait_a_moment

pytestmark = [pytest.mark.servers, pytest.mark.django_db(transaction=True)]

WAYS = ("by_scram", "by_certificate")
ENOUGH_SECONDS = 30.0


def let_in(cluster: SecuredKafka, fields: dict[str, str]) -> tuple[Queue, Kafka]:
    """An inbound queue whose provider comes to the cluster with these fields."""
    broker = Kafka(cluster.bootstrap)
    queue = a_queue(broker)
    for name, value in fields.items():
        setattr(queue.provider, name, value)
    queue.provider.save()
    return queue, broker


def commands(found: Examination) -> list[str]:
    every = (finding for section in found.sections for finding in section.findings)
    return [finding.command for finding in every if finding.command]


def told(found: Examination) -> str:
    return " ".join(finding.text for section in found.sections for finding in section.findings)


def grant_all(cluster: SecuredKafka, provider: Provider, *, but: str = "no such option") -> str:
    """Run the commands that are shown; those with a word in them are returned instead."""
    return grant_each(cluster, commands(examined(provider)), but=but)


def grant_each(cluster: SecuredKafka, shown: list[str], *, but: str = "no such option") -> str:
    for command in shown:
        if but not in command:
            cluster.grant(command)
    return " && ".join(command for command in shown if but in command)


def relay(provider: Provider, until: Callable[[], bool]) -> None:
    deadline = time.monotonic() + ENOUGH_SECONDS

    def stop() -> bool:
        assert time.monotonic() < deadline, "the relay did not get there"
        return until()

    run_relay(provider.pk, stop=stop)


def lag_tools_see(broker: Kafka, queue: Queue) -> bool:
    """One more run, that stays until it is so: once a second it commits to a group to be found."""
    Queue.objects.filter(pk=queue.pk).update(stay_seconds=ENOUGH_SECONDS)
    broker.send(queue.topic, [{"n": 3}])
    seen: list[int] = []

    def stop(**_) -> str | None:
        seen.append(broker.committed(consumer_group(queue.name), queue.topic))
        return "seen" if seen[-1] > 0 else None

    run_queue(queue.pk, stop=stop)
    return seen[-1] > 0


@pytest.mark.parametrize("way", WAYS)
def test_everything_works_by_what_the_examination_grants(
    secured_kafka: SecuredKafka, way: str
) -> None:
    """Reading, the group for lag tools, publishing in transactions, questions."""
    queue, broker = let_in(secured_kafka, getattr(secured_kafka, way)())
    provider, out = queue.provider, broker.topic()
    provider.properties = {"compression.type": "zstd", "linger.ms": 0, "delivery.timeout.ms": 9_000}
    provider.save()
    a_queue_row(provider=provider, topic=out, direction="outbound")
    before = examined(provider)
    assert before.verdict is Verdict.REFUSED
    assert before.sections[0].findings[-1].verdict is Verdict.OK, "it lets us in"
    assert admin.reachable(provider).ok, "no right is needed to be let in"
    grant_each(secured_kafka, commands(before))
    every = (one for section in examined(provider).sections for one in section.findings)
    assert [one for one in every if one.refused] == []

    broker.send(queue.topic, [{"n": 1}, {"n": 2}])
    drain_past(queue, 2)
    assert effects() == [1, 2]
    assert lag_tools_see(broker, queue)
    put(provider, b"out", topic=out)
    relay(provider, nothing_left)
    assert [message.value() for message in broker.read_all(out)] == [b"out"]
    assert admin.describe(provider, queue.topic).may_write is False
    assert [link.name for link in check_flow(queue) if link.name == "rights" and not link.ok] == []


CERTIFICATES = (
    ("expired", "BROKER_CERTIFICATE_EXPIRED"),
    ("strange", "BROKER_CERTIFICATE_UNTRUSTED"),
    ("misnamed", "BROKER_CERTIFICATE_NAME"),
    # It asks for one, and gets none.
    ("mutual", "CLIENT_CERTIFICATE"),
)
OURS, PASSWORD = "our certificate", "password"


class Refused(NamedTuple):
    """A provider that is not let in: what its test says, and the flow check."""

    provider: Provider
    test: str
    flow: str


def tried(provider: Provider) -> Refused:
    flow = check("provider", flow_set_up.reachable(provider))
    return Refused(provider, told(examined(provider)), flow.why)


@pytest.fixture(scope="module")
def refused(secured_kafka: SecuredKafka) -> dict[str, Refused]:
    """All who are not let in, tried at once: each is waited for as long as the others."""
    known = {"security_protocol": "SSL", "ca_certificate": secured_kafka.certificate}
    ways = {
        port: {**known, "bootstrap_servers": getattr(secured_kafka, port)}
        for port, _ in CERTIFICATES
    }
    ways[OURS] = secured_kafka.by_certificate(days=-0.1)
    ways[PASSWORD] = {**secured_kafka.by_scram(), "password": "not-it"}
    providers = [Provider(name="plant", **way) for way in ways.values()]
    with pytest.MonkeyPatch.context() as patched, ThreadPoolExecutor(len(ways)) as threads:
        wait_a_moment(patched, WHILE_SECONDS)
        return dict(zip(ways, threads.map(tried, providers), strict=True))


@pytest.mark.parametrize(("port", "code"), CERTIFICATES)
def test_a_fault_of_certificates_is_named_by_the_test_and_the_flow_check(
    refused: dict[str, Refused], port: str, code: str
) -> None:
    assert f"{code}: " in refused[port].test
    assert refused[port].flow.startswith(f"{code}: ")


def test_our_certificate_that_expired_is_told_to_have(refused: dict[str, Refused]) -> None:
    provider, found, _ = refused[OURS]
    assert "CLIENT_CERTIFICATE: " in found
    assert "it expired on" in found
    assert provider.client_key not in found


def test_a_run_meets_a_certificate_as_an_outage_that_costs_no_retry(
    secured_kafka: SecuredKafka, monkeypatch: pytest.MonkeyPatch
) -> None:
    wait_a_moment(monkeypatch, WHILE_SECONDS)
    queue, _ = let_in(
        secured_kafka, {**secured_kafka.by_scram(), "bootstrap_servers": secured_kafka.expired}
    )
    queue.provider.security_protocol = "SSL"
    queue.provider.save()
    assert drain(queue).ending == "OUTAGE"
    assert standing(queue) == (0, "OUTAGE", "KAFKA_CERTIFICATE")
    assert providers_away() == {}, "nothing was noticed beside it"


def test_a_wrong_password_is_no_matter_of_certificates(refused: dict[str, Refused]) -> None:
    _, found, flow = refused[PASSWORD]
    assert flow.startswith("BROKER_REFUSED: ")
    assert "AUTHENTICATION" in found
    assert "not-it" not in found


def test_a_topic_that_may_not_be_read_stops_its_queue_and_is_named(
    secured_kafka: SecuredKafka,
) -> None:
    """The group for lag tools is not granted at all: nothing depends on it."""
    queue, broker = let_in(secured_kafka, secured_kafka.by_certificate())
    (right,) = [one for one in commands(examined(queue.provider)) if queue.topic in one]
    secured_kafka.grant(right.replace("--operation Read ", ""))
    broker.send(queue.topic, [{"n": 1}])
    assert drain(queue).ending == "OUTAGE"
    assert standing(queue) == (0, "OUTAGE", "KAFKA_RIGHTS")
    link = check("rights", flow_set_up.rights(queue))
    assert (link.ok, f"Read on topic {queue.topic}" in link.why) == (False, True)
    assert link.next_step.count("kafka-acls.sh") == 1
    assert next(one.name for one in check_flow(queue) if not one.ok) == "rights"
    secured_kafka.grant(link.next_step.partition(": ")[2])
    QueuePartition.objects.filter(queue=queue).update(resume_at=None)
    drain_past(queue, 1)
    assert effects() == [1]
    assert check("rights", flow_set_up.rights(queue)).ok


@pytest.mark.parametrize("protocol", ["classic", "consumer"])
def test_a_group_that_may_not_be_joined_is_told_until_it_is_granted(
    secured_kafka: SecuredKafka, protocol: str
) -> None:
    queue, broker = let_in(secured_kafka, secured_kafka.by_certificate())
    queue.group_protocol, queue.group_id = protocol, f"plant.{queue.name}"
    queue.save()
    lacking = grant_all(secured_kafka, queue.provider, but=queue.group_id)
    broker.send(queue.topic, [{"n": 1}])
    assert drain(queue).ending == "OUTAGE"
    assert standing(queue) == (0, "OUTAGE", "KAFKA_GROUP")
    link = check("rights", flow_set_up.rights(queue))
    assert link.next_step.endswith(lacking)
    secured_kafka.grant(lacking)
    QueuePartition.objects.filter(queue=queue).update(resume_at=None)
    drain_past(queue, 1)
    assert effects() == [1]
    assert check("rights", flow_set_up.rights(queue)).ok


def test_a_topic_that_may_not_be_written_refuses_its_rows_alone(
    secured_kafka: SecuredKafka,
) -> None:
    queue, broker = let_in(secured_kafka, secured_kafka.by_scram())
    shut, free = broker.topic(), broker.topic()
    outbound = a_queue_row(provider=queue.provider, topic=shut, direction="outbound")
    a_queue_row(provider=queue.provider, topic=free, direction="outbound")
    grant_all(secured_kafka, queue.provider, but=f"--topic {shut}")
    rows = put(queue.provider, b"1", topic=shut) + put(queue.provider, b"2", topic=free)
    relay(queue.provider, nothing_left)
    found = dict(OutboxRow.objects.filter(pk__in=rows).values_list("topic", "dead_code"))
    assert found == {shut: "TOPIC_AUTHORIZATION_FAILED", free: ""}
    assert f"Write on topic {shut}" in check("rights", flow_set_up.rights(outbound)).why


def test_what_kafka_lost_is_looked_up_with_the_right_to_read(secured_kafka: SecuredKafka) -> None:
    queue, broker = let_in(secured_kafka, secured_kafka.by_certificate())
    provider, out = queue.provider, broker.topic()
    a_queue_row(provider=provider, topic=out, direction="outbound")
    grant_all(secured_kafka, provider)
    row = OutgoingRow(1, out, None, None, b"1", ())
    since_ms = time.time_ns() // 1_000_000
    writer = publisher_for(provider.pk, 0)
    writer.open()
    assert writer.publish(uuid4(), [row], lambda: None, unobserved) == Sent()
    writer.abort_hanging([out])
    with pytest.raises(BrokerRightsError, match=f"Read on the topic {out}"):
        writer.there([row], since_ms)
    writer.close()


@pytest.mark.parametrize("option", ["--transactional-id", "--group"])
def test_what_the_relay_lacks_is_told_until_it_is_granted(
    secured_kafka: SecuredKafka, monkeypatch: pytest.MonkeyPatch, option: str
) -> None:
    # A group that may not be used is found out by a question that times out.
    monkeypatch.setattr(publisher, "OPEN_SECONDS", 5.0)
    queue, broker = let_in(secured_kafka, secured_kafka.by_certificate())
    provider, out = queue.provider, broker.topic()
    outbound = a_queue_row(provider=provider, topic=out, direction="outbound")
    lacking = grant_all(secured_kafka, provider, but=f"{option} {ids_of(provider)}")
    put(provider, b"1", topic=out)
    leases = RelayLease.objects.filter(provider=provider)
    relay(provider, leases.exclude(trouble="").exists)
    assert leases.get().trouble.startswith("BROKER_RIGHTS: ")
    link = check("rights", flow_set_up.rights(outbound))
    assert option in link.next_step
    (lease,) = [one for one in check_flow(outbound) if one.name == "lease"]
    assert "BROKER_RIGHTS" in lease.why
    for command in lacking.split(" && "):
        secured_kafka.grant(command)
    relay(provider, nothing_left)
    assert leases.get().trouble == ""
    assert check("rights", flow_set_up.rights(outbound)).ok


def test_a_transaction_that_may_not_last_so_long_is_the_providers_fault(
    secured_kafka: SecuredKafka,
) -> None:
    properties = {"transaction.timeout.ms": 600_001}
    provider = Provider.objects.create(
        name="plant", bootstrap_servers=secured_kafka.bootstrap, properties=properties
    )
    put(provider, b"1")
    leases = RelayLease.objects.filter(provider=provider)
    relay(provider, leases.exclude(trouble="").exists)
    assert leases.get().trouble.startswith("PROVIDER_UNUSABLE: ")
