"""What is fuzzed: each target reads bytes as the product does, and returns the codes that came.

Whatever it raises is found. Loaded under atheris' instrumentation, and by its own test without.
"""

import re
from collections.abc import Callable, Iterator, Sequence
from datetime import UTC, datetime
from itertools import islice
from pathlib import Path
from typing import Any, Final, NamedTuple

from crontasks.schedule import crontab
from crontasks.schedule.moments import build
from crontasks.schedule.words import in_words
from integration import envelope
from integration.delivery.foreign import foreign_failure
from integration.delivery.outcome import Failed
from integration.delivery.reading import Reader, copied_failure, is_own_copy, retry_marker_of
from integration.delivery.snapshot import QueueSnapshot, Service
from integration.envelope.flaw import Flaw
from integration.errors import IntegrationError
from integration.formats.compiling import compiled
from integration.formats.schema import Misfit, Registered, Schema, SchemaKind
from integration.formats.wire import framed
from integration.handlers.registry import Registration
from integration.paths import compile_path
from integration.values import Record

ROOT: Final = Path(__file__).parents[2]
DOCUMENTED: Final = frozenset(
    code
    for page in ("error-codes.md", "envelope.md")
    for code in re.findall(r"`([A-Z][A-Z0-9_]+)`", (ROOT / "docs" / page).read_text())
)
MOMENTS: Final = 3
NOW: Final = datetime(2026, 2, 28, 23, 59, tzinfo=UTC)


class Target(NamedTuple):
    """`read` takes any bytes and yields codes; `seeds` are inputs to begin with."""

    read: Callable[[bytes], Iterator[str]]
    seeds: Sequence[bytes]


def _envelope(data: bytes) -> Iterator[str]:
    found = envelope.read(data)
    if isinstance(found, Flaw):
        yield found.code


def _taker() -> Registration:
    return Registration("X", lambda _: None, False, False, False, "tests")


READER: Final = Reader(
    QueueSnapshot(
        id=1,
        name="q",
        provider_id=1,
        provider_name="main",
        topic="t",
        sequential=False,
        default_interface="X",
        services={"X": Service("X", _taker()), "DEL": Service("DEL", _taker(), None, True)},
        retry_wrapper=True,
        tracks=True,
    )
)
NAMES: Final = (
    *("sluice-interface", "sluice-user", "sluice-ticket", "sluice-retry", "sluice-cause"),
    *("MEAMessageID", "INTERFACE", "kafka_dlt-original-topic", "kafka_dlt-exception-message"),
    *("kafka_original-topic", "kafka_exception-message", "retry_topic-attempts"),
    *("kafka_dlt-original-partition", "kafka_dlt-original-offset", "__connect.errors.topic"),
    *("__connect.errors.exception.stacktrace", "__connect.errors.partition", "retryCount", "x"),
)


def _headers(data: bytes) -> Iterator[str]:
    """A record: its value up to the first 0xFF, then its headers, each a name's number first."""
    value, *headers = data.split(b"\xff")
    named = [
        (NAMES[one[0] % len(NAMES)], one[1:] if one[0] < 0xF0 else None) for one in headers if one
    ]
    record = Record(0, 7, None, None, value or None, named)
    retry_marker_of(record)
    copied_failure(record)
    is_own_copy(record, "here")
    yield foreign_failure(record).code
    unit = READER.unit(record)
    if isinstance(unit.known, Failed):
        yield unit.known.failure.code


BODY: Final = {"a": [{"b": "1", "c": None}, {"b": 2.5}], "d e": {"f": "x" * 20}, "n": 7}
XML: Final = envelope.read(b"<a x='1'><b>1</b><b>2</b><c xmlns='urn:x'>t</c></a>")


def _paths(data: bytes) -> Iterator[str]:
    try:
        path = compile_path(data.decode("utf-8", "surrogateescape"))
    except IntegrationError as problem:
        yield problem.code
        return
    for body in (BODY, getattr(XML, "body", None)):
        path.first(body)


ORDER: Final = """{"type": "record", "name": "Order", "fields": [
  {"name": "n", "type": "long"}, {"name": "do", "type": ["null", "string"]},
  {"name": "d", "type": {"type": "bytes", "logicalType": "decimal", "precision": 9, "scale": 2}},
  {"name": "at", "type": {"type": "long", "logicalType": "timestamp-micros"}},
  {"name": "a", "type": {"type": "array", "items": ["null", "Order"]}},
  {"name": "m", "type": {"type": "map", "values": "double"}},
  {"name": "e", "type": {"type": "enum", "name": "E", "symbols": ["A", "B"]}}]}"""
JUDGED: Final = """{"type": "object", "required": ["n"], "properties": {
  "n": {"type": "integer", "minimum": 0}, "s": {"type": "string", "pattern": "^[a-z]*$"},
  "l": {"type": "array", "items": {"$ref": "#"}, "maxItems": 9, "uniqueItems": true}},
  "additionalProperties": {"type": ["number", "null", "string"]}}"""
PROTO: Final = """syntax = "proto3"; message Order { int64 n = 1; string s = 2;
  repeated Order lines = 3; map<string, sint32> counts = 4;
  oneof paid { bytes raw = 5; bool b = 6; }
  enum State { UNKNOWN = 0; OPEN = 1; } State state = 7; double share = 8; repeated int32 sizes = 9;
  message Deep { fixed64 f = 1; } Deep deep = 10; }"""
KINDS: Final = (
    (SchemaKind.AVRO, ORDER),
    (SchemaKind.JSON, JUDGED),
    (SchemaKind.PROTOBUF, PROTO),
)
SCHEMAS: Final = [compiled(Registered(id=7, kind=kind, text=text)) for kind, text in KINDS]


def _formats(data: bytes) -> Iterator[str]:
    """The first byte chooses the schema. What was read is written, and read again."""
    schema: Schema = SCHEMAS[data[0] % len(SCHEMAS)] if data else SCHEMAS[0]
    found: Any = schema.decode(framed(7, data[1:]))
    if isinstance(found, Flaw):
        yield found.code
        return
    again = schema.encode(found)
    if not isinstance(again, Misfit):
        read = schema.decode(again)
        assert not isinstance(read, Flaw), f"written as {again.hex()}: {read}"


def _schemas(data: bytes) -> Iterator[str]:
    """The first byte chooses the kind of schema that the rest is the text of."""
    kind = KINDS[data[0] % len(KINDS)][0] if data else SchemaKind.AVRO
    try:
        compiled(Registered(id=7, kind=kind, text=data[1:].decode("utf-8", "replace")))
    except IntegrationError as problem:
        yield problem.code


def _crontab(data: bytes) -> Iterator[str]:
    text = data.decode("utf-8", "replace")
    try:
        crontab.parse(text)
        schedule = build(crontab=text, interval_seconds=None, zone="Europe/Berlin")
    except IntegrationError as problem:
        yield problem.code
        return
    in_words(schedule)
    schedule.latest(NOW)
    list(islice(schedule.following(NOW), MOMENTS))


TARGETS: Final = {
    "envelope": Target(
        _envelope,
        (
            b'{"INTERFACE": "A", "payload": "{\\"a\\": 1.5e3}", "compressed": "0"}',
            b'{"a": [1, -2.50, true, null, "\\u00e9\\ud83d\\ude00"], "b": {}}',
            b"<?xml version='1.0'?><!-- c --><a x='1'>t<b/>&amp;<![CDATA[d]]></a>",
            b'{"compressed": "1", "payload": "eJyrVspUslIqLilSqgUAF4kDmA=="}',
            b"\xef\xbb\xbf[1]",
        ),
    ),
    "headers": Target(
        _headers,
        (
            b'{"a": 1}\xff\x00A\xff\x05id-1\xff\x01MAXADMIN',
            b'{"retryCount": 2, "message": {"a": 1}}\xff\x0d3',
            b"{}\xff\x07orders\xff\x08java.lang.IllegalStateException: no\xff\x09\x00\x00\x00\x01",
            b"\xff\x0226e0bd4e-0c52-4e5c-8a66-3b4a1d1c9a55\xff\x033",
        ),
    ),
    "paths": Target(
        _paths,
        (
            b"$.a[0]['b']",
            b"$..b",
            b"$.a[?(@.b > 1 && @.c == null)].b",
            b"/a/b[2]/text()",
            b"//*[local-name()='c']/@x",
            b"string(/a/b[1])",
        ),
    ),
    "formats": Target(
        _formats,
        (
            bytes.fromhex("000e02047879020580c6a0f5c105020000020261000000000000f03f0002"),
            b'\x01{"n": 1, "s": "ab", "l": [{"n": 2}]}',
            bytes.fromhex("02000807120178220508016106003801"),
        ),
    ),
    "schemas": Target(
        _schemas, tuple(bytes([at]) + text.encode() for at, (_, text) in enumerate(KINDS))
    ),
    "crontab": Target(
        _crontab, (b"*/15 8-17 * * mon-fri", b"0 0 29 feb *", b"59 23 1,15 jan-dec/3 0,7")
    ),
}
