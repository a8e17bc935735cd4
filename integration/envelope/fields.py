"""The five facts about a message that are not its payload: from the envelope, else the headers."""

from collections.abc import Mapping, Sequence
from typing import Final

from integration.envelope.flaw import Flaw, FlawCode

Headers = Sequence[tuple[str, bytes | None]]
# The order of the values returned below.
FIELDS: Final = ("INTERFACE", "SENDER", "USER", "destination", "MEAMessageID")
# They are stored and indexed; a longer one is an accident. Headers are measured in bytes.
MAX_FIELD_LENGTH: Final = 500
_COUNT: Final = len(FIELDS)
# Our own names win over the founding ones, which lie one count further on. A plain
# `destination` is left alone: too many systems write one with another meaning.
_SLOTS: Final[Mapping[str, int]] = {
    "sluice-interface": 0,
    "sluice-sender": 1,
    "sluice-user": 2,
    "sluice-destination": 3,
    "sluice-message-id": 4,
    "interface": _COUNT,
    "sender": _COUNT + 1,
    "user": _COUNT + 2,
    "meamessageid": _COUNT + 4,
}


def addressed(envelope: Mapping[str, object], headers: Headers | None) -> list[str | None] | Flaw:
    """Return the values of FIELDS, each from the envelope, else from a header, else None."""
    values = addressed_by_headers(headers or ())
    if isinstance(values, Flaw):
        return values
    for position, name in enumerate(FIELDS):
        value = envelope.get(name)
        if value is None or value == "":
            continue
        if type(value) is int:  # an id may well be sent as a number
            value = str(value)
        elif type(value) is not str:
            return Flaw(FlawCode.BAD_FIELD, f"The envelope's {name} is not a text.")
        if len(value) > MAX_FIELD_LENGTH:
            return _too_long(name)
        if "\0" in value:
            return _nul(name)
        values[position] = value
    return values


def addressed_by_headers(headers: Headers) -> list[str | None] | Flaw:
    """Return the values of FIELDS for a body without an envelope; of repeated ones the last."""
    values: list[str | None] = [None] * _COUNT
    founding: dict[int, str] | None = None
    for name, value in headers:
        slot = _SLOTS.get(name.lower())
        if slot is None or not value:
            continue
        if len(value) > MAX_FIELD_LENGTH:
            return _too_long(name)
        if b"\0" in value:
            return _nul(name)
        if slot < _COUNT:
            values[slot] = _text(value)
        else:
            founding = {**(founding or {}), slot - _COUNT: _text(value)}
    if founding:
        return [ours or founding.get(slot) for slot, ours in enumerate(values)]
    return values


def _text(value: bytes) -> str:
    try:
        return value.decode()
    except UnicodeDecodeError:
        return value.decode("latin-1")  # every byte has a meaning there


def _too_long(name: str) -> Flaw:
    return Flaw(FlawCode.BAD_FIELD, f"{name} is longer than {MAX_FIELD_LENGTH} characters.")


def _nul(name: str) -> Flaw:
    return Flaw(FlawCode.BAD_FIELD, f"{name} contains a NUL character.")
