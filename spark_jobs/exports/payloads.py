"""The payload of a tracked message: as bytes, as text, or a value out of its JSON."""

import base64
import zlib
from collections.abc import Callable, Sequence
from decimal import Decimal
from typing import Any, Final

from integration.documents.exact_json import encode
from integration.envelope import Flaw
from integration.envelope.json_text import parse_json

MAX_DEPTH: Final = 100
_NOT_READ: Final = object()


class Payload:
    """A record's value, as tracking keeps it; what is asked for of it is found once."""

    def __init__(self, compressed: bytes, hide: Callable[[bytes], bytes] | None = None) -> None:
        """`hide` answers a record without what is masked of it."""
        record = zlib.decompress(compressed)
        self.raw = record if hide is None else hide(record)
        self._body: object = _NOT_READ

    @property
    def text(self) -> str | None:
        try:
            return self.raw.decode()
        except UnicodeDecodeError:
            return None

    @property
    def base64(self) -> str | None:
        """The value that is no text, so that nothing of it is lost."""
        return base64.b64encode(self.raw).decode() if self.text is None else None

    def json_at(self, steps: Sequence[str | int]) -> str | None:
        """The value at a path as JSON; None as in `text_at`."""
        value = self._at(steps)
        return None if value is None else encode(value)

    def text_at(self, steps: Sequence[str | int]) -> str | None:
        """The value at a path as its own text: without quotes, with all digits of a number.

        None where the path leads nowhere, and where the payload is no JSON.
        """
        value = self._at(steps)
        if value is None or isinstance(value, str):
            return value
        return f"{value:f}" if isinstance(value, Decimal) else encode(value)

    def _at(self, steps: Sequence[str | int]) -> Any:
        if self._body is _NOT_READ:
            text = self.text
            read = None if text is None else parse_json(text, MAX_DEPTH)
            self._body = None if isinstance(read, Flaw) else read
        value = self._body
        for step in steps:
            if isinstance(value, dict) and isinstance(step, str):
                value = value.get(step)
            elif isinstance(value, list) and isinstance(step, int) and step < len(value):
                value = value[step]
            else:
                return None
        return value
