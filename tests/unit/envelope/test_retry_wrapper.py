"""The count of a message's resends, in its wrapper and in a header."""

import json

import pytest
from hypothesis import given
from hypothesis import strategies as st

from integration.delivery.reading import Reader
from integration.delivery.snapshot import QueueSnapshot, Service
from integration.envelope.retry_wrapper import resends, unwrap, with_resends, wrap
from tests.support.deliveries import a_record, a_taker

pytestmark = pytest.mark.fast


def reader(*, retry_wrapper: bool) -> Reader:
    queue = QueueSnapshot(
        id=1,
        name="q",
        provider_id=1,
        provider_name="main",
        topic="t",
        sequential=False,
        default_interface="X",
        services={"X": Service("X", a_taker()), "Y": Service("Y", a_taker())},
        retry_wrapper=retry_wrapper,
    )
    return Reader(queue)


ENVELOPE = {"INTERFACE": "Y", "MEAMessageID": "id-7", "payload": '{"a": 1}'}


@pytest.mark.parametrize(
    ("message", "interface", "body"),
    [
        ('{"a": 1}', "X", {"a": 1}),
        (json.dumps(ENVELOPE), "Y", {"a": 1}),
        (json.dumps(json.dumps({"a": 1})), "X", {"a": 1}),
        ("[1, 2]", "X", [1, 2]),
    ],
)
def test_what_is_wrapped_is_the_message_and_the_count_is_told(message, interface, body):
    value = f'{{"retryCount": 3, "message": {message}}}'.encode()
    [unit] = reader(retry_wrapper=True).units([a_record(value=value)])
    assert unit.message is not None
    assert (unit.interface, unit.message.body, unit.message.resends) == (interface, body, 3)
    assert "retryCount" not in str(unit.message.text)


def test_xml_can_be_wrapped_as_a_text():
    value = json.dumps({"retryCount": 0, "message": "<PO><PONUM>1</PONUM></PO>"}).encode()
    [unit] = reader(retry_wrapper=True).units([a_record(value=value)])
    assert unit.message is not None
    assert unit.message.body.findtext("PONUM") == "1"


@pytest.mark.parametrize(
    "value",
    [
        b'{"a": 1}',
        b'{"retryCount": "1", "message": {}}',
        b'{"retryCount": -1, "message": {}}',
        b'{"retryCount": true, "message": {}}',
        b'{"retryCount": 1, "message": {}, "more": 1}',
        b'{"message": {}}',
    ],
)
def test_what_is_no_wrapper_is_read_as_it_is(value):
    assert unwrap(value) is None
    [unit] = reader(retry_wrapper=True).units([a_record(value=value)])
    assert unit.message is not None
    assert unit.message.body == json.loads(value)


def test_without_the_setting_a_wrapper_is_a_message_like_any():
    [unit] = reader(retry_wrapper=False).units([a_record(value=wrap(b'{"a": 1}', 1))])
    assert unit.message is not None
    assert unit.message.body == {"retryCount": 1, "message": {"a": 1}}
    assert unit.message.resends == 1


def test_what_is_wrapped_and_broken_has_the_flaw_of_what_is_in_it():
    value = json.dumps({"retryCount": 1, "message": "<PO>"}).encode()
    [unit] = reader(retry_wrapper=True).units([a_record(value=value)])
    assert unit.message is None


def test_another_count_leaves_the_message_to_the_letter():
    value = b'{ "message" : {"a": 1.10, "b":"\\u00e9"}, "retryCount" : 7 }'
    again = wrap(value, 8)
    assert unwrap(again) == (8, b'{"a": 1.10, "b":"\\u00e9"}')
    for unwrappable in (b"\xff\xfe", b"a NUL \x00"):
        assert wrap(unwrappable, 1) == unwrappable
    assert resends(again, [("retryCount", b"3")]) == 8


def test_the_header_is_replaced_and_of_both_the_larger_counts():
    headers = with_resends([("a", None), ("retryCount", b"4"), ("retryCount", b"x")], 5)
    assert headers == [("a", None), ("retryCount", b"5")]
    assert resends(b"{}", headers) == 5
    assert resends(None, [("retryCount", b"9" * 40), ("retryCount", None)]) == 0


@given(st.binary(max_size=60) | st.text(max_size=40).map(str.encode), st.integers(0, 10))
def test_wrapping_undoes_unwrapping_whatever_it_is(value, count):
    wrapped = wrap(value, count)
    if wrapped != value:
        opened = unwrap(wrapped)
        assert opened is not None
        assert opened[0] == count
