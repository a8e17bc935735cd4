"""JSON Schema: the record is JSON text behind its header, and must be valid by its schema."""

import json
from typing import Any, Final

from jsonschema import Draft202012Validator, SchemaError

from integration.documents.exact_json import encode
from integration.documents.patterns import BadPattern
from integration.documents.refusals import schema_sentence
from integration.documents.schemas import UNUSABLE, Judge, check_patterns, judge_of, why_unusable
from integration.envelope import Flaw, FlawCode, body_of
from integration.formats.schema import Coders, Misfit, Registered, UnusableSchemaError
from integration.formats.wire import HEADER_BYTES

_NAME: Final = "the message"


def coders(registered: Registered) -> Coders:
    """Return what decodes and what encodes records of this schema. Raises UnusableSchemaError."""
    judge = _judge(registered)

    def decode(record: bytes) -> object:
        document = body_of(record[HEADER_BYTES:])
        if isinstance(document, Flaw):
            return document
        if not isinstance(document, dict | list):
            return Flaw(FlawCode.NOT_BY_SCHEMA, "The document is neither an object nor an array.")
        problem = _problem(judge, document)
        return document if problem is None else Flaw(FlawCode.SCHEMA_VIOLATION, problem)

    def encode_document(document: object, _like: bytes) -> bytes | Misfit:
        problem = _problem(judge, document)
        return Misfit("$", problem) if problem else encode(document).encode()

    return decode, encode_document


def _judge(registered: Registered) -> Judge:
    try:
        schema: Any = json.loads(registered.text)
        if registered.references:
            schema = _with_references(schema, registered.references)
        Draft202012Validator.check_schema(schema)
        check_patterns(schema)
        return judge_of(json.dumps(schema))
    except SchemaError as e:
        place = "/".join(map(str, e.absolute_path)) or "the whole"
        why = f"it is no JSON Schema of draft 2020-12 at {place[:100]}: {e.message[:200]}."
        raise UnusableSchemaError(why) from e
    except (ValueError, RecursionError) as e:
        raise UnusableSchemaError("it is no JSON Schema.") from e
    except BadPattern as e:
        raise UnusableSchemaError(str(e)) from e


def _with_references(schema: Any, references: tuple[tuple[str, str], ...]) -> Any:
    """Put the schemas that it refers to inside, each under the name that it calls it by."""
    if not isinstance(schema, dict):
        return schema
    known = schema.get("$defs", {})
    inside = {name: json.loads(text) for name, text in references}
    if not all(isinstance(one, dict) for one in (known, *inside.values())):
        raise ValueError("a schema that is referred to is no object")
    named = {name: {"$id": name, **one} for name, one in inside.items()}
    return {**schema, "$defs": {**known, **named}}


def _problem(judge: Judge, document: object) -> str | None:
    try:
        errors = judge.errors(document)
    except UNUSABLE as e:
        return why_unusable(_NAME, e)
    return schema_sentence(errors[0])[:1_000] if errors else None
