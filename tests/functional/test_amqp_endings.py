"""Each way in which a broker may end a message, a link or a connection, and what that comes to."""

import json
import time
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import pytest
from proton import Message, byte, char, float32, int32, short

from integration.endpoint_types.amqp.endpoint import AmqpEndpoint
from integration.endpoint_types.amqp.messages import Writer
from integration.endpoint_types.amqp.properties import AmqpProperties
from integration.endpoints.port import (
    Accepted,
    Later,
    NotDeliveredError,
    Refused,
    Unknown,
    Unreachable,
)
from tests.contract.endpoint_worlds import an_outbound_message
from tests.support.settling_broker import SettlingBroker


def at(broker: SettlingBroker, **properties: Any) -> AmqpEndpoint:
    known = {
        "host": "127.0.0.1",
        "port": broker.port,
        "private_network": True,
        "address": "orders",
        "subject": "{interface}",
        "at_once": 10,
        "answer_seconds": 1.0,
        "connect_seconds": 2.0,
    }
    return AmqpEndpoint(AmqpProperties(**(known | properties)))


def endings(endpoint: AmqpEndpoint, *wanted: str) -> list[tuple[type, str]]:
    messages = [an_outbound_message(f"m{at}", interface=word) for at, word in enumerate(wanted)]
    return [(type(answer), answer.code) for answer in endpoint.deliver(messages)]


def test_each_message_of_a_call_ends_in_its_own_way() -> None:
    with SettlingBroker() as broker:
        endpoint = at(broker)
        known = {
            "accepted": (Accepted, ""),
            "rejected": (Refused, "AMQP_REJECTED"),
            "latin": (Refused, "AMQP_REJECTED"),
            "released": (Later, "AMQP_RELEASED"),
            "modified": (Later, "AMQP_RELEASED"),
            "faulty": (Later, "AMQP_FAILED"),
            "full": (Unreachable, "AMQP_FULL"),
        }
        assert endings(endpoint, *known, "accepted") == [*known.values(), (Accepted, "")]
        endpoint.close()
    assert broker.ids == ["m0", "m7"]


def test_what_is_larger_than_the_broker_takes_is_refused_and_the_others_arrive() -> None:
    texts = [b"{}", b"x" * 1_000, b"y" * 1_001, b"{}"]
    messages = [
        an_outbound_message(f"m{at}", interface="accepted", body=text)
        for at, text in enumerate(texts)
    ]
    properties = AmqpProperties(host="h", address="orders", subject="{interface}")
    most = len(Writer(properties).encoded(messages[1]))
    with SettlingBroker(most_bytes=most) as broker:
        endpoint = at(broker)
        told = endpoint.deliver(messages)
        endpoint.close()
    assert [one.code for one in told] == ["", "", "AMQP_TOO_LARGE", ""]
    assert isinstance(told[2], Refused)
    assert f"{most + 1:,} bytes, and the broker takes {most:,}" in told[2].text
    assert broker.ids == ["m0", "m1", "m3"]


@pytest.mark.parametrize("wanted", ["settled", "silent", "detached", "ended", "dropped"])
def test_what_the_broker_says_nothing_of_may_have_arrived(wanted: str) -> None:
    with SettlingBroker() as broker:
        endpoint = at(broker)
        began = time.monotonic()
        assert endings(endpoint, "accepted", wanted) == [
            (Accepted, ""),
            (Unknown, "AMQP_NO_ANSWER"),
        ]
        assert time.monotonic() - began < 15
        # Over a connection of its own.
        assert endings(endpoint, "accepted") == [(Accepted, "")]
        endpoint.close()


def test_without_credit_nothing_is_sent() -> None:
    with SettlingBroker(credit=0) as broker:
        endpoint = at(broker)
        assert endings(endpoint, "accepted") == [(Unreachable, "AMQP_FULL")]
        endpoint.close()
    assert not broker.ids


def test_what_there_is_credit_for_is_sent_and_the_rest_waits() -> None:
    with SettlingBroker(credit=2) as broker:
        endpoint = at(broker)
        found = endings(endpoint, "accepted", "accepted", "accepted")
        endpoint.close()
    assert found == [(Accepted, ""), (Accepted, ""), (Unreachable, "AMQP_FULL")]


def test_a_broker_that_takes_its_time_hears_from_us_meanwhile() -> None:
    with SettlingBroker(idle_seconds=6.0, late_seconds=8.0) as broker:
        endpoint = at(broker, answer_seconds=20.0)
        assert endings(endpoint, "late") == [(Accepted, "")]
        endpoint.close()


def test_idle_connections_to_a_broker_that_stands_still_cost_a_call_no_time() -> None:
    with SettlingBroker() as broker:
        endpoint = at(broker, answer_seconds=4.0)
        with ThreadPoolExecutor(6) as threads:
            each = [threads.submit(endings, endpoint, "late") for _ in range(6)]
            assert [one.result() for one in each] == [[(Accepted, "")]] * 6
        broker.frozen.set()
        began = time.monotonic()
        assert endings(endpoint, "accepted") == [(Unknown, "AMQP_NO_ANSWER")]
        assert endings(endpoint, "accepted") == [(Unknown, "AMQP_NO_ANSWER")]
        endpoint.close()
        assert time.monotonic() - began < 2 * (endpoint.within_seconds or 0)


@pytest.mark.parametrize(
    ("properties", "fields"),
    [
        ({"key_is_group": True}, {"key": "a\0b"}),
        ({"subject": "{key}"}, {"key": "a\0b"}),
        ({}, {"message_id": "a\ud800"}),
    ],
)
def test_what_amqp_cannot_carry_is_refused_before_it_is_sent(
    properties: dict[str, Any], fields: dict[str, str]
) -> None:
    with SettlingBroker() as broker:
        endpoint = at(broker, **properties)
        message = an_outbound_message(**({"message_id": "m1"} | fields))
        (answer,) = endpoint.deliver([message])
        endpoint.close()
    assert (type(answer), answer.code) == (Refused, "AMQP_UNWRITABLE")
    assert not broker.ids


ENTRIES = {
    "tiny": ("byte", -1, byte(-1)),
    "small": ("short", 300, short(300)),
    "whole": ("int", 7, int32(7)),
    "share": ("float", 0.25, float32(0.25)),
    "price": ("double", 5, 5.0),
    "letter": ("char", "字", char("字")),
    "raw": ("bytes", "AP8=", b"\x00\xff"),
    "gone": ("short", None, None),
    "far": ("", 7, 7),
    "text": ("no type", "AP8=", "AP8="),
    "odd": (["int"], 7, 7),
}


def given_back(headers: dict[str, str], body: object) -> Any:
    """The body as a receiver gets it; raises NotDeliveredError."""
    message = an_outbound_message("m1", headers=headers, body=json.dumps(body).encode())
    made, writer = Message(), Writer(AmqpProperties(host="h", address="a", restores=True))
    made.decode(writer.encoded(message))
    return made.body


def test_entries_have_the_types_again_that_the_headers_tell() -> None:
    types, values, expected = zip(*ENTRIES.values(), strict=True)
    told = dict(zip(ENTRIES, types, strict=True)) | {"never": "int"}
    headers = {"jms-body": "map", "jms-body-types": json.dumps(told)}
    given = given_back(headers, dict(zip(ENTRIES, values, strict=True)))
    assert given == dict(zip(ENTRIES, expected, strict=True))
    assert type(given.pop("raw")) is memoryview
    assert [type(given[name]) for name in given] == [type(ENTRIES[name][2]) for name in given]


def test_a_stream_has_its_types_again_but_for_bytes_and_unless_its_length_was_changed() -> None:
    types, values, expected = zip(*ENTRIES.values(), strict=True)
    headers = {"jms-body": "stream", "jms-body-types": json.dumps(types)}
    wanted = ["AP8=" if kind == "bytes" else one for kind, one in zip(types, expected, strict=True)]
    given = given_back(headers, values)
    assert [(type(one), one) for one in given] == [(type(one), one) for one in wanted]
    assert [type(one) for one in given_back(headers, [7, *values])][:3] == [int, int, int]


@pytest.mark.parametrize("told", ["hello", "[" * 100_000, "7", "[]", '["int"]'])
def test_types_that_are_none_change_nothing(told: str) -> None:
    headers = {"jms-body": "map", "jms-body-types": told}
    assert given_back(headers, {"a": 7}) == {"a": 7}
    assert given_back(headers | {"jms-body": "stream"}, [7, 7]) == [7, 7]


@pytest.mark.parametrize(
    ("kind", "value"),
    [
        ("short", 70_000),
        ("int", 1.5),
        ("byte", True),
        ("float", "much"),
        ("float", 1e300),
        ("char", "ab"),
        ("char", 7),
        ("bytes", "no Base64"),
        ("bytes", {}),
    ],
)
def test_an_entry_that_is_no_more_of_its_type_is_refused(kind: str, value: object) -> None:
    headers = {"jms-body": "map", "jms-body-types": json.dumps({"a": kind})}
    with pytest.raises(NotDeliveredError) as refused:
        given_back(headers, {"a": value})
    assert refused.value.answer.code == "AMQP_UNWRITABLE"


DEEP = {"jms-body": "map", "JMSType": "accepted"}


@pytest.mark.parametrize(
    ("headers", "body", "told"),
    [
        ({"a": "1", "jms-types": '{"a": ["int"]}'}, b"{}", Accepted),
        ({"jms-types": "[" * 100_000}, b"{}", Accepted),
        ({"jms-types": "hello"}, b"{}", Accepted),
        (DEEP, b"[" * 100_000, Refused),
        (DEEP, b'{"a":' * 600 + b"1" + b"}" * 600, Refused),
    ],
    ids=["type", "deep types", "no types", "deep text", "deep map"],
)
def test_what_cannot_be_given_back_concerns_no_other_message_of_the_call(
    headers: dict[str, str], body: bytes, told: type
) -> None:
    odd = an_outbound_message("m1", interface="accepted", headers=headers, body=body)
    sound = [an_outbound_message(name, interface="accepted") for name in ("m0", "m2")]
    with SettlingBroker() as broker:
        endpoint = at(broker, restores=True)
        answers = endpoint.deliver([sound[0], odd, sound[1]])
        endpoint.close()
    assert [type(answer) for answer in answers] == [Accepted, told, Accepted]
    assert told is Accepted or answers[1].code == "AMQP_UNWRITABLE"
    assert len(broker.ids) == 2 + (told is Accepted)


@pytest.mark.parametrize(("seconds", "ttl"), [(0, 0), (0.0001, 0.001), (4_294_967, 4_294_967)])
def test_a_time_to_live_is_never_rounded_to_none(seconds: float, ttl: float) -> None:
    properties = AmqpProperties(host="h", address="a", expires_seconds=seconds)
    made = Message()
    made.decode(Writer(properties).encoded(an_outbound_message("m1")))
    assert made.ttl == pytest.approx(ttl)


def test_a_login_that_cannot_be_sent_is_told_when_the_endpoint_is_opened() -> None:
    with pytest.raises(ValueError, match="User or password"):
        AmqpEndpoint(AmqpProperties(host="h", address="a", username="u", password="p\0w"))


def test_a_link_that_is_refused_is_told_with_its_reason() -> None:
    with SettlingBroker() as broker:
        endpoint = at(broker, address="none")
        assert endings(endpoint, "accepted") == [(Unreachable, "AMQP_ADDRESS")]
        assert "no such queue" in endpoint.connect().text
        endpoint.close()


@pytest.mark.parametrize("body", ["text", "bytes"])
def test_what_one_message_has_is_not_in_the_next(body: str) -> None:
    own = {"body": body, "key_is_group": True, "message_properties": {"of": "{message_id}"}}
    writer = Writer(AmqpProperties(host="h", address="a", **own))
    full = an_outbound_message("m1", key="k", content_type="text/plain")
    bare = an_outbound_message("m2", key="", content_type="", sent_at=None)
    blank = writer.blank()
    for message in (full, bare, full):
        assert writer.encoded(message, blank) == writer.encoded(message)
