"""Stored records read as the engine reads them: by their schema, where a registry's format is."""

from collections.abc import Callable
from typing import NamedTuple

from integration.envelope import Document, Flaw, read, read_unwrapped
from integration.formats.documents import Decoded, decoded
from integration.formats.port import no_registry
from integration.formats.schema import Schema
from integration.formats.wire import schema_id_of
from integration.models import Queue
from integration.policy.failure import Failure
from integration.registries.schemas import schemas_for
from integration.values import Headers

Reading = Callable[[bytes, Headers], Document | Flaw | Failure]
"""What is in a record; a Failure where its schema cannot be had."""


class Written(NamedTuple):
    """A record in a registry's format: its schema, or why there is none; and what it says."""

    schema: Schema | Failure
    content: Decoded | Flaw | Failure


def reading_of(queue: Queue) -> Reading:
    """Return how records of this queue are read for people, without a retry wrapper it has.

    It asks the registry if need be.
    """
    read_plain = plain_reading_of(queue)

    def opened(record: bytes, headers: Headers) -> Document | Flaw | Failure:
        written = written_by_schema(queue, record, headers)
        return read_plain(record, headers) if written is None else written.content

    return opened


def plain_reading_of(queue: Queue) -> Callable[[bytes, Headers], Document | Flaw]:
    """Return how records of this queue are read that are in no registry's format."""
    return read_unwrapped if queue.retry_wrapper else read


def written_by_schema(queue: Queue, record: bytes | None, headers: Headers) -> Written | None:
    """Return what a record in a registry's format says; None for any other record."""
    schema_id = schema_id_of(record)
    if schema_id is None or record is None:
        return None
    schemas = schemas_for(queue.provider, queue.topic)
    if schemas is None:
        lacks = no_registry(queue.provider.name)
        return Written(lacks, lacks)
    schema = schemas.find(schema_id)
    if isinstance(schema, Failure):
        return Written(schema, schema)
    return Written(schema, decoded(schema, record, headers))
