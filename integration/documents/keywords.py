"""The keywords of JSON Schema that the library judges otherwise than structures need it.

It runs patterns on Python's engine, looks for each value in a list of all of them, and judges a
part of a document as often as a schema asks: twice at each level doubles the time with each.
"""

from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from contextvars import ContextVar
from decimal import Context, Decimal
from itertools import pairwise
from reprlib import repr as _shown
from typing import Any, Final, TypeAlias

from jsonschema import ValidationError

from integration.documents.patterns import matches

Errors = Iterator[ValidationError]
# A document, a schema, or what the library judges with: no type says more of them.
Json: TypeAlias = Any
# For each part of a document the first that a schema has against it; None where that is nothing.
Judged: TypeAlias = dict[int, ValidationError | None]
_judgements: ContextVar[dict[tuple[int, tuple[str, ...]], Judged]] = ContextVar("judgements")
# What is remembered: to judge other values twice costs little, and they are many.
_DEEP: Final = (dict, list)
# More digits than any quotient of a document's number by a schema's has.
_EXACT: Final = Context(prec=10_000)


@contextmanager
def one_document() -> Iterator[None]:
    """For as long as one document is judged: what is said of its parts is remembered."""
    token = _judgements.set({})
    try:
        yield
    finally:
        _judgements.reset(token)


def _judged(rule: Json, resolver: Json) -> Judged:
    """Return the schema's verdicts so far, for each part of the document by its identity.

    The document and the schema live longer than this, so that an identity means one of them.
    """
    return _judgements.get().setdefault((id(rule), _scope(resolver)), {})


def _scope(resolver: Json) -> tuple[str, ...]:
    """The addresses on which it depends what a $dynamicRef refers to, the outermost first."""
    return tuple(dict.fromkeys(reversed([uri for uri, _ in resolver.dynamic_scope()])))


def _resolver_of(validator: Json) -> Json:
    return validator._resolver  # noqa: SLF001 - as the library does


def _fits(validator: Json, instance: Json, rule: Json) -> bool:
    judged = _judged(rule, _resolver_of(validator))
    if id(instance) in judged:
        return judged[id(instance)] is None
    first = next(validator.descend(instance, rule), None)
    if isinstance(instance, _DEEP):
        judged[id(instance)] = first
    return first is None


def _reference(validator: Json, ref: str, instance: Json, _: Json) -> Errors:
    # Returned, not yielded from: each level of a document has few frames of Python's stack.
    target = _resolver_of(validator).lookup(ref)
    return _once(validator, instance, target.contents, target.resolver)


def _once(validator: Json, instance: Json, rule: Json, resolver: Json) -> Errors:
    """Yield the rule's errors on the instance; where it was judged before, the first alone."""
    judged = _judged(rule, resolver)
    if id(instance) in judged:
        if (errors := judged[id(instance)]) is not None:
            yield ValidationError.create_from(errors)
        return
    first = None
    for error in validator.descend(instance, rule, resolver=resolver):
        if first is None:
            # A copy, because the path of the other one grows on its way up.
            first = ValidationError.create_from(error)
            if isinstance(instance, _DEEP):
                judged[id(instance)] = first
        yield error
    if first is None and isinstance(instance, _DEEP):
        judged[id(instance)] = None


def _any_of(validator: Json, rules: Json, instance: Json, _: Json) -> Errors:
    for rule in rules:
        if _fits(validator, instance, rule):
            return
    yield ValidationError(f"{_shown(instance)} is not valid under any of the given schemas")


def _one_of(validator: Json, rules: Json, instance: Json, _: Json) -> Errors:
    count = 0
    for rule in rules:
        count += _fits(validator, instance, rule)
    if count != 1:
        how = "more than one" if count else "any"
        how = f"is valid under {how}" if count else f"is not valid under {how}"
        yield ValidationError(f"{_shown(instance)} {how} of the given schemas")


def _not(validator: Json, rule: Json, instance: Json, _: Json) -> Errors:
    if _fits(validator, instance, rule):
        yield ValidationError(f"{_shown(instance)} should not be valid under {rule!r}")


def _if(validator: Json, rule: Json, instance: Json, schema: Json) -> Errors:
    branch = "then" if _fits(validator, instance, rule) else "else"
    if branch in schema:
        yield from validator.descend(instance, schema[branch], schema_path=branch)


def _contains(validator: Json, rule: Json, instance: Json, schema: Json) -> Errors:
    if not validator.is_type(instance, "array"):
        return
    count = 0
    for item in instance:
        count += _fits(validator, item, rule)
    least, most = schema.get("minContains", 1), schema.get("maxContains", len(instance))
    if count > most:
        text = f"Too many items match the given schema: {count}, and at most {most} may"
        yield ValidationError(text, validator="maxContains", validator_value=most)
    elif count < least and count:
        text = f"Too few items match the given schema: {count}, and at least {least} have to"
        yield ValidationError(text, validator="minContains", validator_value=least)
    elif count < least:
        yield ValidationError(f"{_shown(instance)} has no item that matches the given schema")


def _multiple_of(validator: Json, step: Json, instance: Json, _: Json) -> Errors:
    if validator.is_type(instance, "number") and _EXACT.remainder(Decimal(instance), Decimal(step)):
        yield ValidationError(f"{instance!r} is not a multiple of {step}")


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
        evaluated = _evaluated(validator, instance, _without(schema, "unevaluatedProperties"))
        rest = [name for name in instance if name not in evaluated]
        if extras := [name for name in rest if not _fits(validator, instance[name], rule)]:
            yield ValidationError(f"Unevaluated properties are not allowed: {_listed(extras)}")


def _unevaluated_items(validator: Json, rule: Json, instance: Json, schema: Json) -> Errors:
    if validator.is_type(instance, "array"):
        evaluated = _evaluated(validator, instance, _without(schema, "unevaluatedItems"))
        rest = [item for place, item in enumerate(instance) if place not in evaluated]
        if extras := [item for item in rest if not _fits(validator, item, rule)]:
            yield ValidationError(f"Unevaluated items are not allowed: {_listed(extras)}")


def _unique_items(validator: Json, wanted: Json, instance: Json, _: Json) -> Errors:
    if wanted and validator.is_type(instance, "array"):
        ordered = sorted(map(_sortable, instance))
        if any(one == other for one, other in pairwise(ordered)):
            yield ValidationError(f"{instance!r} has non-unique elements")


def _sortable(value: Json) -> tuple[Json, ...]:
    """Return what sorts values of all kinds, and is equal where JSON Schema says that they are.

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
            return 4, [_sortable(item) for item in value]
        case dict():
            return 5, sorted((name, _sortable(member)) for name, member in value.items())
        case _:
            return 2, value


def _evaluated(validator: Json, instance: Json, schema: Json) -> set[str | int]:
    """The names, or places, of the instance that the schema has a rule for."""
    evaluate = _known_names if validator.is_type(instance, "object") else _known_places
    evaluated: set[str | int] = set()
    seen = set()
    waiting = [(validator, schema)]
    while waiting:
        here, rule = waiting.pop()
        place = id(rule), _scope(_resolver_of(here))
        if isinstance(rule, Mapping) and place not in seen:
            seen.add(place)
            evaluated |= evaluate(here, instance, rule)
            waiting += _in_place(here, instance, rule)
    return evaluated


def _known_names(_: Json, instance: Json, schema: Json) -> set[str | int]:
    if "additionalProperties" in schema or "unevaluatedProperties" in schema:
        return set(instance)
    return _named(instance, schema)


def _known_places(validator: Json, instance: Json, schema: Json) -> set[str | int]:
    if "items" in schema or "unevaluatedItems" in schema:
        return set(range(len(instance)))
    places: set[str | int] = set(range(len(schema.get("prefixItems", ()))))
    if "contains" in schema:
        rule = schema["contains"]
        places.update(at for at, item in enumerate(instance) if _fits(validator, item, rule))
    return places


def _in_place(validator: Json, instance: Json, schema: Json) -> Iterator[tuple[Json, Json]]:
    """The schemas that judge the same instance and count, with their validators.

    Nobody is asked again who has refused the document by itself where it does not fit; what the
    others have said is remembered.
    """
    for keyword in ("$ref", "$dynamicRef"):
        if keyword in schema:
            target = _resolver_of(validator).lookup(schema[keyword])
            inner = validator.evolve(schema=target.contents, _resolver=target.resolver)
            yield inner, target.contents
    named = schema.get("dependentSchemas", {}) if isinstance(instance, dict) else {}
    rules = [rule for name, rule in named.items() if name in instance]
    rules += schema.get("allOf", ())
    some = [*schema.get("anyOf", ()), *schema.get("oneOf", ())]
    rules += [rule for rule in some if _fits(validator, instance, rule)]
    if "if" in schema:
        holds = _fits(validator, instance, schema["if"])
        rules += [schema["if"], schema.get("then")] if holds else [schema.get("else")]
    yield from ((validator, rule) for rule in rules)


def _named(instance: Mapping[str, Json], schema: Json) -> set[str | int]:
    """The names of an object that `properties` or `patternProperties` speak of."""
    names, patterns = schema.get("properties", {}), schema.get("patternProperties", {})
    return {
        name
        for name in instance
        if name in names or any(matches(pattern, name) for pattern in patterns)
    }


def _without(schema: Mapping[str, Json], keyword: str) -> dict[str, Json]:
    return {name: rule for name, rule in schema.items() if name != keyword}


def _listed(extras: list[Json]) -> str:
    return ", ".join(map(repr, extras))


KEYWORDS: Final[Mapping[str, Any]] = {
    "$ref": _reference,
    "$dynamicRef": _reference,
    "anyOf": _any_of,
    "oneOf": _one_of,
    "not": _not,
    "if": _if,
    "contains": _contains,
    "multipleOf": _multiple_of,
    "pattern": _pattern,
    "patternProperties": _pattern_properties,
    "additionalProperties": _additional_properties,
    "unevaluatedProperties": _unevaluated_properties,
    "unevaluatedItems": _unevaluated_items,
    "uniqueItems": _unique_items,
}
