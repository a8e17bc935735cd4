"""A payload out of Base64 and compression, with the growth bounded while it is inflated."""

import re
import zlib
from binascii import Error as Base64Error
from binascii import a2b_base64
from typing import Final

from integration.envelope.document import Limits
from integration.envelope.flaw import Flaw, FlawCode, too_large

_BLANK: Final = re.compile(r"\s+")
_LOOKS_LIKE_BASE64: Final = re.compile(r"[A-Za-z0-9+/]{8,}+={0,2}+")
# So many characters tell; the rest of a large text is not looked at.
_LOOKED_AT: Final = 4_096
# What is left over of a piece when a member ends in it is copied: the smaller, the less.
_PIECE_BYTES: Final = 65_536
# Compressors that work side by side write a member for each few hundred kilobytes.
_MOST_MEMBERS: Final = 1_000
_ZLIB_OR_GZIP: Final = 32 + zlib.MAX_WBITS
_RAW: Final = -zlib.MAX_WBITS
_GZIP_MAGIC: Final = b"\x1f\x8b"


def unpack(payload: str, limits: Limits) -> bytes | Flaw:
    """Return the bytes of a Base64 text of zlib, gzip or raw deflate output."""
    packed = _from_base64(payload)
    return packed if isinstance(packed, Flaw) else inflate(packed, limits)


def looks_like_base64(text: str) -> bool:
    """Tell by its beginning."""
    return _LOOKS_LIKE_BASE64.fullmatch(_BLANK.sub("", text[:_LOOKED_AT])) is not None


def inflate(packed: bytes, limits: Limits) -> bytes | Flaw:
    """Return the decompressed bytes; which of the three formats it is shows in the first two."""
    if not packed:
        return Flaw(FlawCode.TRUNCATED_COMPRESSION, "The compressed payload is empty.")
    bits = _ZLIB_OR_GZIP if _has_header(packed) else _RAW
    inflating = _Inflating(packed, limits)
    for _ in range(_MOST_MEMBERS):
        try:
            flaw = inflating.member(zlib.decompressobj(bits))
        except zlib.error as failure:
            message = f"The payload is not readable as zlib, gzip or raw deflate ({failure})."
            return Flaw(FlawCode.BAD_COMPRESSION, message)
        if flaw:
            return flaw
        if inflating.at == len(packed):
            return b"".join(inflating.parts)
        if not (packed.startswith(_GZIP_MAGIC) and packed.startswith(_GZIP_MAGIC, inflating.at)):
            rest = len(packed) - inflating.at
            message = f"{rest:,} bytes follow the end of the compressed payload."
            return Flaw(FlawCode.BAD_COMPRESSION, message)
    message = f"The compressed payload has more than {_MOST_MEMBERS:,} members."
    return Flaw(FlawCode.ZIP_BOMB, message)


class _Inflating:
    """The progress of inflating a payload: `at` is the place in `packed`, `parts` the result."""

    def __init__(self, packed: bytes, limits: Limits) -> None:
        self.packed = packed
        self.limits = limits
        self.at = 0
        self.grown = 0
        self.parts: list[bytes] = []

    def member(self, stream: "zlib._Decompress") -> Flaw | None:
        """Inflate up to the end of a member, or return what is wrong. Raises zlib.error."""
        while not stream.eof and self.at < len(self.packed):
            piece = self.packed[self.at : self.at + _PIECE_BYTES]
            part = stream.decompress(piece, self.limits.max_bytes - self.grown + 1)
            self.at += len(piece) - len(stream.unconsumed_tail) - len(stream.unused_data)
            self.grown += len(part)
            self.parts.append(part)
            if self.grown > self.limits.max_bytes:
                return _outgrown(self.grown, self.at, self.limits)
        if flaw := _outgrown(self.grown, self.at, self.limits):
            return flaw
        if not stream.eof:
            message = f"The compressed payload stops short after {len(self.packed):,} bytes."
            return Flaw(FlawCode.TRUNCATED_COMPRESSION, message)
        return None


def _from_base64(payload: str) -> bytes | Flaw:
    try:
        return a2b_base64(payload, strict_mode=True)
    except ValueError:
        pass  # Writers for mail break lines; only without them it is known to be wrong.
    try:
        return a2b_base64(_BLANK.sub("", payload), strict_mode=True)
    except Base64Error as failure:
        return Flaw(FlawCode.BAD_BASE64, f"The payload is not Base64 ({failure}).")
    except ValueError:
        return Flaw(FlawCode.BAD_BASE64, "The payload is not Base64 (characters outside ASCII).")


def _has_header(packed: bytes) -> bool:
    """Return whether a zlib or gzip header begins here; no raw stream of a compressor does."""
    if packed[:2] == _GZIP_MAGIC[: len(packed)]:
        return True
    is_deflate = packed[0] & 0x0F == zlib.DEFLATED
    return is_deflate and int.from_bytes(packed[:2].ljust(2, b"\0")) % 31 == 0


def _outgrown(grown: int, consumed: int, limits: Limits) -> Flaw | None:
    if grown > limits.exempt_bytes and grown > limits.max_ratio * consumed:
        message = f"The payload grows to more than {limits.max_ratio} times its compressed size."
        return Flaw(FlawCode.ZIP_BOMB, message)
    if grown > limits.max_bytes:
        return too_large("The decompressed payload", limits.max_bytes)
    return None
