"""A request that is still arriving: how far it has come, piece by piece, without any waiting.

Only where it ends is found out here. Whether it is sound, gunicorn's parser says afterwards, from
the same bytes; what looks unsound here is handed over as it is, to be refused there.
"""

import re
from collections.abc import Callable
from contextlib import suppress
from enum import Enum
from io import BytesIO
from tempfile import SpooledTemporaryFile
from typing import IO, Final

from console.server import limits

_HEAD_END: Final = b"\r\n\r\n"
_LENGTH: Final = re.compile(rb"[0-9]{1,18}")
_CHUNK_SIZE: Final = re.compile(rb"([0-9A-Fa-f]{1,15})[ \t]*(?:;.*)?", re.DOTALL)
# A chunk's size with its extensions, or one trailer field.
_LONGEST_LINE: Final = 8 * 1024
_MOST_TRAILER_BYTES: Final = 64 * 1024


class Ending(Enum):
    """The reason for waiting for no more bytes of a request."""

    WHOLE = "whole"
    TOO_LARGE = "too large"
    CUT_SHORT = "cut short"
    TOO_SLOW = "too slow"
    NO_ROOM = "no room"


class Head:
    """The request line and the fields that say where the body ends."""

    def __init__(self, lines: list[bytes]) -> None:
        words = lines[0].split(b" ")
        self.target = words[1] if len(words) > 1 else b""
        self.length = 0
        self.is_chunked = self.waits_for_leave = False
        self._read(lines[1:])

    def _read(self, lines: list[bytes]) -> None:
        lengths = []
        for line in lines:
            name, _, value = line.partition(b":")
            field = name.lower()
            if field == b"content-length":
                lengths.append(value.strip(b" \t"))
            elif field == b"transfer-encoding":
                self.is_chunked = self.is_chunked or b"chunked" in value.lower()
            elif field == b"expect":
                self.waits_for_leave = b"100-continue" in value.lower()
        if lengths and not self.is_chunked and len(lengths) == 1 and _LENGTH.fullmatch(lengths[0]):
            self.length = int(lengths[0])
        elif lengths:
            # Two lengths, none, or one beside chunks: refused by the parser, whatever follows.
            self.length, self.is_chunked = 0, False


class Arriving:
    """One request on its way in. `ending` is None as long as more of it is waited for.

    `most_bytes` says how large a body is waited for at all.
    """

    def __init__(self, most_bytes: Callable[[Head], int]) -> None:
        self.ending: Ending | None = None
        self.head: Head | None = None
        self.size = 0
        self._most_bytes, self._most = most_bytes, 0
        self._start = bytearray()
        self._left = 0
        self._chunks: _Chunks | None = None
        self._kept: IO[bytes] | None = None
        self._head_bytes = b""

    @property
    def has_begun(self) -> bool:
        return bool(self._start) or self.head is not None

    @property
    def on_disk(self) -> int:
        """The bytes that it takes outside of memory."""
        return self.size if self.size > limits.MEMORY_BYTES else 0

    def take(self, piece: bytes) -> bytes:
        """The next bytes from the line. Returns those that belong to the request after it."""
        if self.head is None:
            after_head = self._find_head(piece)
            if after_head is None:
                return b""
            piece = after_head
        if self.ending is not None:
            return piece
        used = self._measure(piece)
        self._keep(piece[:used])
        return piece[used:]

    def hand_over(self) -> IO[bytes]:
        """Everything that came, from its first byte. Belongs to the caller from now on."""
        kept, self._kept = self._file(), None
        kept.seek(0)
        return kept

    def drop(self) -> None:
        """Forget what came."""
        if self._kept is not None:
            # Closing writes what is left, and closes all the same where that fails.
            with suppress(OSError):
                self._kept.close()

    def _find_head(self, piece: bytes) -> bytes | None:
        """Return what came after the head, or None while the head is incomplete."""
        seen = max(len(self._start) - len(_HEAD_END) + 1, 0)
        self._start += piece
        ends = self._start.find(_HEAD_END, seen)
        if ends < 0 or ends > limits.HEAD_BYTES:
            if len(self._start) > limits.HEAD_BYTES:
                self.ending = Ending.TOO_LARGE
            return None
        # Empty lines ahead of a request line are ignored, as the standard wants (RFC 9112, 2.2).
        self.head = head = Head(bytes(self._start[:ends]).lstrip(b"\r\n").split(b"\r\n"))
        ends += len(_HEAD_END)
        rest = bytes(self._start[ends:])
        self._head_bytes = bytes(self._start[:ends])
        self._write(self._head_bytes)
        self._start.clear()
        self._expect(head)
        return rest

    def _expect(self, head: Head) -> None:
        self._most = self._most_bytes(head)
        if head.is_chunked:
            self._chunks = _Chunks()
            return
        self._left = head.length
        if not self._left:
            self.ending = Ending.WHOLE
        elif self._left > self._most:
            self.ending = Ending.TOO_LARGE

    def _measure(self, piece: bytes) -> int:
        """Count the bytes of the piece that belong to the body."""
        if self._chunks is not None:
            used = self._chunks.take(piece)
            is_over = self._chunks.is_over
        else:
            used = min(len(piece), self._left)
            self._left -= used
            is_over = not self._left
        if is_over:
            self.ending = Ending.WHOLE
        return used

    def _file(self) -> IO[bytes]:
        if self._kept is None:
            # Closed by `drop`, or by whom it is handed over to.
            self._kept = SpooledTemporaryFile(limits.MEMORY_BYTES)  # noqa: SIM115
        return self._kept

    def _write(self, piece: bytes) -> None:
        """Keep the piece; where the disk takes no more, the request ends as its head alone."""
        try:
            self._file().write(piece)
            # What is written only when it is read would fail where nobody expects it.
            self._file().flush()
        except OSError:
            self.ending = Ending.NO_ROOM
            self.drop()
            self._kept, self.size = BytesIO(self._head_bytes), 0

    def _keep(self, piece: bytes) -> None:
        self._write(piece)
        if self.ending is Ending.NO_ROOM:
            return
        self.size += len(piece)
        if self.ending is None and self.size > self._most:
            self.ending = Ending.TOO_LARGE


class _Chunks:
    """Finds the end of a chunked body (RFC 9112, 7.1) by its lengths alone."""

    def __init__(self) -> None:
        self.is_over = False
        self._line = bytearray()
        self._skip = self._trailer_bytes = 0
        self._next: Callable[[bytes], None] = self._size

    def take(self, piece: bytes) -> int:
        """Count the bytes of the piece that belong to the body.

        `is_over` is set at its end, and at what is no chunk: the parser refuses it.
        """
        place = 0
        while place < len(piece) and not self.is_over:
            if self._skip:
                step = min(self._skip, len(piece) - place)
                self._skip -= step
                place += step
            else:
                place = self._take_line(piece, place)
        return place

    def _take_line(self, piece: bytes, place: int) -> int:
        end = piece.find(b"\n", place)
        stop = len(piece) if end < 0 else end + 1
        self._line += piece[place:stop]
        if len(self._line) > _LONGEST_LINE:
            self.is_over = True
        elif end >= 0:
            self._next(bytes(self._line).rstrip(b"\r\n"))
            self._line.clear()
        return stop

    def _size(self, line: bytes) -> None:
        match = _CHUNK_SIZE.fullmatch(line)
        if match is None:
            self.is_over = True
            return
        self._skip = int(match[1], 16)
        self._next = self._data_end if self._skip else self._trailer

    def _data_end(self, line: bytes) -> None:
        self.is_over = bool(line)
        self._next = self._size

    def _trailer(self, line: bytes) -> None:
        self._trailer_bytes += len(line)
        self.is_over = not line or self._trailer_bytes > _MOST_TRAILER_BYTES
