"""JSON Schema as structures use it: the library's verdicts, in linear time."""

import json
import re
from decimal import Decimal
from typing import Any

import pytest
from jsonschema import Draft202012Validator

from integration.documents.patterns import BadPattern, matches
from integration.documents.schemas import check_patterns, judge_of
from integration.documents.structures import plan_for, schema_problems
from integration.policy.failure import FailureClass
from tests.support.growth import grows, slow_parser

pytestmark = pytest.mark.fast

EVIL = "(a+)+$"


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
def test_a_pattern_that_goes_back_takes_linear_time(keyword: str) -> None:
    def judge(n: int) -> None:
        long = "a" * n + "!"
        verdict(BY_PATTERN[keyword], {"k": "1", long: 1, "w": {"k": "1", long: 1}, "v": long})

    assert not grows(judge, 10)
    assert verdict({"properties": {"v": BY_PATTERN[keyword]}}, {"k": "1", "v": "a" * 40}) is None


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
    judge = judge_of(json.dumps(schema))
    bodies: dict[int, Any] = {}

    def text(n: int) -> bytes:
        bodies[n] = body(n // 10)
        return str(n).encode()

    assert not slow_parser(lambda source: judge.errors(bodies[int(source)]), text)


# Where a keyword asks again what others have judged, each level doubles the time.
AGAIN = {"properties": {"x": {"$ref": "#"}}}
RECURSIVE: dict[str, Any] = {
    "allOf": {"allOf": [AGAIN], "unevaluatedProperties": {"$ref": "#"}},
    "anyOf": {"anyOf": [AGAIN], "unevaluatedProperties": False},
    "anyOf, two of it": {"anyOf": [{**AGAIN, "required": ["y"]}, AGAIN]},
    "oneOf": {"oneOf": [AGAIN], "unevaluatedProperties": False},
    "oneOf, two of it": {"oneOf": [{**AGAIN, "required": ["y"]}, AGAIN]},
    "if": {"if": AGAIN, "then": AGAIN, "unevaluatedProperties": False},
    "not": {"not": {"not": AGAIN}, **AGAIN},
    "dependentSchemas": {"dependentSchemas": {"x": AGAIN}, **AGAIN},
    "patternProperties": {"patternProperties": {"x": {"$ref": "#"}}, **AGAIN},
    "by name": {
        "$defs": {"a": {"$anchor": "a", "anyOf": [{"properties": {"x": {"$ref": "#a"}}}]}},
        "anyOf": [{"$ref": "#a"}, {"$ref": "#/$defs/a"}],
        "unevaluatedProperties": {"$ref": "#a"},
    },
    "$dynamicRef": {
        "$id": "https://schemas.invalid/tree",
        "$dynamicAnchor": "node",
        "anyOf": [{"properties": {"x": {"$dynamicRef": "#node"}}}],
        "unevaluatedProperties": False,
    },
}


def nested(depth: int, last: object) -> Any:
    body = last
    for _ in range(depth):
        body = {"x": body}
    return body


@pytest.mark.parametrize("last", [{}, {"z": 1}], ids=["fits", "has more"])
@pytest.mark.parametrize("name", RECURSIVE)
def test_each_level_is_judged_once(name: str, last: object) -> None:
    judge = judge_of(json.dumps(RECURSIVE[name]))
    assert not grows(lambda depth: judge.errors(nested(depth, last)), 16)


def test_items_are_judged_once() -> None:
    again = {"contains": {"$ref": "#"}, "unevaluatedItems": False}
    judge = judge_of(json.dumps({"anyOf": [{"type": "array", "maxItems": 0}, again]}))

    def body(depth: int) -> Any:
        return [] if depth == 0 else [body(depth - 1)]

    assert not grows(lambda depth: judge.errors(body(depth)), 12)


def test_a_part_that_was_refused_before_says_why_where_it_is() -> None:
    """The first branch has judged it already, in a place where nobody was told."""
    part = {"$defs": {"part": {"properties": {"b": {"type": "string"}}}}}
    here = {"properties": {"a": {"$ref": "#/$defs/part"}}}
    schema = {**part, "anyOf": [here, True], **here}
    found = judge_of(json.dumps(schema)).errors({"a": {"b": {}}}, 5)
    assert [(one.json_path, one.validator) for one in found] == [("$.a.b", "type")]
    elsewhere = {**part, "items": {"$ref": "#/$defs/part"}}
    one: dict[str, Any] = {"b": {}}
    found = judge_of(json.dumps(elsewhere)).errors([one, one, {}], 5)
    assert [one.json_path for one in found] == ["$[0].b", "$[1].b"]


def test_what_was_said_of_one_document_is_not_said_of_the_next() -> None:
    judge = judge_of(json.dumps({"anyOf": [{"properties": {"x": {"const": {"y": 1}}}}]}))
    body = {"x": {"y": 1}}
    assert not judge.errors(body)
    body["x"]["y"] = 2
    assert judge.errors(body)


@pytest.mark.parametrize(
    ("schema", "depth"),
    [
        ({"$ref": "#"}, 1),
        ({"anyOf": [AGAIN], "unevaluatedProperties": False}, 190),
    ],
    ids=["the schema has no end", "the document is deep"],
)
def test_what_is_too_deep_is_held_at_once(schema: Any, depth: int) -> None:
    body = {"k": "1", "x": nested(depth, {})}
    found = plan_for(Told(schema)).objection(body)
    assert found is not None
    assert (found.kind, found.code) == (FailureClass.PERMANENT, "SCHEMA_TOO_DEEP")
    assert len(schema_problems(schema, body)) == 1


@pytest.mark.parametrize(
    ("step", "number", "is_multiple"),
    [
        (0.01, "1e40", True),
        (3, "1e40", False),
        (7, "7" * 100, True),
        (0.01, "0." + "1" * 50, False),
        (1e-300, "1e300", True),
        (1e300, "1e-300", False),
        (0.5, "1.5", True),
        (0.5, "-1.25", False),
    ],
)
def test_a_multiple_is_exact_whatever_its_size(step: float, number: str, is_multiple: bool) -> None:
    value = json.loads(number, parse_float=Decimal)
    told = verdict({"properties": {"v": {"multipleOf": step}}}, {"k": "1", "v": value})
    assert told == (None if is_multiple else "SCHEMA_VIOLATION")


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
        (r"^\w{0,255}$", "a" * 255),
        (r"^\w{0,255}$", "ä" * 256),
        (r"^\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d(\.\d+)?(Z|[+-]\d\d:\d\d)$", "2026-01-01T00:00:00Z"),
        (
            r"(?i)^[0-9a-f]{8}-([0-9a-f]{4}-){3}[0-9a-f]{12}$",
            "0F" * 4 + "-0000" * 3 + "-" + "a" * 12,
        ),
        (r"^[^\s@]{1,64}@[^\s@]{1,255}$", "a@b"),
        (r"^[\w \-.]{1,255}$", "Pumpe 1"),
        (r"^[A-Z0-9_]{1,1000}$", "A" * 1_000),
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
# Linear, but dear: with so many places at once where each character can stand.
TOO_LARGE = [r"^\w{0,1000}$", r"(\w{500}|\w{499}x)y"]


@pytest.mark.parametrize("pattern", NOT_LINEAR + TOO_LARGE)
def test_what_is_not_linear_is_refused(pattern: str) -> None:
    for schema in (
        {"properties": {"enum": {"items": [{"pattern": pattern}]}}},
        {"$defs": {"pattern": {"patternProperties": {pattern: True}}}},
        {"allOf": [{"propertyNames": {"pattern": pattern}}]},
    ):
        with pytest.raises(BadPattern) as refused:
            check_patterns(schema)
        assert (refused.value.pattern, refused.value.code) == (pattern, "SCHEMA_UNUSABLE")


@pytest.mark.parametrize("pattern", NOT_LINEAR + TOO_LARGE)
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
    {"anyOf": [{"required": ["a"]}, {"contains": {"const": 1}}, False]},
    {"oneOf": [{"required": ["a"]}, {"type": "object"}, {"type": "array", "maxItems": 1}]},
    {"not": {"anyOf": [{"required": ["a"]}, {"minItems": 2}]}},
    {"if": {"required": ["b"]}, "then": {"required": ["x1"]}},
    {"if": {"type": "array"}, "else": {"required": ["a"]}},
    {"contains": {"const": 1}, "minContains": 0, "maxContains": 0},
    {"contains": {"type": "number"}, "minContains": 2},
    {"contains": {"type": "number"}, "maxContains": 1},
    {"multipleOf": 2, "items": {"multipleOf": 2}},
    {
        "$defs": {"one": {"$anchor": "one", "type": "array", "items": {"$ref": "#"}}},
        "anyOf": [{"$ref": "#one"}, {"type": ["number", "object"]}],
    },
    {
        "$id": "https://schemas.invalid/list",
        "$ref": "any",
        "$defs": {
            "numbers": {"$dynamicAnchor": "T", "type": ["array", "number"]},
            "any": {
                "$id": "any",
                "items": {"$dynamicRef": "#T"},
                "$defs": {"T": {"$dynamicAnchor": "T"}},
            },
        },
    },
    {"$ref": "https://json-schema.org/draft/2020-12/schema"},
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
    library, own = Draft202012Validator(schema), judge_of(json.dumps(schema))
    for document in DOCUMENTS:
        assert (not own.errors(document)) == library.is_valid(document), document
