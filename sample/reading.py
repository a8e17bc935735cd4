"""One view of a payload, whether the partner wrote JSON or XML."""

from typing import Any

from lxml import etree

from integration.handlers import Message, PermanentError

Fields = dict[str, Any]


def fields_of(message: Message) -> Fields:
    """The payload's fields under lower-case names; a repeated XML element becomes a list.

    Raises PermanentError for a payload that is neither an object nor an element.
    """
    body = message.body
    if isinstance(body, dict):
        return {name.lower(): value for name, value in body.items()}
    if not isinstance(body, etree._Element):  # noqa: SLF001 - lxml's only name for it
        raise PermanentError("The payload is neither an object nor an element.", code="NO_OBJECT")
    # <MXASSET><ASSET>…</ASSET></MXASSET>: the outer element is the message, not the object.
    root = body[0] if len(body) == 1 and len(body[0]) else body
    fields = _element(root)
    return fields if isinstance(fields, dict) else {}


def _element(element: Any) -> Any:
    if not len(element):
        return (element.text or "").strip()
    fields: Fields = {}
    for child in element:
        name = etree.QName(child).localname.lower()
        value = _element(child)
        if name in fields:
            earlier = fields[name]
            fields[name] = [*earlier, value] if isinstance(earlier, list) else [earlier, value]
        else:
            fields[name] = value
    return fields


def need(fields: Fields, name: str) -> Any:
    """A field that has to be there. Raises PermanentError."""
    value = fields.get(name)
    if value is None or value == "":
        raise PermanentError(f"The field {name} is missing.", code="FIELD_MISSING")
    return value


def many(value: Any) -> list[Fields]:
    """A repeatable part as a list: XML cannot tell one from a list of one."""
    if isinstance(value, dict):
        return [value]
    return [part for part in value or [] if isinstance(part, dict)]
