"""JSON Schema as structures use it: exact numbers, and linear time whatever a sender writes."""

import json
from collections.abc import Iterator
from dataclasses import dataclass
from decimal import Decimal
from itertools import islice
from typing import Any, ClassVar, Final

from jsonschema import Draft202012Validator, TypeChecker, ValidationError
from jsonschema.validators import extend
from referencing import Registry
from referencing.exceptions import Unresolvable

from integration.documents.keywords import KEYWORDS, one_document
from integration.documents.patterns import BadPattern, check_pattern
from integration.errors import IntegrationError

_NO_OTHERS: Final[Registry[Any]] = Registry()
# What stands below these is data; below the others each name has a schema.
_DATA: Final = frozenset({"const", "enum", "default", "examples"})
_OF_NAMES: Final = frozenset(
    {"properties", "patternProperties", "$defs", "definitions", "dependentSchemas"}
)


class TooDeep(IntegrationError):  # noqa: N818 - named after what it is about
    """A document that nests more deeply than its schema can be followed."""

    code: ClassVar[str] = "SCHEMA_TOO_DEEP"

    def __init__(self) -> None:
        super().__init__(
            "The document nests too deeply for it, or the schema refers to itself without end.",
            next_step="Nest the document less deeply, or correct the schema.",
        )


# The schema says neither yes nor no to a document.
UNUSABLE: Final = (Unresolvable, BadPattern, TooDeep)


@dataclass(frozen=True, slots=True)
class Judge:
    """A JSON Schema, compiled; shared by all documents."""

    _validator: Any

    def errors(self, document: object, most: int = 1) -> list[ValidationError]:
        """The first things that the schema has against a document. Raises one of UNUSABLE."""
        try:
            with one_document():
                return list(islice(self._validator.iter_errors(document), most))
        except RecursionError as e:
            raise TooDeep from e
        except BaseException as e:
            # The library's maps are written in Rust: they panic where Python's stack ends in them.
            if type(e).__name__ != "PanicException":
                raise
            raise TooDeep from e


def judge_of(text: str) -> Judge:
    """Return the judge of documents by the JSON Schema of this text."""
    # With Decimal, so that bounds and enumerations compare exactly.
    schema = json.loads(text, parse_float=Decimal)
    for part in list(_subschemas(schema)):
        # The library would go on with validators of its own, where a schema names its dialect.
        part.pop("$schema", None)
    # With this registry a reference to another address is never fetched.
    return Judge(_Validator(schema, registry=_NO_OTHERS))


def check_patterns(schema: object) -> None:
    """Compile every pattern of a JSON Schema. Raises BadPattern for the first that cannot be."""
    for part in _subschemas(schema):
        if isinstance(pattern := part.get("pattern"), str):
            check_pattern(pattern)
        for pattern in part.get("patternProperties", {}):
            check_pattern(pattern)


def code_of(error: Exception) -> str:
    """The stable code of one of UNUSABLE."""
    return error.code if isinstance(error, IntegrationError) else BadPattern.code


def why_unusable(name: str, error: Exception) -> str:
    """Say why the schema of what has this name cannot judge, and what to do."""
    if isinstance(error, BadPattern):
        return f"The JSON Schema of {name} has a pattern that is not run. {error}"
    if isinstance(error, TooDeep):
        return f"The JSON Schema of {name} cannot judge the document. {error}"
    return f"The JSON Schema of {name} refers to another document; put it inside."


def _subschemas(schema: object) -> Iterator[dict[str, Any]]:
    """The schema and all that stand in it."""
    waiting: list[tuple[object, bool]] = [(schema, False)]
    while waiting:
        here, is_of_names = waiting.pop()
        if isinstance(here, list):
            waiting += [(part, False) for part in here]
        elif isinstance(here, dict) and is_of_names:
            waiting += [(part, False) for part in here.values()]
        elif isinstance(here, dict):
            yield here
            waiting += [(part, key in _OF_NAMES) for key, part in here.items() if key not in _DATA]


def _is_integer(_checker: TypeChecker, value: object) -> bool:
    """1.0 is an integer for JSON Schema; here it is a Decimal."""
    if isinstance(value, Decimal):
        return value == value.to_integral_value()
    return isinstance(value, int) and not isinstance(value, bool)


_Validator: Final[Any] = extend(  # type: ignore[no-untyped-call]
    Draft202012Validator,
    validators=dict(KEYWORDS),
    type_checker=Draft202012Validator.TYPE_CHECKER.redefine("integer", _is_integer),
)
