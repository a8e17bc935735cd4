"""Messages in a registry's format: decoded before handlers, held or waiting where that fails."""

import json
from typing import Any

import pytest

from integration.delivery.outcome import Failed
from integration.delivery.reading import Reader
from integration.delivery.snapshot import QueueSnapshot, Service
from integration.formats.schema import Registered, SchemaKind
from integration.formats.wire import framed
from integration.policy.failure import FailureClass
from tests.support.avro import ORDER, an_avro
from tests.support.deliveries import a_record, a_row, a_taker
from tests.support.memory.schemas import MemorySchemas

pytestmark = pytest.mark.fast

JSON_SCHEMA = {"type": "object", "required": ["n"], "properties": {"n": {"type": "integer"}}}


def some_schemas() -> MemorySchemas:
    return MemorySchemas(
        Registered(
            id=7, kind=SchemaKind.AVRO, text=json.dumps(ORDER), subject="t-value", version=3
        ),
        Registered(id=8, kind=SchemaKind.JSON, text=json.dumps(JSON_SCHEMA), subject="j-value"),
    )


def a_reader(schemas: MemorySchemas | None, expected: str = "", **fields: Any) -> Reader:
    known: dict[str, Any] = {
        "id": 1,
        "name": "q",
        "provider_id": 1,
        "provider_name": "main",
        "topic": "t",
        "sequential": False,
        "default_interface": "X",
        "services": {"X": Service("X", a_taker(), format=expected)},
    }
    return Reader(QueueSnapshot(**(known | fields)), schemas)


def failed(unit: Any) -> tuple[str, str]:
    assert isinstance(unit.known, Failed), unit.known
    return unit.known.failure.kind, unit.known.failure.code


def test_an_avro_message_is_a_document_with_its_own_text():
    record = a_record(value=an_avro({"n": 1, "do": "ok"}))
    [unit] = a_reader(some_schemas()).units([record])
    assert unit.known is None
    assert unit.message.body == {"n": 1, "do": "ok"}
    assert json.loads(unit.message.text) == {"n": 1, "do": "ok"}
    assert unit.schema == (7, "t-value", 3)
    assert unit.interface == "X"
    assert unit.record.value == record.value


def test_headers_name_its_service_and_its_id():
    headers = [("sluice-interface", b"Y"), ("MEAMessageID", b"m-1")]
    record = a_record(value=an_avro({"n": 1, "do": None}), headers=headers)
    [unit] = a_reader(some_schemas(), services={"Y": Service("Y", a_taker())}).units([record])
    assert (unit.interface, unit.message_id) == ("Y", "m-1")


def test_text_beside_it_is_read_as_always():
    records = [a_record(value=b'{"n": 1}'), a_record(11, value=an_avro({"n": 2, "do": None}))]
    units = a_reader(some_schemas()).units(records)
    assert [unit.message.body["n"] for unit in units] == [1, 2]
    assert units[0].schema is None


def test_a_json_schema_message_must_be_valid():
    good, bad = (framed(8, json.dumps(one).encode()) for one in ({"n": 1}, {"n": "1"}))
    units = a_reader(some_schemas()).units([a_record(value=good), a_record(11, value=bad)])
    assert units[0].message.body == {"n": 1}
    assert failed(units[1]) == (FailureClass.PERMANENT, "SCHEMA_VIOLATION")


@pytest.mark.parametrize(
    ("value", "code"),
    [
        (framed(9, b"x"), "SCHEMA_UNKNOWN"),
        (framed(7, b""), "TRUNCATED_ENCODING"),
        (framed(7, b"\x02\x00\x00"), "NOT_BY_SCHEMA"),
        (framed(8, b"{" * 10 * 2**20), "TOO_LARGE"),
    ],
)
def test_what_cannot_be_decoded_is_held_with_its_bytes_and_its_schemas_id(value, code):
    record = a_record(value=value)
    [unit] = a_reader(some_schemas()).units([record])
    assert failed(unit) == (FailureClass.PERMANENT, code)
    assert unit.record.value == value
    assert unit.schema.id == int.from_bytes(value[1:5], "big")


def test_an_absent_registry_stops_at_the_message_and_spends_nothing():
    schemas = some_schemas()
    schemas.is_away = True
    [unit] = a_reader(schemas).units([a_record(value=an_avro({"n": 1, "do": None}))])
    assert failed(unit) == (FailureClass.OUTAGE, "REGISTRY_AWAY")


def test_a_message_that_does_not_fit_has_the_registry_asked_whether_it_was_rebuilt():
    schemas = some_schemas()
    reader = a_reader(schemas)
    reader.units([a_record(value=an_avro({"n": 1, "do": None}))])
    schemas.registered[7] = Registered(id=7, kind=SchemaKind.AVRO, text='"string"')
    [unit] = reader.units([a_record(11, value=framed(7, b"\x06abc"))])
    assert failed(unit) == (FailureClass.PERMANENT, "SCHEMA_CHANGED")


def test_without_a_registry_the_message_says_so():
    [unit] = a_reader(None).units([a_record(value=an_avro({"n": 1, "do": None}))])
    assert failed(unit) == (FailureClass.PERMANENT, "NO_REGISTRY")


@pytest.mark.parametrize("value", ['{"n": 1}'.encode("utf-16-be"), b"\0" * 20])
def test_other_texts_that_begin_with_a_zero_byte_keep_their_codes(value):
    [unit] = a_reader(some_schemas()).units([a_record(value=value)])
    assert failed(unit)[1] in {"UTF16", "NUL_CHARACTER"}


@pytest.mark.parametrize(
    ("expected", "value", "fits"),
    [
        ("avro", an_avro({"n": 1, "do": None}), True),
        ("avro", b'{"n": 1}', False),
        ("avro", framed(8, b'{"n": 1}'), False),
        ("json_schema", framed(8, b'{"n": 1}'), True),
        ("protobuf", framed(8, b'{"n": 1}'), False),
        ("text", an_avro({"n": 1, "do": None}), False),
        ("text", b'{"n": 1}', True),
        ("text", b"<a/>", True),
    ],
)
def test_a_service_may_insist_on_a_format(expected, value, fits):
    [unit] = a_reader(some_schemas(), expected).units([a_record(value=value)])
    if fits:
        assert unit.known is None
    else:
        assert failed(unit) == (FailureClass.PERMANENT, "FORMAT_MISMATCH")


def test_nobody_is_asked_while_records_are_read_ahead():
    schemas = some_schemas()
    reader = a_reader(schemas)
    avro = an_avro({"n": 1, "do": None})
    records = [a_record(10, value=b"{}"), a_record(11, value=avro), a_record(12, value=b"{}")]
    reader.read_ahead(records)
    assert schemas.asked == 0
    assert [record.ahead is not None for record in records] == [False, False, False]
    assert [unit.known for unit in reader.units(records)] == [None, None, None]
    later = [a_record(13, value=avro)]
    reader.read_ahead(later)
    assert later[0].ahead is not None


class Aging(MemorySchemas):
    """Its schemas are at hand `looks` more times."""

    looks = 0

    def at_hand(self, schema_id):
        self.looks -= 1
        return super().at_hand(schema_id) if self.looks >= 0 else None

    def find(self, schema_id, *, anew=False):
        self.asked += 1
        return super().find(schema_id, anew=anew)


@pytest.mark.parametrize("looks", [0, 1, 2, 3])
def test_nobody_is_asked_for_a_schema_that_grows_old_while_records_are_read_ahead(looks):
    schemas = Aging(*some_schemas().registered.values())
    reader = a_reader(schemas)
    reader.units([a_record(10, value=an_avro({"n": 1, "do": None}))])
    asked, schemas.looks = schemas.asked, looks
    record = a_record(11, value=an_avro({"n": 2, "do": None}))
    reader.read_ahead([record])
    assert schemas.asked == asked
    assert (record.ahead is not None) == (looks > 0)
    schemas.looks = 9
    assert [unit.known for unit in reader.units([record])] == [None]


def test_nobody_is_asked_about_a_misfit_while_records_are_read_ahead():
    schemas = some_schemas()
    reader = a_reader(schemas)
    reader.units([a_record(10, value=an_avro({"n": 1, "do": None}))])
    asked = schemas.asked
    records = [a_record(11, value=framed(7, b"\xff")), a_record(12, value=b"{}")]
    reader.read_ahead(records)
    assert schemas.asked == asked
    assert [unit.known is None for unit in reader.units(records)] == [False, True]
    assert schemas.asked > asked


def test_a_failure_is_tried_again_by_the_same_schema():
    row = a_row(record=a_record(5, value=an_avro({"n": 1, "do": None})))
    unit = a_reader(some_schemas()).row_unit(row)
    assert unit.message.body == {"n": 1, "do": None}
    assert unit.schema.id == 7


def test_a_crash_suspect_is_decoded_under_its_marker():
    reader = a_reader(some_schemas())
    unit = reader.unread(a_record(value=an_avro({"n": 1, "do": None})))
    assert unit.message is None
    reader.fill(unit)
    assert unit.message.body == {"n": 1, "do": None}
    assert unit.schema.id == 7
