"""Texts with fields of the message in them, as addresses, headers, file names and columns have.

`{message_id}`, `{interface}`, `{system}` and `{key}` are known of every message; `{$.order.number}`
(JSONPath) and `{/Order/NUMBER}` (XPath) are looked up in its payload; `{payload}` is all of it.
"""

import re
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field
from decimal import Decimal
from typing import Any, ClassVar, Final

from integration.documents.exact_json import encode
from integration.documents.structures import is_xml
from integration.endpoints.codes import EndpointCode
from integration.endpoints.port import OutboundMessage, Refused
from integration.envelope import Flaw, body_of
from integration.errors import IntegrationError
from integration.paths import BadPath, compile_path

KNOWN: Final[Mapping[str, Callable[[OutboundMessage], str]]] = {
    "message_id": lambda message: message.message_id,
    "interface": lambda message: message.interface,
    "system": lambda message: message.system,
    "key": lambda message: message.key,
}
PAYLOAD: Final = "payload"
# A doubled brace stands for itself; a path may hold brackets and quotes, but no brace.
_PART: Final = re.compile(r"\{\{|\}\}|\{([^{}]*)\}|[{}]")
_PLAIN: Final = re.compile(r"\$(?:\.[A-Za-z_]\w*|\['[^'\\]+'\]|\[\d{1,9}\])*", re.ASCII)
_STEPS: Final = re.compile(r"\.(\w+)|\['([^']+)'\]|\[(\d+)\]")
_MISSING: Final = object()


class BadTemplateError(IntegrationError):
    """A template is not written as templates are."""

    code: ClassVar[str] = "BAD_TEMPLATE"

    def __init__(self, reason: str) -> None:
        super().__init__(
            reason,
            next_step="Write fields as {message_id}, {key} or {$.order.number}, and a brace that "
            "stands for itself as {{ or }}.",
        )


class FieldMissingError(IntegrationError):
    """The message does not have a field that a template needs: no endpoint takes it so."""

    code: ClassVar[str] = "FIELD_MISSING"

    def __init__(self, name: str) -> None:
        super().__init__(
            f"The message has no value for {{{name}}}.",
            next_step="Correct the message, or the template of the endpoint.",
        )
        self.answer = Refused(code=EndpointCode.TEMPLATE_FIELD_MISSING, text=str(self))


@dataclass(slots=True)
class Fields:
    """The fields of one message. Its payload is read when the first path asks for it."""

    message: OutboundMessage
    _body: Any = field(default=_MISSING)

    @property
    def body(self) -> Any:
        """JSON as Python has it, the root element of XML, or a Flaw."""
        if self._body is _MISSING:
            self._body = body_of(self.message.body)
        return self._body

    @property
    def flaw(self) -> Flaw | None:
        """The reason why the payload cannot be read; None when it can."""
        return self.body if isinstance(self.body, Flaw) else None


class Field:
    """One field, ready to be looked up. Raises BadTemplateError."""

    __slots__ = ("_find", "name")

    def __init__(self, name: str) -> None:
        self.name = name
        self._find = _finder(name)

    def value(self, fields: Fields) -> Any:
        """Return what the message has there: a scalar, or a JSON object or array; else None."""
        return self._find(fields)


class Template:
    """A text with fields in it, ready for use by several threads. Raises BadTemplateError.

    >>> t = Template("orders/{key}")
    >>> t.filled(Fields(OutboundMessage(message_id="1", interface="PO", system="EAM", body=b"{}",
    ...     content_type="application/json", key="a b")), str.upper)
    'orders/A B'
    """

    __slots__ = ("_parts", "text")

    def __init__(self, text: str) -> None:
        self.text = text
        self._parts: tuple[str | Field, ...] = tuple(_parts(text))

    @property
    def fields(self) -> tuple[Field, ...]:
        return tuple(part for part in self._parts if isinstance(part, Field))

    def filled(self, fields: Fields, written: Callable[[str], str] = str) -> str:
        """The text for one message; each field's value goes through `written`.

        Raises FieldMissingError where a field is missing or empty.
        """
        return "".join(
            part if isinstance(part, str) else written(needed(part, fields)) for part in self._parts
        )

    def value(self, fields: Fields) -> Any:
        """Return what a column gets: a lone field as it is (None if missing), or filled text."""
        if len(self._parts) == 1 and isinstance(self._parts[0], Field):
            return self._parts[0].value(fields)
        return self.filled(fields)


def needed(part: Field, fields: Fields) -> str:
    """A field's value as text. Raises FieldMissingError."""
    text = as_text(part.value(fields))
    if not text:
        raise FieldMissingError(part.name)
    return text


def as_text(value: Any) -> str:
    """Write a value of a payload as texts have it; nothing for None.

    >>> as_text(True), as_text(Decimal("1.50")), as_text(None)
    ('true', '1.50', '')
    """
    if value is None:
        return ""
    if isinstance(value, str):
        return value
    if isinstance(value, Decimal):
        return f"{value:f}"
    return encode(value)


def _parts(text: str) -> Iterator[str | Field]:
    at = 0
    for part in _PART.finditer(text):
        if part.start() > at:
            yield text[at : part.start()]
        at = part.end()
        if part[0] in {"{{", "}}"}:
            yield part[0][0]
        elif part[1] is None:
            raise BadTemplateError(f"There is a lone {part[0]} in it.")
        else:
            yield Field(part[1].strip())
    if at < len(text):
        yield text[at:]


def _finder(name: str) -> Callable[[Fields], Any]:
    if name in KNOWN:
        getter = KNOWN[name]
        return lambda fields: getter(fields.message) or None
    if name == PAYLOAD:
        return lambda fields: fields.message.body.decode("utf-8", "replace")
    if _PLAIN.fullmatch(name):
        steps = [int(s[3]) if s[3] else s[1] or s[2] for s in _STEPS.finditer(name)]
        return lambda fields: _walked(fields.body, steps)
    if not name.startswith(("$", "/")):
        listed = ", ".join((*KNOWN, PAYLOAD))
        raise BadTemplateError(f"“{name[:80]}” is no field; known are {listed} and paths.")
    try:
        path = compile_path(name)
    except BadPath as problem:
        raise BadTemplateError(problem.sentence) from problem
    return lambda fields: path.first(fields.body)


def _walked(body: Any, steps: list[str | int]) -> Any:
    if isinstance(body, Flaw) or is_xml(body):
        return None
    for step in steps:
        body = _inside(body, step)
    return body


def _inside(body: Any, step: str | int) -> Any:
    if isinstance(step, int):
        return body[step] if isinstance(body, list) and step < len(body) else None
    return body.get(step) if isinstance(body, dict) else None
