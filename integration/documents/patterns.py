"""Regular expressions that a person wrote and a sender's text meets: on RE2, in linear time.

Python's own engine goes back in the text, and takes for ever over some patterns.
"""

import re
from functools import lru_cache
from typing import Any, ClassVar, Final

import re2

from integration.errors import IntegrationError

_SHOWN: Final = 200
# What RE2 may need for one pattern: enough for ^\w{0,255}$, whose class has all alphabets. The
# larger the program, the slower each character of a text, and this is what bounds it.
_MEMORY_BYTES: Final = 2**23
# Python's classes, which know all alphabets; RE2's own know ASCII alone.
_CLASSES: Final = {
    "d": r"\p{Nd}",
    "w": r"\p{L}\p{N}_",
    "s": r"\t-\r\x{1c}-\x{20}\x{85}\p{Z}",
    # All but those, as members of a class.
    "D": r"\P{Nd}",
    "W": r"\p{C}\p{M}\p{S}\p{Z}\p{Pd}\p{Pe}\p{Pf}\p{Pi}\p{Po}\p{Ps}"
    r"\x{203f}\x{2040}\x{2054}\x{fe33}\x{fe34}\x{fe4d}-\x{fe4f}\x{ff3f}",
    "S": r"\x{0}-\x{8}\x{e}-\x{1b}!-\x{84}\x{86}-\x{9f}\x{a1}-\x{167f}\x{1681}-\x{1fff}"
    r"\x{200b}-\x{2027}\x{202a}-\x{202e}\x{2030}-\x{205e}\x{2060}-\x{2fff}\x{3001}-\x{10ffff}",
}
_PIECE: Final = re.compile(
    r"\\u([0-9A-Fa-f]{4})|\\(.)|(\[\^?+\]?+)|(\])|\{,(\d++)\}|[^\\\[\]{]++|[\\{]", re.DOTALL
)


class BadPattern(IntegrationError):  # noqa: N818 - named after what it is about
    """A regular expression that cannot be run in linear time; `pattern` is its text."""

    code: ClassVar[str] = "SCHEMA_UNUSABLE"

    def __init__(self, *, pattern: str, reason: str) -> None:
        shown = pattern if len(pattern) <= _SHOWN else pattern[:_SHOWN] + "…"
        super().__init__(
            f"The pattern {shown!r} cannot be used: {reason}.",
            next_step="Write it without look-ahead, look-behind and back-references, and repeat "
            "nothing more than 1,000 times, nor a class of all alphabets such as \\w more than "
            "255 times; minLength and maxLength bound a text.",
        )
        self.pattern = pattern


def matches(pattern: str, text: str) -> bool:
    """Return whether the pattern matches anywhere in the text. Raises BadPattern."""
    # Half characters, which UTF-8 cannot write, are read as question marks.
    return _compiled(pattern).search(text.encode(errors="replace")) is not None


def whole(pattern: str, text: str) -> str | None:
    """Return the pattern's first group, or "" where it has none; None: not the whole text fits.

    Raises BadPattern.
    """
    found = _compiled(pattern).fullmatch(text.encode(errors="replace"))
    if found is None:
        return None
    groups = found.groups()
    return (groups[0] or b"").decode() if groups else ""


def check_pattern(pattern: str) -> None:
    """Compile a pattern. Raises BadPattern."""
    _compiled(pattern)


@lru_cache(maxsize=128)
def _compiled(pattern: str) -> Any:
    options = re2.Options()
    options.log_errors = False
    options.max_mem = _MEMORY_BYTES
    try:
        return re2.compile(_as_re2(pattern), options)
    except (re2.error, UnicodeEncodeError) as e:
        raise BadPattern(pattern=pattern, reason=_reason(e)) from e


def _reason(error: Exception) -> str:
    if isinstance(error, UnicodeEncodeError):
        return "it holds half a character"
    reason = error.args[0]
    return reason.decode(errors="replace") if isinstance(reason, bytes) else str(reason)


def _as_re2(pattern: str) -> str:
    r"""The pattern in RE2's words, meaning what Python means by it.

    >>> print(_as_re2(r"^\d[\w-]\u00e4{,2}$"))
    ^[\p{Nd}][\p{L}\p{N}_-]\x{00e4}{0,2}$
    """
    written: list[str] = []
    is_inside = False
    for piece in _PIECE.finditer(pattern):
        code, escaped, opens, closes, most = piece.groups()
        if code or escaped:
            written.append(_escape(code, escaped, is_inside=is_inside))
        elif opens and is_inside:
            # Inside a class a bracket is only a character.
            written.append("\\" + opens)
            is_inside = not opens.endswith("]")
        elif most and not is_inside:
            written.append(f"{{0,{most}}}")
        else:
            written.append(piece[0])
            is_inside = (is_inside or bool(opens)) and not closes
    return "".join(written)


def _escape(code: str | None, escaped: str, *, is_inside: bool) -> str:
    if code:
        return rf"\x{{{code}}}"
    if escaped not in _CLASSES:
        return r"\z" if escaped == "Z" else f"\\{escaped}"
    if is_inside:
        return _CLASSES[escaped]
    return f"[^{_CLASSES[escaped.lower()]}]" if escaped.isupper() else f"[{_CLASSES[escaped]}]"
