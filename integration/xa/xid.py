"""Xid: the name of a transaction's branch, as X/Open gives it."""

import re
import uuid
from dataclasses import dataclass
from typing import Final

from integration.xa.errors import XidInvalidError

MOST_BYTES: Final = 64
MOST_FORMAT: Final = 2**31 - 1
_TEXT: Final = re.compile(r"(\d{1,10})-([0-9a-f]*)-([0-9a-f]*)")


@dataclass(frozen=True, slots=True, order=True)
class Xid:
    """Format id, global transaction id, and branch qualifier: 1 to 64 bytes, and up to 64."""

    format_id: int
    global_id: bytes
    branch: bytes = b""

    def __post_init__(self) -> None:
        if not 0 <= self.format_id <= MOST_FORMAT:
            raise XidInvalidError(repr(self), f"the format id is not within 0 and {MOST_FORMAT}")
        if not 1 <= len(self.global_id) <= MOST_BYTES:
            raise XidInvalidError(repr(self), f"the global id has not 1 to {MOST_BYTES} bytes")
        if len(self.branch) > MOST_BYTES:
            raise XidInvalidError(repr(self), f"the branch has more than {MOST_BYTES} bytes")

    def __str__(self) -> str:
        return f"{self.format_id}-{self.global_id.hex()}-{self.branch.hex()}"

    @classmethod
    def parse(cls, text: str) -> "Xid":
        """Read what `str` wrote. Raises XidInvalidError."""
        found = _TEXT.fullmatch(text)
        if found is None:
            raise XidInvalidError(text, "it is not a number and two texts in hex")
        try:
            return cls(int(found[1]), bytes.fromhex(found[2]), bytes.fromhex(found[3]))
        except ValueError as problem:
            raise XidInvalidError(text, str(problem)) from problem

    @classmethod
    def fresh(cls, format_id: int, branch: bytes = b"") -> "Xid":
        """One that nobody has had."""
        return cls(format_id, uuid.uuid4().bytes, branch)
