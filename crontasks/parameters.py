"""Typed parameters of a cron task: a frozen dataclass filled from JSON, every mistake named."""

import dataclasses
import math
from collections.abc import Mapping
from enum import Enum
from types import NoneType, UnionType
from typing import Any, ClassVar, Protocol, TypeVar, Union, get_args, get_origin, get_type_hints

from crontasks.errors import BadParametersError
from integration import sealed

LONGEST_TEXT = 10_000


class Dataclass(Protocol):
    """Any dataclass: what `dataclasses.fields` needs to see."""

    __dataclass_fields__: ClassVar[dict[str, dataclasses.Field[Any]]]


P = TypeVar("P", bound=Dataclass)


def option(
    default: Any,
    text: str,
    *,
    least: float | None = None,
    most: float | None = None,
    secret: bool = False,
    lines: bool = False,
) -> Any:
    """A parameter with a default, a sentence for the form, and limits for numbers.

    A `secret` text is stored encrypted and never shown; `...` as default makes it required;
    `lines`: a text of several lines.
    """
    default_of: dict[str, Any] = {} if default is ... else {"default": default}
    facts = {"text": text, "least": least, "most": most, "secret": secret, "lines": lines}
    return dataclasses.field(**default_of, metadata=facts)


@dataclasses.dataclass(frozen=True, kw_only=True)
class Described:
    """One parameter as the console shows it: `plain` is its type, `kind` the same in words."""

    name: str
    kind: str
    default: object
    text: str
    plain: type
    least: float | None = None
    most: float | None = None
    is_optional: bool = False
    is_required: bool = False
    is_secret: bool = False
    has_lines: bool = False

    @property
    def label(self) -> str:
        return self.name.replace("_", " ").capitalize()


def describe(kind: type[Dataclass]) -> list[Described]:
    hints = get_type_hints(kind)
    return [_described(field, hints[field.name]) for field in dataclasses.fields(kind)]


def _described(field: "dataclasses.Field[Any]", hint: Any) -> Described:
    optional, plain = _unwrapped(hint)
    is_required = field.default is dataclasses.MISSING
    words = _words(plain)
    return Described(
        name=field.name,
        kind=f"{words} or null" if optional else words,
        default=None if is_required else field.default,
        text=str(field.metadata.get("text", "")),
        plain=plain,
        least=field.metadata.get("least"),
        most=field.metadata.get("most"),
        is_optional=optional,
        is_required=is_required,
        is_secret=bool(field.metadata.get("secret")),
        has_lines=bool(field.metadata.get("lines")),
    )


def sealed_of(kind: type[Dataclass], raw: Mapping[str, object]) -> dict[str, object]:
    """The same values with every secret encrypted, as they are stored and sent to workers."""
    secrets = {field.name for field in describe(kind) if field.is_secret}
    return {
        name: sealed.seal(value) if name in secrets and isinstance(value, str) and value else value
        for name, value in raw.items()
    }


def read(kind: type[P], raw: Mapping[str, object]) -> P:
    """Fill `kind` from JSON values; numbers and truth values may also come as text.

    Raises BadParametersError with every mistake: unknown names, missing ones, wrong types,
    numbers outside their limits.
    """
    if not isinstance(raw, Mapping):
        raise BadParametersError(['Parameters are a JSON object such as {} or {"days": 30}.'])
    fields = {field.name: field for field in describe(kind)}
    mistakes = [
        f"There is no parameter {name!r}; known are: {', '.join(fields) or 'none'}."
        for name in sorted(set(raw) - set(fields))
    ]
    values: dict[str, object] = {}
    for name, field in fields.items():
        try:
            if name in raw:
                values[name] = _limited(field, _value(field, raw[name]))
            elif field.is_required:
                mistakes.append(f"{name} is missing: write {field.kind}.")
        except ValueError as e:
            shown = "not shown" if field.is_secret else _shown(raw[name])
            mistakes.append(f"{name} is {shown}: {e}.")
    if mistakes:
        raise BadParametersError(mistakes)
    return kind(**values)


def _shown(value: object) -> str:
    text = repr(value)
    return text if len(text) <= 60 else f"{text[:60]}…"


def _words(plain: Any) -> str:
    if isinstance(plain, type) and issubclass(plain, Enum):
        return "one of " + ", ".join(str(member.value) for member in plain)
    return {str: "text", int: "a whole number", float: "a number", bool: "true or false"}[plain]


def _unwrapped(hint: Any) -> tuple[bool, Any]:
    if get_origin(hint) in (Union, UnionType):
        rest = [part for part in get_args(hint) if part is not NoneType]
        return True, rest[0]
    return False, hint


def _value(field: Described, raw: object) -> object:
    if field.is_secret and isinstance(raw, Mapping) and sealed.is_sealed(raw):
        raw = sealed.unseal(raw)
    if raw is None and field.is_optional:
        return None
    try:
        return field.plain(raw) if issubclass(field.plain, Enum) else _READERS[field.plain](raw)
    except (ValueError, TypeError, OverflowError):
        raise ValueError(f"write {field.kind}") from None


def _text(raw: object) -> str:
    # The database stores neither NUL nor halves of characters.
    if not isinstance(raw, str) or len(raw) > LONGEST_TEXT or "\0" in raw:
        raise ValueError
    raw.encode()
    return raw


def _whole(raw: object) -> int:
    if isinstance(raw, bool) or not isinstance(raw, int | str) or len(str(raw)) > 20:
        raise ValueError
    return int(raw)


def _number(raw: object) -> float:
    if isinstance(raw, bool) or not isinstance(raw, int | float | str):
        raise ValueError  # noqa: TRY004 - every reader refuses in the same way
    number = float(raw)
    if not math.isfinite(number):
        raise ValueError
    return number


def _truth(raw: object) -> bool:
    words = {"true": True, "false": False}
    if isinstance(raw, str) and raw.strip().lower() in words:
        return words[raw.strip().lower()]
    if not isinstance(raw, bool):
        raise ValueError  # noqa: TRY004 - every reader refuses in the same way
    return raw


_READERS = {str: _text, int: _whole, float: _number, bool: _truth}


def _limited(field: Described, value: object) -> object:
    if isinstance(value, int | float) and not isinstance(value, bool):
        if field.least is not None and value < field.least:
            raise ValueError(f"write at least {field.least:g}")
        if field.most is not None and value > field.most:
            raise ValueError(f"write at most {field.most:g}")
    return value
