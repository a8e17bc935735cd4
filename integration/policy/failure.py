"""Failures of one message, as values."""

import hashlib
import re
from dataclasses import dataclass
from enum import StrEnum
from typing import Final

TEXT_LIMIT: Final = 4_000
WORDS_LIMIT: Final = 300
_VARYING: Final = re.compile(
    r"[0-9a-fA-F]{8}-[0-9a-fA-F-]{27}|0x[0-9a-fA-F]+|\"[^\"]*\"|'[^']*'|\d+(?:\.\d+)?"
)
# What varies, as people read it: an apostrophe is no quote, and a date or 1,000 is one number.
# In names that have digits in them, such as Base64, UTF-8 and ISO-8859-1, nothing varies.
_PARTS: Final = re.compile(
    r"(?P<name>\b(?:base|utf|iso|sha|u?int|float|latin|http/)-?\d+(?:[-.]\d+)*\b)"
    r"|(?P<id>[0-9a-f]{8}-[0-9a-f-]{27}|0x[0-9a-f]+|(?<=[^\W\d])\d+)"
    r"|(?P<quoted>\"[^\"]*\"|(?<!\w)'[^']*')"
    r"|\d(?:[\d.,:/+TZ-]*[\dZ])?",
    re.IGNORECASE,
)


class FailureClass(StrEnum):
    """The class of a failure: what it costs and how it ends."""

    PERMANENT = "permanent"  # no further try
    TRANSIENT = "transient"  # spends a retry
    CONFLICT = "conflict"  # deadlock, serialization: the whole batch again, free at first
    DEPENDENCY = "dependency"  # an object that is not there yet; spends a retry
    OUTAGE = "outage"  # something everybody needs is down; spends nothing
    DISABLED = "disabled"  # switched off or not installed here; spends nothing
    CRASH = "crash"  # the process died on it, alone under its marker


@dataclass(frozen=True, slots=True)
class Failure:
    """The reason why one attempt did not succeed.

    `code` is stable and filtered on; `text` is the sentence for people; `detail` a traceback or
    other long material for the failure page. `waits_for` is the object (kind, key) whose arrival
    makes the next try worth while.
    """

    kind: FailureClass
    code: str
    text: str
    detail: str = ""
    waits_for: tuple[str, str] | None = None

    @property
    def fingerprint(self) -> str:
        """Equal for failures of one cause: the code and the text without what varies in it."""
        normal = _VARYING.sub("#", self.text)[:500]
        return hashlib.blake2b(f"{self.code}\n{normal}".encode(), digest_size=8).hexdigest()


def cause_of(failure: Failure) -> str:
    """The text without ids, numbers and quoted values: equal for failures of one cause."""
    return _VARYING.sub("…", failure.text)[:200]


def cause_words(text: str, failures: int = 2) -> str:
    """The same as a sentence for people; of a single failure nothing is left out.

    A number becomes N, what is quoted "…"; names with digits in them stay whole, a cut is shown.
    """
    words = text if failures == 1 else _PARTS.sub(_left_out, text)
    return words if len(words) <= WORDS_LIMIT else f"{words[: WORDS_LIMIT - 1]}…"


def _left_out(part: re.Match[str]) -> str:
    quoted = part["quoted"]
    if quoted:
        return f"{quoted[0]}…{quoted[0]}"
    return part["name"] or ("…" if part["id"] else "N")
