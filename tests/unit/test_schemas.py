"""JSON Schema as structures use it: the library's verdicts, in linear time."""

import json
import re
import time
from decimal import Decimal
from typing import Any

import pytest
from jsonschema import Draft202012Validator

from integration.documents.patterns import BadPattern, matches
from integration.documents.schemas import check_patterns, validator_of
from integration.documents.structures import plan_for, schema_problems
from tests.support.growth import slow_parser

pytestmark = pytest.mark.fast

EVIL = "(a+)+$"
LONG = "a" * 40 + "!"


class Told:
    """A structure as its row would be."""

    name = "s"
    key_paths = ("$.k",)
    version_path = ""
    tombstone = "hold"

    def __init__(self, schema: Any) -> None:
        self.json_schema = schema


def verdict(schema: Any, body: object) -> str | None:
    found = plan_for(Told(schema)).objection(body)
    return None if found is None else found.code


BY_PATTERN = {
    "pattern": {"properties": {"v": {"pattern": EVIL}}},
    "patternProperties": {"patternProperties": {EVIL: False}},
    "additionalProperties": {
        "properties": {"k": True},
        "patternProperties": {EVIL: True},
        "additionalProperties": {"const": 1},
    },
    "unevaluatedProperties": {
        "properties": {"k": True},
        "allOf": [{"patternProperties": {EVIL: True}}],
        "unevaluatedProperties": {"const": 1},
    },
    "propertyNames": {"propertyNames": {"not": {"pattern": EVIL}}},
    "a schema that names its dialect": {
        "$schema": "https://json-schema.org/draft/2020-12/schema",
        "properties": {
            "v": {"$schema": "http://json-schema.org/draft-07/schema#", "pattern": EVIL},
            "w": {"$ref": "#"},
        },
        "patternProperties": {EVIL: False},
    },
}


@pytest.mark.parametrize("keyword", BY_PATTERN)
def test_a_pattern_that_goes_back_answers_at_once(keyword: str) -> None:
    body = {"k": "1", LONG: 1, "w": {"k": "1", LONG: 1}, "v": LONG}
    began = time.process_time()
    verdict(BY_PATTERN[keyword], body)
    assert verdict({"properties": {"v": BY_PATTERN[keyword]}}, {"k": "1", "v": LONG[:-1]}) is None
    assert time.process_time() - began < 1


@pytest.mark.parametrize("text", [lambda n: "a" * n, lambda n: "a" * n + "!", lambda n: "!" * n])
def test_a_pattern_takes_linear_time(text: Any) -> None:
    assert not slow_parser(
        lambda source: matches(EVIL, source.decode()), lambda n: text(n * 10).encode()
    )


MANY: dict[str, tuple[Any, Any]] = {
    "equal objects": ({"uniqueItems": True}, lambda n: [{"a": 1}] * n),
    "objects": ({"uniqueItems": True}, lambda n: [{"a": one} for one in range(n)]),
    "numbers of one hash": (
        {"uniqueItems": True},
        lambda n: [(2**61 - 1) * one for one in range(n)],
    ),
    "values of two kinds": ({"uniqueItems": True}, lambda n: [1, *map(str, range(n))]),
    "unevaluated names": (
        {"patternProperties": {"^k": True}, "unevaluatedProperties": False},
        lambda n: {f"k{one}": 1 for one in range(n)},
    ),
    "unevaluated places": (
        {"contains": {"const": 1}, "unevaluatedItems": False},
        lambda n: [1] * n,
    ),
    "additional names": (
        {"additionalProperties": False},
        lambda n: dict.fromkeys(map(str, range(n))),
    ),
}


@pytest.mark.parametrize("name", MANY)
def test_many_members_take_linear_time(name: str) -> None:
    schema, body = MANY[name]
    validator = validator_of(json.dumps(schema))
    bodies: dict[int, Any] = {}

    def text(n: int) -> bytes:
        bodies[n] = body(n // 10)
        return str(n).encode()

    assert not slow_parser(
        lambda source: next(validator.iter_errors(bodies[int(source)]), None), text
    )


def test_each_level_is_judged_once() -> None:
    """Where a keyword asks again what others have judged, each level doubles the time."""
    schema = {
        "allOf": [{"properties": {"x": {"$ref": "#"}}}],
        "unevaluatedProperties": {"$ref": "#"},
    }
    body: dict[str, Any] = {}
    for _ in range(20):
        body = {"x": body}
    began = time.process_time()
    assert validator_of(json.dumps(schema)).is_valid(body)
    assert time.process_time() - began < 2


# --- what a pattern means -----------------------------------------------------------------------


@pytest.mark.parametrize(
    ("pattern", "text"),
    [
        (r"^\w+$", "Müller"),
        (r"^[\w ]+$", "Größe 1"),
        (r"^\d{3}$", "١٢٣"),
        (r"^\S+$", "a\u00a0b"),
        (r"^[\s\S]*$", "ü\n\u2028"),
        (r"^[^\W\d_]+$", "Übung"),
        (r"^[^\W\d_]+$", "Übung1"),
        (r"^[\W]$", "_"),
        (r"^[^\S]$", "\u00a0"),
        (r"^\D\W$", "ü-"),
        (r"[]a]", "]"),
        (r"[^]a]", "]"),
        (r"a[x[]b", "a[b"),
        (r"[\]]x", "]x"),
        (r"\u0041$", "A"),
        (r"[\u0041-\u0043]", "B"),
        (r"^\x41\Z", "A"),
        (r"^a{,2}$", "aa"),
        (r"^a{,2}$", "aaa"),
        (r"^a\/b\-c_$", "a/b-c_"),
        (r"(?i)^STRASSE$", "strasse"),
        (r"^(?P<site>[A-Z]+)\b", "BER 1"),
        (r"^.$", "\ud83d\ude00"),
        (r"^\w{0,1000}$", "a" * 1_000),
        ("é", "café"),
        ("", ""),
    ],
)
def test_a_pattern_means_what_it_did(pattern: str, text: str) -> None:
    text = text.encode("utf-16", "surrogatepass").decode("utf-16")
    assert matches(pattern, text) == bool(re.search(pattern, text))


def test_half_a_character_is_no_failure() -> None:
    assert matches("^a.$", "a\ud800")
    assert verdict({"properties": {"v": {"pattern": "^b"}}}, {"k": "1", "v": "\ud800"}) is not None


# --- what is refused ----------------------------------------------------------------------------

NOT_LINEAR = ["a(?=b)", "a(?!b)", "(?<=a)b", "(?<!a)b", r"(a)\1", "(?P<n>a)(?P=n)", "a{1001}"]


@pytest.mark.parametrize("pattern", NOT_LINEAR)
def test_what_is_not_linear_is_refused(pattern: str) -> None:
    for schema in (
        {"properties": {"enum": {"items": [{"pattern": pattern}]}}},
        {"$defs": {"pattern": {"patternProperties": {pattern: True}}}},
        {"allOf": [{"propertyNames": {"pattern": pattern}}]},
    ):
        with pytest.raises(BadPattern) as refused:
            check_patterns(schema)
        assert (refused.value.pattern, refused.value.code) == (pattern, "SCHEMA_UNUSABLE")


@pytest.mark.parametrize("pattern", NOT_LINEAR)
def test_what_was_stored_before_is_not_run(pattern: str) -> None:
    schema = {"properties": {"v": {"pattern": pattern}}}
    assert verdict(schema, {"k": "1"}) is None
    assert verdict(schema, {"k": "1", "v": "ab"}) == "SCHEMA_UNUSABLE"
    assert len(schema_problems(schema, {"k": "1", "v": "ab"})) == 1


def test_data_and_names_are_no_patterns() -> None:
    bad = {"pattern": "(?=a)"}
    check_patterns({"const": bad, "enum": [bad], "default": bad, "examples": [bad]})
    check_patterns({"properties": {"pattern": {"type": "string"}, "const": True}})
    check_patterns(True)


# --- the library's verdicts ---------------------------------------------------------------------

SCHEMAS = [
    {"properties": {"a": True}, "patternProperties": {"^x": {"type": "string"}}},
    {"properties": {"a": True}, "patternProperties": {"^x": True}, "additionalProperties": False},
    {"patternProperties": {"1$": True}, "additionalProperties": {"type": "string"}},
    {
        "$defs": {"one": {"properties": {"a": True}}},
        "$ref": "#/$defs/one",
        "unevaluatedProperties": False,
    },
    {
        "if": {"required": ["a"]},
        "then": {"properties": {"a": True}},
        "else": {"patternProperties": {"x": True}},
        "unevaluatedProperties": False,
    },
    {
        "anyOf": [{"properties": {"a": {"const": 1}}}, {"properties": {"x1": True}}],
        "dependentSchemas": {"x1": {"properties": {"b": True}}},
        "unevaluatedProperties": {"type": "string"},
    },
    {
        "oneOf": [{"additionalProperties": {"type": "integer"}}],
        "unevaluatedProperties": False,
    },
    {"prefixItems": [True], "contains": {"const": 1}, "unevaluatedItems": False},
    {"allOf": [{"prefixItems": [True, True]}], "unevaluatedItems": {"type": "integer"}},
    {"allOf": [{"items": True}], "unevaluatedItems": False},
    {"uniqueItems": True},
    {"uniqueItems": False},
]
DOCUMENTS: list[Any] = [
    {},
    {"a": 1},
    {"a": 2, "x1": "s"},
    {"x1": 1, "b": 1},
    {"b": "s"},
    {"x1": "s", "y": "s"},
    {"y1": 1},
    [],
    [1],
    [2, 1],
    [2, 2, 1],
    [1, Decimal("1.0")],
    [1, True],
    [0, False, None, "0"],
    [[1], [1]],
    [{"a": 1, "b": 2}, {"b": 2, "a": Decimal(1)}],
    [{"a": [True]}, {"a": [1]}],
    ["a", "A"],
    "x1",
]


@pytest.mark.parametrize("schema", SCHEMAS)
def test_verdicts_are_those_of_the_library(schema: Any) -> None:
    library, own = Draft202012Validator(schema), validator_of(json.dumps(schema))
    for document in DOCUMENTS:
        assert own.is_valid(document) == library.is_valid(document), document
