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

    A `secret` text is stored encrypted and shown to nobody; `...` as default makes it required;
    `lines`: a text of several lines.
    """
    known: dict[str, Any] = {} if default is ... else {"default": default}
    said = {"text": text, "least": least, "most": most, "secret": secret, "lines": lines}
    return dataclasses.field(**known, metadata=said)


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
    return Described(
        name=field.name,
        kind=_wanted(hint),
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
    secrets = {field.name for field in dataclasses.fields(kind) if field.metadata.get("secret")}
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
    fields = {field.name: field for field in dataclasses.fields(kind)}
    mistakes = [
        f"There is no parameter {name!r}; known are: {', '.join(fields) or 'none'}."
        for name in sorted(set(raw) - set(fields))
    ]
    hints = get_type_hints(kind)
    values: dict[str, object] = {}
    for name, field in fields.items():
        try:
            if name in raw:
                values[name] = _limited(field, _value(hints[name], _opened(field, raw[name])))
            elif field.default is dataclasses.MISSING:
                mistakes.append(f"{name} is missing: write {_wanted(hints[name])}.")
        except ValueError as e:
            shown = "not shown" if field.metadata.get("secret") else _shown(raw[name])
            mistakes.append(f"{name} is {shown}: {e}.")
    if mistakes:
        raise BadParametersError(mistakes)
    return kind(**values)


def _opened(field: "dataclasses.Field[Any]", raw: object) -> object:
    if isinstance(raw, Mapping) and field.metadata.get("secret") and sealed.is_sealed(raw):
        return sealed.unseal(raw)
    return raw


def _shown(value: object) -> str:
    text = repr(value)
    return text if len(text) <= 60 else f"{text[:60]}…"


def _wanted(hint: Any) -> str:
    optional, plain = _unwrapped(hint)
    if isinstance(plain, type) and issubclass(plain, Enum):
        words = "one of " + ", ".join(str(member.value) for member in plain)
    else:
        words = {str: "text", int: "a whole number", float: "a number", bool: "true or false"}[
            plain
        ]
    return f"{words} or null" if optional else words


def _unwrapped(hint: Any) -> tuple[bool, Any]:
    if get_origin(hint) in (Union, UnionType):
        rest = [part for part in get_args(hint) if part is not NoneType]
        return True, rest[0]
    return False, hint


def _value(hint: Any, raw: object) -> object:
    optional, plain = _unwrapped(hint)
    if raw is None and optional:
        return None
    try:
        if issubclass(plain, Enum):
            return plain(raw)
        return _READERS[plain](raw)
    except (ValueError, TypeError, OverflowError):
        raise ValueError(f"write {_wanted(hint)}") from None


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
    known = {"true": True, "false": False}
    if isinstance(raw, str) and raw.strip().lower() in known:
        return known[raw.strip().lower()]
    if not isinstance(raw, bool):
        raise ValueError  # noqa: TRY004 - every reader refuses in the same way
    return raw


_READERS = {str: _text, int: _whole, float: _number, bool: _truth}


def _limited(field: "dataclasses.Field[Any]", value: object) -> object:
    least, most = field.metadata.get("least"), field.metadata.get("most")
    if isinstance(value, int | float) and not isinstance(value, bool):
        if least is not None and value < least:
            raise ValueError(f"write at least {least:g}")
        if most is not None and value > most:
            raise ValueError(f"write at most {most:g}")
    return value
