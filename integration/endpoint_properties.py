"""What may stand in the properties of an endpoint: known settings by handler type, no secrets."""

import json
import re
from collections.abc import Callable, Mapping
from types import MappingProxyType
from typing import Any, Final
from urllib.parse import urlsplit

MAX_PROPERTIES: Final = 50
MAX_CHARACTERS: Final = 2_000
NAME: Final = re.compile(r"[A-Za-z][\w.-]{0,79}", re.ASCII)
SECRET: Final = re.compile(
    r"pass(word|wd|phrase)?$|pwd|secret|token|credential|api.?key|private.?key|authori[sz]ation",
    re.IGNORECASE,
)
METHODS: Final = ("POST", "PUT", "PATCH", "GET", "DELETE")
Check = Callable[[Any], str]


def _address(value: Any) -> str:  # noqa: ANN401 - a JSON value
    try:
        parts = urlsplit(value) if isinstance(value, str) else None
    except ValueError:
        parts = None
    if parts is None or parts.scheme not in {"http", "https"} or not parts.hostname:
        return "must be an address that begins with http:// or https:// and names a host"
    return "must not hold a user or password" if "@" in parts.netloc else ""


def _seconds(value: Any) -> str:  # noqa: ANN401 - a JSON value
    is_number = isinstance(value, int | float) and not isinstance(value, bool)
    return "" if is_number and 0 < value <= 3_600 else "must be a number of seconds, up to 3600"


def _method(value: Any) -> str:  # noqa: ANN401 - a JSON value
    return "" if value in METHODS else f"must be one of {', '.join(METHODS)}"


def _text(value: Any) -> str:  # noqa: ANN401 - a JSON value
    return "" if isinstance(value, str) and value.strip() else "must be a text"


def _function(value: Any) -> str:  # noqa: ANN401 - a JSON value
    is_path = isinstance(value, str) and re.fullmatch(r"[A-Za-z_]\w*(\.[A-Za-z_]\w*)+", value)
    return "" if is_path else "must be a function's import path, such as plant.delivery.send"


# By handler type the settings it knows, how each is judged; the first one is needed.
KNOWN: Final[Mapping[str, Mapping[str, Check]]] = MappingProxyType(
    {
        "http": {"url": _address, "method": _method, "timeout_seconds": _seconds},
        "file": {"folder": _text, "file_name": _text},
        "database": {"database": _text, "table": _text},
        "python": {"function": _function},
    }
)


def mistakes(handler_type: str, properties: Any) -> list[str]:  # noqa: ANN401 - what was entered
    """What is wrong with the properties, as sentences; empty when they can be kept."""
    if not isinstance(properties, dict):
        return ["The properties are names with values."]
    if len(properties) > MAX_PROPERTIES:
        return [f"There are more than {MAX_PROPERTIES} properties."]
    found = [told for name, value in properties.items() if (told := _judged(name, value))]
    known = KNOWN.get(handler_type, {})
    needed = next(iter(known), None)
    if needed is not None and needed not in properties:
        found.append(f"{needed} is missing: an endpoint of this type needs it.")
    for name, check in known.items():
        if name in properties and (told := check(properties[name])):
            found.append(f"{name} {told}.")
    return found


def _judged(name: str, value: Any) -> str:  # noqa: ANN401 - a JSON value
    if not NAME.fullmatch(name):
        return f"“{name[:80]}” is no name: letters, digits, . - and _, beginning with a letter."
    if SECRET.search(name):
        return (
            f"{name} looks like a secret, and properties are shown to everybody who sees this "
            "page. Endpoints get their secrets when deliveries come; leave it out until then."
        )
    if len(json.dumps(value)) > MAX_CHARACTERS:
        return f"{name} is longer than {MAX_CHARACTERS:,} characters."
    return ""


def to_lines(properties: Mapping[str, Any]) -> str:
    r"""One `name = value` a line; what would be read as another value is quoted.

    >>> to_lines({"url": "https://a.example/in", "timeout_seconds": 5, "file_name": "7"})
    'url = https://a.example/in\ntimeout_seconds = 5\nfile_name = "7"'
    """
    return "\n".join(f"{name} = {_written(value)}" for name, value in properties.items())


def from_lines(text: str) -> dict[str, Any]:
    r"""The properties that such lines say. Raises ValueError with a sentence.

    >>> from_lines('timeout_seconds = 5\nfile_name = "7"')
    {'timeout_seconds': 5, 'file_name': '7'}
    """
    found: dict[str, Any] = {}
    for line in filter(None, map(str.strip, text.split("\n"))):
        name, sign, value = (part.strip() for part in line.partition("="))
        if not sign or not name:
            raise ValueError(f"“{line[:80]}” is not written as name = value.")
        if name in found:
            raise ValueError(f"{name} is given twice.")
        found[name] = _read(value)
    return found


def _written(value: Any) -> str:  # noqa: ANN401 - a JSON value
    plain = isinstance(value, str) and value == value.strip() and value.isprintable()
    return value if plain and _read(value) == value else json.dumps(value, ensure_ascii=False)


def _read(text: str) -> Any:  # noqa: ANN401 - a JSON value
    try:
        return json.loads(text)
    except (ValueError, RecursionError):
        return text
