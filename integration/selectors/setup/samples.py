"""The first draft of a test message: made up of a structure, or copied from a stored message.

It is a beginning for a person to correct, not a promise that the structure takes it.
"""

import inspect
import json
import re
import shlex
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Final
from uuid import UUID

from lxml import etree

from integration.codec import decode_headers
from integration.envelope import Flaw
from integration.masking.mask import PLACEHOLDER
from integration.models import EnterpriseService, MessageError, ObjectStructure
from integration.policy.states import Ended, ErrorState
from integration.registries.reading import plain_reading_of
from integration.selectors.failures.edits import Part, text_of
from integration.selectors.masking.covers import mask_of_error
from integration.selectors.scope import Scope
from integration.selectors.setup.takers import handler_of

PLAIN: Final = re.compile(r"\$((?:\.[A-Za-z_]\w*)+)", re.ASCII)
XML_NAME: Final = r"[A-Za-z_][\w.-]*"
XML_PATH: Final = re.compile(
    rf"(?P<begins>//?)(?P<names>{XML_NAME}(?:/{XML_NAME})*)"
    rf"(?:/(?:@(?P<attribute>{XML_NAME})|text\(\)))?",
    re.ASCII,
)
TEXT: Final = "TEST-1"
# Of a service whose documents nobody has described.
UNKNOWN: Final = {"number": "4711"}
# Deeper or wider ones are left to the person.
DEPTH: Final = 4
MEMBERS: Final = 40
# So many of the newest failures are looked at for one that was applied in the end.
LOOKED_AT: Final = 200
# And so many of these are read: a stored message may be no text, or far too long for a form.
READ: Final = 5


@dataclass(frozen=True, slots=True)
class Sample:
    """A text to begin with; the hint says where it is from, or what to write in its place.

    `source` is the failure whose payload it is, where it is one.
    """

    payload: str
    hint: str = ""
    source: UUID | None = None


def sample_for(service: EnterpriseService | None, scope: Scope, *, may_see: bool) -> Sample:
    """A sample of this service; without a structure, of its stored messages.

    A stored one is shown only to those who `may_see` payloads, and only from queues in `scope`.
    Costs two bounded queries.
    """
    if service is None or service.structure is not None:
        return Sample(sample_of(None if service is None else service.structure))
    if not may_see:
        why = "You do not have the right to see payloads, so no stored message is copied here."
        return Sample("", f"{why} {_to_write(service)}")
    for stored in _candidates(service, scope):
        text = _text(stored)
        if text:
            return Sample(text, _origin(stored) + _to_replace(text), stored.pk)
    why = f"No message of {service.interface} is stored that could be copied here."
    return Sample("", f"{why} {_to_write(service)}")


def _candidates(service: EnterpriseService, scope: Scope) -> list[MessageError]:
    """The newest failures of the service, first those that were applied in the end."""
    failures = MessageError.objects.filter(
        scope.within("queue__system"), interface=service.interface, payload__isnull=False
    ).order_by("-last_failed_at", "id")
    rows = list(failures.values_list("pk", "state", "ended")[:LOOKED_AT])
    rows.sort(key=lambda row: not _is_applied(row[1], row[2]))
    numbers = [pk for pk, _, _ in rows[:READ]]
    stored = MessageError.objects.select_related("queue").in_bulk(numbers)
    return [stored[pk] for pk in numbers if pk in stored]


def _is_applied(state: str, ended: str) -> bool:
    return (state, ended) == (ErrorState.RESOLVED, Ended.APPLIED)


def _text(stored: MessageError) -> str | None:
    record, headers = stored.current_payload or b"", decode_headers(stored.headers)
    reading = plain_reading_of(stored.queue)
    if isinstance(reading(record, headers), Flaw):
        return None
    return text_of(record, headers, Part.DOCUMENT, reading, mask=mask_of_error(stored))


def _origin(stored: MessageError) -> str:
    begun = f"Copied from a real message in {stored.queue.name}"
    if _is_applied(stored.state, stored.ended):
        return (
            f"{begun} that was applied: change what names its object unless a repeat is harmless."
        )
    return f"{begun} that failed with {stored.code}: correct it, or it will fail again."


def _to_replace(text: str) -> str:
    found = PLACEHOLDER.search(text)
    if found is None:
        return ""
    return f" Values are masked: write a value of your own for each placeholder ({found[0]})."


def _to_write(service: EnterpriseService) -> str:
    handler = handler_of(service.interface)
    if handler is None:
        return "Put a message here as its sender writes it."
    text = (inspect.getdoc(handler.call) or "").partition("\n\n")[0].replace("\n", " ").strip()
    about = f" Its author says: “{text}”" if text else ""
    return f"Put a message here as the handler {handler.origin} takes it.{about}"


def sample_of(structure: ObjectStructure | None, *, is_xml: bool = False) -> str:
    """A document of this structure, else a small one; `is_xml` where no structure says it."""
    if structure is None:
        return "<test>true</test>" if is_xml else json.dumps({"test": True}, indent=2)
    paths = [str(path) for path in structure.key_paths]
    if paths and paths[0].startswith("/"):
        return _xml(paths, structure.version_path)
    return json.dumps(_json(structure, paths), indent=2, ensure_ascii=False)


@dataclass(frozen=True, slots=True)
class Example:
    """The command of a partner that posts to a service, for a shell; `several` is empty for XML."""

    service: str
    content_type: str
    body: str
    several: str


def example_of(interface: str) -> Example:
    """An example of a post to the service of this name; without a structure, any JSON object."""
    name = interface or "SERVICE"
    structure = ObjectStructure.objects.filter(services__interface=name).first()
    text = json.dumps(UNKNOWN) if structure is None else sample_of(structure)
    if text.startswith("<"):
        return Example(name, "application/xml", shlex.quote(text), "")
    body = json.dumps(json.loads(text), ensure_ascii=False)
    return Example(name, "application/json", shlex.quote(body), shlex.quote(f"[{body}, {body}]"))


def _json(structure: ObjectStructure, paths: list[str]) -> dict[str, Any]:
    made = _of_schema(structure.json_schema, DEPTH) if structure.json_schema else {}
    document = made if isinstance(made, dict) else {}
    for path in paths:
        _put(document, path, TEXT)
    if structure.version_path:
        _put(document, structure.version_path, 1)
    return document


def _put(document: dict[str, Any], path: str, value: object) -> None:
    """Set the value where a plain path leads, unless something is there already."""
    plain = PLAIN.fullmatch(path)
    if plain is None:
        return
    *above, last = plain[1].strip(".").split(".")
    place = document
    for name in above:
        inner = place.setdefault(name, {})
        if not isinstance(inner, dict):
            return
        place = inner
    place.setdefault(last, value)


def _of_schema(schema: object, depth: int) -> object:
    """A value of this schema, as far as its plain words tell."""
    if not isinstance(schema, Mapping):
        return TEXT
    for word in ("const", "default"):
        if word in schema:
            return schema[word]
    offered = schema.get("enum") or schema.get("examples")
    if isinstance(offered, list) and offered:
        return offered[0]
    kind = schema.get("type")
    kind = kind[0] if isinstance(kind, list) and kind else kind
    if kind == "object" or "properties" in schema:
        return _object(schema, depth)
    return _scalar(kind, schema, depth)


def _object(schema: Mapping[str, Any], depth: int) -> dict[str, object]:
    members, required = schema.get("properties"), schema.get("required")
    if depth == 0 or not isinstance(required, list):
        return {}
    parts = members if isinstance(members, Mapping) else {}
    return {str(n): _of_schema(parts.get(n), depth - 1) for n in required[:MEMBERS]}


def _scalar(kind: object, schema: Mapping[str, Any], depth: int) -> object:
    match kind:
        case "integer" | "number":
            return schema.get("minimum", 1)
        case "boolean":
            return True
        case "array":
            return [_of_schema(schema.get("items"), depth - 1)] if depth else []
        case "null":
            return None
        case _:
            most = schema.get("maxLength")
            return TEXT[:most] if isinstance(most, int) and most > 0 else TEXT


def _xml(paths: list[str], version_path: str) -> str:
    """One document of all plain paths, which share the elements that they have in common.

    An element with children is no value: a path that leads to one gets no text.
    """
    said = dict.fromkeys(paths, TEXT) | ({version_path: "1"} if version_path else {})
    plain = [(found, text) for path, text in said.items() if (found := XML_PATH.fullmatch(path))]
    if not plain:
        return "<Document/>"
    # What // begins may be anywhere; the root is named by the paths that begin at it.
    plain.sort(key=lambda one: one[0]["begins"] == "//")
    root = etree.Element(plain[0][0]["names"].partition("/")[0])
    ends = [(_element(root, found), found["attribute"], text) for found, text in plain]
    for element, attribute, text in ends:
        if attribute:
            element.set(attribute, text)
        elif not len(element):
            element.text = text
    return etree.tostring(root, encoding="unicode", pretty_print=True).strip()


def _element(root: etree._Element, path: re.Match[str]) -> etree._Element:
    """The element where the path leads, made as far as it is missing."""
    first, *names = path["names"].split("/")
    anywhere = root.iter(first) if path["begins"] == "//" else iter(())
    place = root if first == root.tag else next(anywhere, None)
    if place is None:
        place = etree.SubElement(root, first)
    for name in names:
        child = next((one for one in place if one.tag == name), None)
        place = etree.SubElement(place, name) if child is None else child
    return place
