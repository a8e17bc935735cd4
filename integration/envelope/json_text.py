"""Exact JSON from untrusted text: numbers unrounded, nothing dropped or repaired in silence.

One decoder is built once and its scanner is called directly: every message passes here.
"""

import re
from collections import Counter
from collections.abc import Callable
from decimal import (
    Clamped,
    Context,
    Inexact,
    InvalidOperation,
    Overflow,
    Rounded,
    Subnormal,
    Underflow,
)
from json import JSONDecoder
from typing import Final, NoReturn, cast

from integration.envelope.flaw import Flaw, FlawCode, too_deep
from integration.envelope.json_flaw import (
    BLANKS,
    MAX_DIGITS,
    Refused,
    explain,
    place,
    shown,
    syntax,
)

_NOT_BLANK: Final = re.compile(r"[^ \t\r\n]")
_ESCAPE: Final = re.compile(r"\\(?:u([0-9a-fA-F]{4})|.)", re.DOTALL)
# Surrogates and NUL, the only escapes to look at closely; most texts hold neither.
_DOUBTFUL_ESCAPE: Final = re.compile(r"\\u(?:[dD][89a-fA-F]|0000)")
_EVERYTHING_BUT_BRACKETS: Final = bytes(set(range(256)) - set(b'[]{}"'))
_ONE_KIND_OF_BRACKET: Final = bytes.maketrans(b"{}", b"[]")


def _unique(pairs: list[tuple[str, object]]) -> dict[str, object]:
    members = dict(pairs)
    if len(members) != len(pairs):
        names = [name for name, _ in pairs]
        counted = Counter(names)
        twice = next(name for name in names if counted[name] > 1)
        raise Refused(Flaw(FlawCode.DUPLICATE_KEY, f"The key {shown(twice)} is there twice."))
    return members


# Makes a number that is exactly what was written, or raises: more digits or a larger exponent
# would be rounded, clamped or overflow, and each of these is an error here.
_EXACT: Final = Context(
    prec=MAX_DIGITS,
    Emax=MAX_DIGITS,
    Emin=-MAX_DIGITS,
    traps=[Clamped, Inexact, InvalidOperation, Overflow, Rounded, Subnormal, Underflow],
)


def _no_number(name: str) -> NoReturn:
    raise Refused(Flaw(FlawCode.NOT_A_NUMBER, f"{name} is not a JSON number."))


_DECODER: Final = JSONDecoder(
    object_pairs_hook=_unique, parse_float=_EXACT.create_decimal, parse_constant=_no_number
)
# `decode` would look for blanks with a regular expression on both sides of each message.
_scan = cast("Callable[[str, int], tuple[object, int]]", _DECODER.scan_once)  # type: ignore[attr-defined]


def parse_json(text: str, max_depth: int) -> object:
    """Return the value of a JSON text, or a Flaw. Integers are int, other numbers Decimal."""
    # What nests deeper than this has as many brackets again to close it.
    if (
        len(text) > 2 * max_depth
        and text.count("{") + (text.count("[") if "[" in text else 0) > max_depth
        and is_deeper(text, max_depth)
    ):
        return too_deep(max_depth)
    start = 0 if text[:1] == "{" else _start(text)
    try:
        value, end = _scan(text, start)
    except (ValueError, StopIteration, ArithmeticError, RecursionError) as failure:
        return explain(failure, text, max_depth)
    if end != len(text) and (rest := _NOT_BLANK.search(text, end)):
        return syntax(text, rest.start(), "Extra text after the end")
    # One character is looked for at four times the speed of two.
    if "\\" in text and _DOUBTFUL_ESCAPE.search(text) and (flaw := _refused_escape(text)):
        return flaw
    return value


def member_text(text: str, name: str) -> str:
    """Return the exact text of one member of an object that `parse_json` has accepted."""
    at = text.index("{")
    while True:
        key, at = _scan(text, _skip_blanks(text, at + 1))
        at = _skip_blanks(text, _skip_blanks(text, at) + 1)  # over the colon
        _, end = _scan(text, at)
        if key == name:
            return text[at:end]
        at = _skip_blanks(text, end)


def element_texts(text: str) -> list[str]:
    """Return the exact text of each element of an array that `parse_json` has accepted."""
    texts: list[str] = []
    at = text.index("[")
    while True:
        at = _skip_blanks(text, at + 1)
        if text[at] == "]":
            return texts
        _, end = _scan(text, at)
        texts.append(text[at:end])
        at = _skip_blanks(text, end)
        if text[at] == "]":
            return texts


def is_deeper(text: str, max_depth: int) -> bool:
    """Return whether brackets outside strings nest deeper, without parsing or recursing.

    Strings are cut away, then each pass takes off the innermost level; what is left after
    the passes is deeper. All steps run at the speed of `bytes.replace`.
    """
    plain = text.encode(errors="replace").replace(b"\\\\", b"").replace(b'\\"', b"")
    marks = plain.translate(_ONE_KIND_OF_BRACKET, _EVERYTHING_BUT_BRACKETS)
    brackets = b"".join(marks.split(b'"')[::2])
    if b"[" * (max_depth + 1) in brackets:
        return True
    for level in range(max_depth + 1):
        fewer = brackets.replace(b"[]", b"")
        if len(fewer) == len(brackets):
            # Brackets that never close lie around the levels taken off.
            return level + brackets.count(b"[") > max_depth
        brackets = fewer
    return True


def _start(text: str) -> int:
    return _skip_blanks(text, 1 if text.startswith("\ufeff") else 0)


def _skip_blanks(text: str, at: int) -> int:
    while text[at : at + 1] and text[at] in BLANKS:
        at += 1
    return at


def _refused_escape(text: str) -> Flaw | None:
    """Return the flaw of an escape that no database text can hold, if there is one."""
    high_ends = -1
    for escape in _ESCAPE.finditer(text):
        unit = int(escape[1] or "20", 16)
        is_low = 0xDC00 <= unit <= 0xDFFF
        if is_low != (high_ends == escape.start()) or (high_ends >= 0 and not is_low):
            break
        high_ends = escape.end() if 0xD800 <= unit <= 0xDBFF else -1
        if unit == 0:
            where = place(text, escape.start())
            return Flaw(FlawCode.NUL_CHARACTER, f"A NUL character is written at {where}.")
    else:
        if high_ends < 0:
            return None
    return Flaw(FlawCode.LONE_SURROGATE, "An escape is half of a character (a lone surrogate).")
