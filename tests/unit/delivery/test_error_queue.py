"""Error queues on the in-memory fakes: what strangers put there is held, whatever it does."""

import json
from uuid import uuid4

import pytest

from integration.delivery.reading import copy_headers
from integration.formats.schema import Schema, SchemaFacts, SchemaKind
from integration.formats.wire import HEADER_BYTES, framed
from integration.values import Headers
from tests.support.deliveries import a_record
from tests.support.fake_world import Died, FakeWorld

pytestmark = pytest.mark.fast

BY_SPRING = [("kafka_dlt-original-topic", b"orders"), ("kafka_dlt-exception-fqcn", b"a.B")]
SCHEMA_ID = 7
DEPLOYMENT = "sluice"


class Deadly:
    """Schemas by which one body ends the process that reads it."""

    def __init__(self, end: BaseException) -> None:
        self.end = end
        self.schema = Schema(
            facts=SchemaFacts(SCHEMA_ID),
            kind=SchemaKind.AVRO,
            decode=self.decode,
            write_body=lambda _document, _like: b"",
        )

    def decode(self, record: bytes) -> object:
        body = record[HEADER_BYTES:]
        if body == b"deadly":
            raise self.end
        return json.loads(body)

    def at_hand(self, schema_id: int) -> Schema | None:
        return self.schema

    def find(self, schema_id: int, *, anew: bool = False) -> Schema:
        return self.schema


def an_error_queue(**fields: object) -> FakeWorld:
    return FakeWorld(**({"is_error_queue": True, "batch_size": 10} | fields))


@pytest.mark.parametrize("end", [Died(), TypeError("made up")], ids=["dies", "breaks"])
def test_a_record_that_ends_its_reader_is_held_and_its_neighbours_as_always(end):
    world = an_error_queue(crash_limit=2)
    world.schemas = Deadly(end)
    for body in (b'{"n": 0}', b"deadly", b'{"n": 2}'):
        world.topic.append(framed(SCHEMA_ID, body), headers=BY_SPRING)
    ends = 0
    for _ in range(10):
        try:
            world.run()
        except type(end):
            ends += 1
    # Two with the whole batch, two alone under its marker.
    assert ends == 4
    assert world.place().next_offset == 3
    assert [world.row(at).code for at in range(3)] == [
        "DEAD_LETTER",
        "PROCESS_CRASH",
        "DEAD_LETTER",
    ]
    assert {world.row(at).state for at in range(3)} == {"HOLD"}


def test_in_isolation_a_record_keeps_the_id_that_its_content_names():
    world = an_error_queue()
    world.place().unclean_ends, world.place().unclean_offset = 5, 0
    world.place().released = False
    value = b'{"INTERFACE": "ONE", "MEAMessageID": "A-1", "payload": {"n": 1}}'
    world.topic.append(value, headers=BY_SPRING)
    world.run()
    assert (world.row(0).code, world.row(0).message_id) == ("DEAD_LETTER", "A-1")


def a_copy(headers: Headers) -> tuple[bytes, Headers]:
    """A copy of this deployment's, of a message that had these headers."""
    value = b'{"n": 1}'
    return value, copy_headers(a_record(value=value, headers=headers), uuid4(), DEPLOYMENT)


@pytest.mark.parametrize("sequential", [False, True])
def test_a_copy_that_another_application_gave_up_since_is_a_failure_of_its_own(sequential):
    world = an_error_queue(sequential=sequential)
    value, headers = a_copy([("tenant", b"north")])
    world.topic.append(value, headers=[*headers, *BY_SPRING])
    world.run()
    assert (world.row(0).code, world.row(0).state) == ("DEAD_LETTER", "HOLD")


def test_a_copy_of_what_had_been_given_up_before_passes():
    world = an_error_queue()
    value, headers = a_copy(BY_SPRING)
    world.topic.append(value, headers=headers)
    world.topic.append(value, headers=[*headers, ("trace", b"1")])
    world.run()
    assert (world.place().next_offset, world.database.errors) == (2, {})
