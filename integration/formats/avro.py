"""Avro: a schema compiled into a reader and a writer of records.

The binary format is read here and not by a library: those recurse as deep as the bytes say, in C,
and make as many values as an array claims to have (docs/decisions/0026).
"""

import json
from collections.abc import Callable
from typing import Any, Final

from fastavro import parse_schema
from fastavro.schema import SchemaParseException, UnknownType

from integration.envelope import Flaw, FlawCode
from integration.formats.avro_reading import Readers
from integration.formats.avro_writing import Writers
from integration.formats.limits import TOO_DEEP, allowance_of
from integration.formats.schema import (
    Coders,
    Misfit,
    MisfitError,
    Registered,
    UnreadableError,
    UnusableSchemaError,
)
from integration.formats.wire import HEADER_BYTES

TRUNCATED: Final = Flaw(
    FlawCode.TRUNCATED_ENCODING, "The record ends before its schema says that it is complete."
)
_MARKS: Final = frozenset({"__fastavro_parsed", "__named_schemas"})
_UNPARSED: Final = (
    SchemaParseException,
    UnknownType,
    ValueError,
    KeyError,
    TypeError,
    OverflowError,
)


def coders(registered: Registered) -> Coders:
    """Return what decodes and what encodes records of this schema. Raises UnusableSchemaError."""
    named: dict[str, Any] = {}
    try:
        for _, text in registered.references:
            _parsed(text, named)
        parsed = _parsed(registered.text, named)
        read = Readers(named).of(parsed)
        write = Writers(named).of(parsed)
    except _UNPARSED as e:
        raise UnusableSchemaError(f"it is no valid Avro schema ({_words(e)}).") from e
    except RecursionError as e:
        raise UnusableSchemaError("it nests too deeply.") from e
    return _decoder(read), _encoder(write)


def _parsed(text: str, named: dict[str, Any]) -> Any:
    """Parse a schema. One that bears the library's own marks would be taken unread."""
    return parse_schema(json.loads(text, object_hook=_unmarked), named_schemas=named)


def _unmarked(part: dict[str, Any]) -> dict[str, Any]:
    return {name: member for name, member in part.items() if name not in _MARKS}


def _decoder(read: Callable[..., tuple[object, int]]) -> Callable[[bytes], object]:
    def decode(record: bytes) -> object:
        try:
            document, at = read(record, HEADER_BYTES, allowance_of(record))
        except IndexError:
            return TRUNCATED
        except RecursionError:
            return TOO_DEEP
        except UnreadableError as e:
            return e.flaw
        if at == len(record):
            return document
        message = f"{len(record) - at:,} bytes follow the end of what the schema describes."
        return Flaw(FlawCode.NOT_BY_SCHEMA, message)

    return decode


def _encoder(
    write: Callable[[Any, bytearray], None],
) -> Callable[[object, bytes], bytes | Misfit]:
    def encode(document: object, _like: bytes) -> bytes | Misfit:
        body = bytearray()
        try:
            write(document, body)
        except MisfitError as e:
            return Misfit(f"${e.path}", e.text)
        except RecursionError:
            return Misfit("$", "it nests too deeply.")
        return bytes(body)

    return encode


def _words(problem: Exception) -> str:
    return f"{type(problem).__name__}: {problem}"[:300]
