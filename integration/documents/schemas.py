"""JSON Schema as structures use it: exact numbers, and linear time whatever a sender writes.

The library's keywords that run a pattern, or look for each value in a list of all of them, are
replaced here; the others are its own.
"""

import json
from collections.abc import Iterator, Mapping
from decimal import Decimal
from itertools import pairwise
from typing import Any, Final, TypeAlias

from jsonschema import Draft202012Validator, TypeChecker, ValidationError
from jsonschema.validators import extend
from referencing import Registry
from referencing.exceptions import Unresolvable

from integration.documents.patterns import BadPattern, check_pattern, matches

Errors = Iterator[ValidationError]
# A document, a schema, or what the library judges with: no type says more of them.
Json: TypeAlias = Any
_NO_OTHERS: Final[Registry[Any]] = Registry()
# What stands below these is data; below the others each name has a schema.
_DATA: Final = frozenset({"const", "enum", "default", "examples"})
_OF_NAMES: Final = frozenset(
    {"properties", "patternProperties", "$defs", "definitions", "dependentSchemas"}
)
# A document meets it, but it is the schema that is to be corrected.
UNUSABLE: Final = (Unresolvable, BadPattern)


def validator_of(text: str) -> Draft202012Validator:
    """What judges documents by the JSON Schema of this text; it raises one of UNUSABLE."""
    # With Decimal, so that bounds and enumerations compare exactly.
    schema = json.loads(text, parse_float=Decimal)
    for one in list(_subschemas(schema)):
        # The library would go on with validators of its own, where a schema names its dialect.
        one.pop("$schema", None)
    # With this registry a reference to another address is never fetched.
    validator: Draft202012Validator = _Validator(schema, registry=_NO_OTHERS)
    return validator


def check_patterns(schema: object) -> None:
    """Compile every pattern of a JSON Schema. Raises BadPattern for the first that cannot be."""
    for one in _subschemas(schema):
        if isinstance(pattern := one.get("pattern"), str):
            check_pattern(pattern)
        for pattern in one.get("patternProperties", {}):
            check_pattern(pattern)


def why_unusable(name: str, error: Exception) -> str:
    """What is to be corrected in the schema of what has this name."""
    if isinstance(error, BadPattern):
        return f"The JSON Schema of {name} has a pattern that is not run. {error}"
    return f"The JSON Schema of {name} refers to another document; put it inside."


def _subschemas(schema: object) -> Iterator[dict[str, Any]]:
    """The schema and all that stand in it."""
    waiting: list[tuple[object, bool]] = [(schema, False)]
    while waiting:
        here, is_of_names = waiting.pop()
        if isinstance(here, list):
            waiting += [(one, False) for one in here]
        elif isinstance(here, dict) and is_of_names:
            waiting += [(one, False) for one in here.values()]
        elif isinstance(here, dict):
            yield here
            waiting += [(one, key in _OF_NAMES) for key, one in here.items() if key not in _DATA]


def _pattern(validator: Json, pattern: str, instance: Json, _: Json) -> Errors:
    if validator.is_type(instance, "string") and not matches(pattern, instance):
        yield ValidationError(f"{instance!r} does not match {pattern!r}")


def _pattern_properties(validator: Json, rules: Json, instance: Json, _: Json) -> Errors:
    if not validator.is_type(instance, "object"):
        return
    for pattern, rule in rules.items():
        for name, value in instance.items():
            if matches(pattern, name):
                yield from validator.descend(value, rule, path=name, schema_path=pattern)


def _additional_properties(validator: Json, rule: Json, instance: Json, schema: Json) -> Errors:
    if not validator.is_type(instance, "object"):
        return
    named = _named(instance, schema)
    extras = [name for name in instance if name not in named]
    if validator.is_type(rule, "object"):
        for name in extras:
            yield from validator.descend(instance[name], rule, path=name)
    elif not rule and extras:
        yield ValidationError(f"Additional properties are not allowed: {_listed(extras)}")


def _unevaluated_properties(validator: Json, rule: Json, instance: Json, schema: Json) -> Errors:
    if validator.is_type(instance, "object"):
        known = _evaluated(validator, instance, _without(schema, "unevaluatedProperties"))
        rest = [name for name in instance if name not in known]
        if extras := [one for one in rest if not _fits(validator, instance[one], rule)]:
            yield ValidationError(f"Unevaluated properties are not allowed: {_listed(extras)}")


def _unevaluated_items(validator: Json, rule: Json, instance: Json, schema: Json) -> Errors:
    if validator.is_type(instance, "array"):
        known = _evaluated(validator, instance, _without(schema, "unevaluatedItems"))
        rest = [item for place, item in enumerate(instance) if place not in known]
        if extras := [one for one in rest if not _fits(validator, one, rule)]:
            yield ValidationError(f"Unevaluated items are not allowed: {_listed(extras)}")


def _unique_items(validator: Json, wanted: Json, instance: Json, _: Json) -> Errors:
    if wanted and validator.is_type(instance, "array"):
        ordered = sorted(map(_sortable, instance))
        if any(one == other for one, other in pairwise(ordered)):
            yield ValidationError(f"{instance!r} has non-unique elements")


def _sortable(value: Json) -> tuple[Json, ...]:
    """What sorts values of all kinds, and is equal where JSON Schema says that they are.

    Sorted and not hashed: a sender can choose numbers that have one hash.
    """
    match value:
        case None:
            return (0,)
        case bool():
            return 1, value
        case str():
            return 3, value
        case list():
            return 4, [_sortable(one) for one in value]
        case dict():
            return 5, sorted((name, _sortable(one)) for name, one in value.items())
        case _:
            return 2, value


def _evaluated(validator: Json, instance: Json, schema: Json) -> set[str | int]:
    """The names, or places, of the instance that the schema has a rule for."""
    if not isinstance(schema, Mapping):
        return set()
    is_object = validator.is_type(instance, "object")
    found = (_known_names if is_object else _known_places)(validator, instance, schema)
    for inner, rule in _in_place(validator, instance, schema):
        found |= _evaluated(inner, instance, rule)
    return found


def _known_names(_: Json, instance: Json, schema: Json) -> set[str | int]:
    if "additionalProperties" in schema or "unevaluatedProperties" in schema:
        return set(instance)
    return _named(instance, schema)


def _known_places(validator: Json, instance: Json, schema: Json) -> set[str | int]:
    if "items" in schema or "unevaluatedItems" in schema:
        return set(range(len(instance)))
    found: set[str | int] = set(range(len(schema.get("prefixItems", ()))))
    if "contains" in schema:
        rule = schema["contains"]
        found.update(at for at, one in enumerate(instance) if _fits(validator, one, rule))
    return found


def _in_place(validator: Json, instance: Json, schema: Json) -> Iterator[tuple[Json, Json]]:
    """The schemas that judge the same instance and count, with their validators.

    Nobody is asked again who has refused the document by itself where it does not fit: asking
    twice at each level of a document doubles the time with each level.
    """
    for keyword in ("$ref", "$dynamicRef"):
        if keyword in schema:
            found = validator._resolver.lookup(schema[keyword])  # noqa: SLF001 - as the library does
            inner = validator.evolve(schema=found.contents, _resolver=found.resolver)
            yield inner, found.contents
    named = schema.get("dependentSchemas", {}) if isinstance(instance, dict) else {}
    rules = [rule for name, rule in named.items() if name in instance]
    rules += schema.get("allOf", ())
    some = [*schema.get("anyOf", ()), *schema.get("oneOf", ())]
    rules += [rule for rule in some if _fits(validator, instance, rule)]
    if "if" in schema:
        holds = _fits(validator, instance, schema["if"])
        rules += [schema["if"], schema.get("then")] if holds else [schema.get("else")]
    yield from ((validator, rule) for rule in rules)


def _fits(validator: Json, instance: Json, rule: Json) -> bool:
    return next(validator.descend(instance, rule), None) is None


def _named(instance: Mapping[str, Json], schema: Json) -> set[str | int]:
    """The names of an object that `properties` or `patternProperties` speak of."""
    known, patterns = schema.get("properties", {}), schema.get("patternProperties", {})
    return {
        name
        for name in instance
        if name in known or any(matches(pattern, name) for pattern in patterns)
    }


def _without(schema: Mapping[str, Json], keyword: str) -> dict[str, Json]:
    return {name: rule for name, rule in schema.items() if name != keyword}


def _listed(extras: list[Json]) -> str:
    return ", ".join(map(repr, extras))


def _is_integer(_checker: TypeChecker, value: object) -> bool:
    """1.0 is an integer for JSON Schema; here it is a Decimal."""
    if isinstance(value, Decimal):
        return value == value.to_integral_value()
    return isinstance(value, int) and not isinstance(value, bool)


_Validator: Final[Any] = extend(  # type: ignore[no-untyped-call]
    Draft202012Validator,
    validators={
        "pattern": _pattern,
        "patternProperties": _pattern_properties,
        "additionalProperties": _additional_properties,
        "unevaluatedProperties": _unevaluated_properties,
        "unevaluatedItems": _unevaluated_items,
        "uniqueItems": _unique_items,
    },
    type_checker=Draft202012Validator.TYPE_CHECKER.redefine("integer", _is_integer),
)
