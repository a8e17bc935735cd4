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
# Names that have digits in them, such as Base64, UTF-8 and ISO-8859-1: nothing varies in them.
_NAMED: Final = re.compile(
    rf"(\b(?:base|utf|iso|sha|u?int|float|latin|http/)-?\d+(?:[-.]\d+)*\b)|{_VARYING.pattern}",
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


def cause_words(text: str) -> str:
    """The same for people: names with digits in them are left whole, a cut is shown."""
    words = _NAMED.sub(lambda match: match[1] or "…", text)
    return words if len(words) <= WORDS_LIMIT else f"{words[: WORDS_LIMIT - 1]}…"
