"""Whether a JSON Schema permits a place in a document: asked of the map before any row is read.

Only what stands plainly in it counts, `properties` with no `additionalProperties`: where a schema
says more by references, conditions or patterns, each row is judged when it is there.
"""

from typing import Any


def missing_field(schema: Any, place: str) -> str | None:
    """The part of a place (names with dots between them) that the schema shuts out, if one is.

    >>> missing_field({"properties": {"a": {}}, "additionalProperties": False}, "b.c")
    'b'
    """
    passed: list[str] = []
    for name in place.split("."):
        passed.append(name)
        if not isinstance(schema, dict):
            return None
        members = schema.get("properties")
        known = members if isinstance(members, dict) else {}
        if name not in known and schema.get("additionalProperties") is False:
            return None if schema.get("patternProperties") else ".".join(passed)
        schema = known.get(name)
    return None
