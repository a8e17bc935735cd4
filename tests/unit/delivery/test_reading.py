"""From a record to a unit: retry markers, tombstones, ids, services, rows."""

from typing import Any
from uuid import UUID, uuid4

import pytest

from integration.delivery.outcome import Failed
from integration.delivery.reading import Reader, RetryMarker, retry_marker_headers, retry_marker_of
from integration.delivery.snapshot import QueueSnapshot, Service
from integration.delivery.unit import Unit
from integration.policy.failure import Failure, FailureClass
from tests.support.deliveries import a_record, a_row, a_taker

pytestmark = pytest.mark.fast

ERROR = uuid4()
TAKER = a_taker()


def a_reader(**fields: Any) -> Reader:
    known: dict[str, Any] = {
        "id": 1,
        "name": "q",
        "provider_id": 1,
        "provider_name": "main",
        "topic": "t",
        "sequential": False,
        "default_interface": "X",
        "services": {
            "X": Service("X", TAKER),
            "OFF": Service("OFF", None, Failure(FailureClass.DISABLED, "SERVICE_DISABLED", "Off.")),
            "DEL": Service("DEL", TAKER, None, True),
        },
    }
    return Reader(QueueSnapshot(**(known | fields)))


def code_of(unit: Unit) -> str:
    assert isinstance(unit.known, Failed)
    return unit.known.failure.code


def test_a_retry_marker_names_its_row_and_its_retry():
    record = a_record(value=b"", headers=retry_marker_headers(ERROR, 3, "q"))
    assert retry_marker_of(record) == RetryMarker(ERROR, 3)


@pytest.mark.parametrize(
    ("value", "headers"),
    [
        (b"{}", retry_marker_headers(ERROR, 3, "q")),
        (None, retry_marker_headers(ERROR, 3, "q")),
        (b"", []),
        (b"", None),
        (b"", [("sluice-retry", b"3")]),
        (b"", [("sluice-ticket", None)]),
    ],
)
def test_everything_else_is_an_ordinary_message(value, headers):
    record = a_record(value=value)
    record.headers = headers
    assert retry_marker_of(record) is None


@pytest.mark.parametrize(
    "headers",
    [
        [("sluice-ticket", b"\xff\xfe")],
        [("sluice-ticket", b"not-a-uuid")],
        [("sluice-ticket", str(ERROR).encode()), ("sluice-retry", b"three")],
        [("sluice-ticket", str(ERROR).encode()), ("sluice-retry", b"9" * 5_000)],
        [("sluice-ticket", str(ERROR).encode()), ("sluice-retry", b"2147483648")],
        [("sluice-ticket", str(ERROR).encode()), ("sluice-retry", b"-1")],
    ],
)
def test_a_damaged_retry_marker_points_at_no_row(headers):
    assert retry_marker_of(a_record(value=b"", headers=headers)) == RetryMarker(UUID(int=0), 0)


def test_a_retry_marker_without_a_retry_number_names_none():
    headers = [("sluice-ticket", str(ERROR).encode())]
    assert retry_marker_of(a_record(value=b"", headers=headers)) == RetryMarker(ERROR, 0)


def test_a_record_becomes_a_message_for_the_default_service():
    record = a_record(7, b'{"n": 1}', key=b"k", partition=2)
    unit = a_reader(system="partner").unit(record)
    message = unit.message
    assert message is not None
    assert (unit.taker, unit.known, unit.interface) == (TAKER, None, "X")
    assert unit.message_id == message.message_id == "main~t~2~7"
    assert (unit.at, unit.moves, unit.row) == (7, True, None)
    assert (message.body, message.key, message.system) == ({"n": 1}, b"k", "partner")
    assert message.position == ("t", 2, 7)
    assert (message.attempt, message.late) == (1, False)


@pytest.mark.parametrize(
    ("fields", "headers", "code"),
    [
        ({"default_interface": None}, [], "NO_SERVICE"),
        ({}, [("sluice-interface", b"NOBODY")], "UNKNOWN_SERVICE"),
        ({}, [("sluice-interface", b"OFF")], "SERVICE_DISABLED"),
        ({"system": "s", "system_enabled": False}, [], "SYSTEM_DISABLED"),
    ],
)
def test_who_cannot_take_it_is_known_before_any_handler_runs(fields, headers, code):
    unit = a_reader(**fields).unit(a_record(headers=headers))
    assert code_of(unit) == code
    assert (unit.taker, unit.message) == (None, None)


@pytest.mark.parametrize("value", [b"{", b"\xff", b"", b"   ", b"<a>"])
def test_what_cannot_be_read_is_a_permanent_failure_with_its_position(value):
    unit = a_reader().unit(a_record(9, value))
    assert isinstance(unit.known, Failed)
    assert unit.known.failure.kind is FailureClass.PERMANENT
    assert unit.known.failure.text
    assert unit.message_id == "main~t~0~9"


def test_ids_of_messages_without_one_have_the_generation_of_their_partition():
    reader = Reader(a_reader().queue, generations={0: 2})
    bare, broken, gone = (a_record(9, value) for value in (b'{"a": 1}', b"{", None))
    for record in (bare, broken, gone):
        assert reader.unit(record).message_id == "main~t@2~0~9"
        assert reader.unread(record).message_id == "main~t@2~0~9"
    assert [unit.message_id for unit in reader.units([bare])] == ["main~t@2~0~9"]
    bare.partition = 1
    assert reader.unit(bare).message_id == "main~t~1~9"
    known = reader.row_unit(a_row(message_id="main~t~0~5"))
    assert known.message_id == "main~t~0~5"


def test_a_tombstone_is_held_unless_its_service_deletes():
    reader = a_reader()
    assert code_of(reader.unit(a_record(value=None))) == "TOMBSTONE"
    unit = reader.unit(a_record(value=None, headers=[("sluice-interface", b"DEL")]))
    assert unit.message is not None
    assert (unit.known, unit.taker, unit.message.body) == (None, TAKER, None)
    assert code_of(a_reader(default_interface=None).unit(a_record(value=None))) == "NO_SERVICE"


NAMED = [("MEAMessageID", b"m-1"), ("sluice-interface", b"Z")]


@pytest.mark.parametrize("value", [b"{", b"", b"\xff", None])
def test_headers_name_also_what_cannot_be_read(value):
    """The id and the service are known even where the body tells nothing."""
    unit = a_reader(services={"Z": Service("Z", TAKER)}).unit(a_record(9, value, headers=NAMED))
    assert isinstance(unit.known, Failed)
    assert (unit.message_id, unit.interface) == ("m-1", "Z")


@pytest.mark.parametrize(
    "payload", ['"{"', '"%%%", "compressed": "1"', "null", '"", "compressed": 7']
)
def test_an_envelope_names_also_the_payload_that_cannot_be_read(payload):
    value = f'{{"INTERFACE": "Z", "MEAMessageID": "m-1", "payload": {payload}}}'.encode()
    unit = a_reader().unit(a_record(9, value))
    assert isinstance(unit.known, Failed)
    assert (unit.message_id, unit.interface) == ("m-1", "Z")


def test_our_own_header_names_win_over_the_founding_ones_whatever_their_case():
    headers = [
        ("Sluice-Message-Id", b"ours"),
        ("interface", b"DEL"),
        ("MEAMESSAGEID", b"theirs"),
    ]
    unit = a_reader().unit(a_record(9, None, headers=headers))
    assert (unit.message_id, unit.interface, unit.taker) == ("ours", "DEL", TAKER)
    assert unit.message is not None
    assert unit.message.message_id == "ours"


@pytest.mark.parametrize("value", [None, b"{", b'{"n": 1}'])
@pytest.mark.parametrize("header", [("INTERFACE", b"a\0b"), ("MEAMessageID", b"m" * 501)])
def test_headers_that_are_the_flaw_name_nothing(value, header):
    """What they would have named must not be guessed: a default may delete on tombstones."""
    headers = [("sluice-interface", b"DEL"), header]
    unit = a_reader(default_interface="DEL").unit(a_record(9, value, headers=headers))
    assert code_of(unit) == ("TRUNCATED_JSON" if value == b"{" else "BAD_FIELD")
    assert (unit.message_id, unit.interface) == ("main~t~0~9", "")


def test_an_edited_row_keeps_the_id_it_failed_under():
    """What a person changes in the payload must not make another message of it."""
    edited = b'{"INTERFACE": "X", "MEAMessageID": "m-2", "payload": {"n": 1}}'
    unit = a_reader().row_unit(a_row(message_id="m-1", record=a_record(5, edited)))
    assert unit.message is not None
    assert (unit.message_id, unit.message.message_id) == ("m-1", "m-1")
    still_flawed = a_row(message_id="m-1", record=a_record(5, b"{"))
    assert a_reader().row_unit(still_flawed).message_id == "m-1"


def test_a_row_that_never_had_an_id_takes_the_one_that_is_read():
    edited = b'{"INTERFACE": "X", "MEAMessageID": "m-2", "payload": {"n": 1}}'
    assert a_reader().row_unit(a_row(message_id="", record=a_record(5, edited))).message_id == "m-2"


def test_a_row_is_read_like_its_record_with_its_own_story():
    row = a_row(attempts=4, late=True, record=a_record(5, b'{"edited": true}'))
    unit = a_reader().row_unit(row)
    assert unit.message is not None
    assert (unit.row, unit.moves, unit.at) == (row, False, 5)
    assert (unit.message.attempt, unit.message.late) == (5, True)
    assert unit.message.body == {"edited": True}


def test_an_unreadable_row_stays_a_failure_of_its_row():
    row = a_row(record=a_record(5, b"{"))
    unit = a_reader().row_unit(row)
    assert isinstance(unit.known, Failed)
    assert unit.row is row
