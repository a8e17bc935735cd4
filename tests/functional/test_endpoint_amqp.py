"""Delivery to a JMS broker, a real one: what its receivers get, and each way it can be refused."""

from datetime import UTC, datetime
from typing import Any

import pytest
from proton import byte

from bench import jms
from devstack import ports
from devstack.artemis import STRANGER
from devstack.certificates import Authority
from integration.amqp.records import arrived
from integration.endpoint_types.opening import opened
from integration.endpoints.port import Accepted, Deliverer, Refused, Unreachable
from integration.tracing.context import trace_id_of
from tests.contract.endpoint_worlds import an_endpoint, an_outbound_message
from tests.support.amqp import Broker

pytestmark = pytest.mark.servers


def at(broker: Broker, **properties: Any) -> Deliverer:
    known = broker.properties(**properties)
    return opened(an_endpoint("amqp", known, password=broker.server.password))


def test_a_text_is_what_a_jms_client_takes_for_one(amqp_broker: Broker) -> None:
    properties = amqp_broker.properties(
        subject="{interface}",
        message_properties={"site": "{$.order.site}", "copy": "{payload}"},
        correlation_id="c-{key}",
        reply_to="answers",
        key_is_group=True,
        priority=7,
        expires_seconds=3_600,
    )
    endpoint = opened(an_endpoint("amqp", properties, password=amqp_broker.server.password))
    body = '{"order": {"site": "Nürnberg"}}'
    sent_at = datetime(2026, 3, 1, 12, tzinfo=UTC)
    message = an_outbound_message("m1", body=body.encode(), key="k1", sent_at=sent_at)
    assert isinstance(endpoint.deliver([message])[0], Accepted)
    endpoint.close()
    (got,) = amqp_broker.received(properties["address"])
    assert (got.id, got.body, got.subject, got.durable, got.priority) == (
        *("m1", body, "ORDERS", True, 7),
    )
    assert (got.group_id, got.correlation_id, got.reply_to) == ("k1", "c-k1", "answers")
    assert got.properties == {"site": "Nürnberg", "copy": body, "_AMQ_DUPL_ID": "m1"}
    assert got.annotations["x-opt-jms-msg-type"] == byte(5)
    assert got.creation_time == sent_at.timestamp()
    assert got.ttl == 3_600


def test_a_trace_goes_with_the_message_in_properties(amqp_broker: Broker) -> None:
    sent = f"00-{'a' * 32}-{'b' * 16}-01"
    properties = amqp_broker.properties()
    endpoint = opened(an_endpoint("amqp", properties, password=amqp_broker.server.password))
    endpoint.deliver([an_outbound_message("m1", headers={"traceparent": sent})])
    endpoint.close()
    (got,) = amqp_broker.received(properties["address"])
    assert got.properties["traceparent"] == sent
    assert trace_id_of(arrived(got.encode(), 0).record.headers or ()) == "a" * 32


def test_bytes_stay_bytes(amqp_broker: Broker) -> None:
    properties = amqp_broker.properties(body="bytes")
    endpoint = opened(an_endpoint("amqp", properties, password=amqp_broker.server.password))
    assert isinstance(endpoint.deliver([an_outbound_message("m1", body=b"\xff\0")])[0], Accepted)
    endpoint.close()
    (got,) = amqp_broker.received(properties["address"])
    assert (bytes(got.body), got.annotations["x-opt-jms-msg-type"]) == (b"\xff\0", byte(3))


def test_each_of_many_is_answered_and_keeps_its_place(amqp_broker: Broker) -> None:
    properties = amqp_broker.properties(at_once=1_000)
    endpoint = opened(an_endpoint("amqp", properties, password=amqp_broker.server.password))
    messages = [an_outbound_message(f"m{number}") for number in range(1_500)]
    for begin in (0, 500, 1_000):
        answers = endpoint.deliver(messages[begin : begin + 500])
        assert all(isinstance(answer, Accepted) for answer in answers)
    endpoint.close()
    # A receiver may have so many at a time.
    ids = [got.id for got in amqp_broker.received(properties["address"])]
    assert ids == [message.message_id for message in messages][: len(ids)]
    assert len(ids) >= 1_000


@pytest.mark.parametrize(
    ("properties", "code"),
    [
        ({"username": "nobody"}, "AMQP_LOGIN_REFUSED"),
        ({"username": STRANGER}, "AMQP_RIGHTS"),
        ({"security": "tls", "connect_seconds": 1}, "CONNECT_TIMEOUT"),
        ({"host": "nowhere.invalid"}, "NAME_NOT_FOUND"),
        ({"private_network": False}, "ADDRESS_REFUSED"),
    ],
)
def test_what_is_wrong_for_all_messages_is_no_fault_of_one(
    amqp_broker: Broker, properties: dict[str, Any], code: str
) -> None:
    endpoint = at(amqp_broker, **properties)
    (answer,) = endpoint.deliver([an_outbound_message("m1")])
    assert (type(answer), answer.code) == (Unreachable, code), answer
    assert endpoint.connect().code == code


def test_a_full_address_is_an_outage(amqp_broker: Broker) -> None:
    endpoint = at(amqp_broker, address="full.orders", at_once=1)
    answers = [endpoint.deliver([an_outbound_message(f"m{n}")])[0] for n in range(4)]
    endpoint.close()
    assert isinstance(answers[0], Accepted)
    assert (type(answers[-1]), answers[-1].code) == (Unreachable, "AMQP_FULL"), answers


def test_a_payload_that_is_no_text_is_refused(amqp_broker: Broker) -> None:
    endpoint = at(amqp_broker)
    (answer,) = endpoint.deliver([an_outbound_message("m1", body=b"\xff")])
    assert (type(answer), answer.code) == (Refused, "PAYLOAD_UNREADABLE")
    endpoint.close()


def test_what_cannot_be_written_is_told_apart_whether_or_not_the_broker_answers(
    amqp_broker: Broker,
) -> None:
    bad = {1, 4}
    messages = [an_outbound_message(f"m{n}", body=b"\xff" if n in bad else b"{}") for n in range(5)]
    for told, place in ((Accepted, {}), (Unreachable, {"port": ports.choose()})):
        endpoint = at(amqp_broker, **place)
        answers = endpoint.deliver(messages)
        assert [type(one) for one in answers] == [Refused if n in bad else told for n in range(5)]
        endpoint.close()


def test_tls_checks_whom_it_talks_to(amqp_broker: Broker) -> None:
    secured = {"port": amqp_broker.tls_port, "security": "tls"}
    ours = amqp_broker.authority.certificate
    endpoint = at(amqp_broker, **secured, ca_certificate=ours)
    assert isinstance(endpoint.deliver([an_outbound_message("m1")])[0], Accepted)
    endpoint.close()
    others = at(amqp_broker, **secured, ca_certificate=Authority("another").certificate)
    assert others.connect().code == "CERTIFICATE_REFUSED"


def test_a_port_where_something_else_answers_is_told(amqp_broker: Broker, servers: Any) -> None:
    port = int(servers.kafka_bootstrap.rpartition(":")[2])
    answer = at(amqp_broker, port=port, connect_seconds=1).connect()
    assert (type(answer), answer.code) in {
        (Unreachable, "AMQP_ENDED"),
        (Unreachable, "CONNECT_TIMEOUT"),
    }
    closed = at(amqp_broker, port=ports.choose()).connect()
    assert (type(closed), closed.code) == (Unreachable, "CONNECTION_FAILED")


def test_a_broker_that_was_killed_has_what_it_took_and_knows_what_was_received(
    amqp_broker: Broker,
) -> None:
    received = amqp_broker.properties()
    assert given_and_taken(amqp_broker, received) == ["m1"]
    properties = amqp_broker.properties(at_once=50)
    endpoint = opened(an_endpoint("amqp", properties, password=amqp_broker.server.password))
    first = [an_outbound_message(f"m{number}") for number in range(50)]
    assert all(isinstance(answer, Accepted) for answer in endpoint.deliver(first))
    amqp_broker.kill()
    (gone,) = endpoint.deliver([an_outbound_message("m50")])
    assert isinstance(gone, Unreachable), gone
    amqp_broker.server.start()
    again = endpoint.deliver([*first[25:], an_outbound_message("m50")])
    assert all(isinstance(answer, Accepted) for answer in again)
    endpoint.close()
    ids = [got.id for got in amqp_broker.received(properties["address"])]
    assert ids == [f"m{number}" for number in range(51)]
    assert given_and_taken(amqp_broker, received) == []


def given_and_taken(broker: Broker, properties: dict[str, Any]) -> list[str]:
    """Deliver the same message once more; what there is to take of it then."""
    endpoint = opened(an_endpoint("amqp", properties, password=broker.server.password))
    assert isinstance(endpoint.deliver([an_outbound_message("m1")])[0], Accepted)
    endpoint.close()
    return jms.taken(broker.server, properties["address"])
