"""The reason why a text is not acceptable JSON: the flaw and its place. Never on the hot path."""

import re
from json import JSONDecodeError
from typing import Final

from integration.envelope.flaw import ONLY_NUL, UTF16, Flaw, FlawCode, too_deep

BLANKS: Final = " \t\r\n"
# Python refuses longer integers by default, because converting them takes quadratic time.
MAX_DIGITS: Final = 4300
_LONGEST_SHOWN: Final = 60
_CURLY: Final = frozenset(map(chr, [*range(0x2018, 0x2020), 0x2033, 0xAB, 0xBB]))
_CUT_WORD: Final = re.compile(r"-|t|tr|tru|f|fa|fal|fals|n|nu|nul")
_CUT_ESCAPE: Final = re.compile(r"\\?u?[0-9a-fA-F]{0,4}")


class Refused(ValueError):  # noqa: N818 - it never leaves this package
    """Carries a flaw out of the scanner's callbacks, which can report in no other way."""

    def __init__(self, flaw: Flaw) -> None:
        super().__init__(flaw.message)
        self.flaw = flaw


def place(text: str, at: int) -> str:
    """Return a position in words; lines and columns count from 1."""
    return f"line {text.count(chr(10), 0, at) + 1}, column {at - text.rfind(chr(10), 0, at)}"


def shown(name: str) -> str:
    """Return a key fit for a sentence: printable and short."""
    return repr(name if len(name) <= _LONGEST_SHOWN else name[:_LONGEST_SHOWN] + "…")


def not_utf8(source: bytes, failure: UnicodeDecodeError) -> Flaw:
    if source[:2] in {b"\xff\xfe", b"\xfe\xff"} or b"\0" in source[:2]:
        return UTF16
    if failure.end == len(source) and failure.reason == "unexpected end of data":
        return Flaw(FlawCode.NOT_UTF8, "The text ends in the middle of a UTF-8 character.")
    message = f"Byte 0x{source[failure.start]:02x} at offset {failure.start} is not UTF-8."
    if source[:2] == b"\x1f\x8b":
        message += " The message begins like a gzip file."
    return Flaw(FlawCode.NOT_UTF8, message)


def explain(failure: Exception, text: str, max_depth: int) -> Flaw:
    """Return the flaw behind what the scanner raised."""
    match failure:
        case Refused():
            return failure.flaw
        case JSONDecodeError():
            return syntax(text, failure.pos, failure.msg)
        case StopIteration():  # the scanner's way to say that no value begins here
            return syntax(text, failure.value, "Expecting value")
        case RecursionError():
            return too_deep(max_depth)
        case _:
            message = f"A number has more than {MAX_DIGITS} digits, or an exponent beyond that."
            return Flaw(FlawCode.NUMBER_TOO_LONG, message)


def syntax(text: str, at: int, reason: str) -> Flaw:
    """Return the flaw of a text that breaks the grammar here."""
    where = place(text, at)
    if "\0" in text[:2]:
        return UTF16 if text.strip("\0") else ONLY_NUL
    if text[at : at + 1] in _CURLY:
        return Flaw(FlawCode.CURLY_QUOTES, f"A typographic quotation mark stands at {where}.")
    if _is_cut(text, at, reason):
        return Flaw(FlawCode.TRUNCATED_JSON, f"The JSON text stops short at {where}.")
    if _holds_unescaped_text(text, at, reason):
        message = f"A text with unescaped quotation marks begins before {where}."
        return Flaw(FlawCode.UNESCAPED_QUOTES, message)
    here = shown(text[at]) if at < len(text) else "the end"
    return Flaw(FlawCode.BAD_JSON, f"{reason} at {where}; found {here}.")


def _is_cut(text: str, at: int, reason: str) -> bool:
    if at >= len(text.rstrip(BLANKS)) or reason.startswith("Unterminated string"):
        return True
    rest = text[at : at + 7].rstrip(BLANKS)
    if at + len(rest) < len(text.rstrip(BLANKS)):
        return False
    if "escape" in reason:
        return _CUT_ESCAPE.fullmatch(rest) is not None
    return _CUT_WORD.fullmatch(rest) is not None


def _holds_unescaped_text(text: str, at: int, reason: str) -> bool:
    """Return whether `"{"` or `"["` stands before: a text whose first inner quote closed it."""
    return reason.startswith("Expecting ','") and text[max(at - 3, 0) : at] in {'"{"', '"["'}
