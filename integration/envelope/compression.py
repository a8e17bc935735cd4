"""A payload out of Base64 and compression, with the growth bounded while it is inflated."""

import re
import zlib
from binascii import Error as Base64Error
from binascii import a2b_base64
from typing import Final

from integration.envelope.document import Limits
from integration.envelope.flaw import Flaw, FlawCode, flaw, too_large

_BLANK: Final = re.compile(r"\s+")
_LOOKS_LIKE_BASE64: Final = re.compile(r"(?:[A-Za-z0-9+/]\s*){8,}(?:=\s*){0,2}")
_ZLIB_OR_GZIP: Final = 32 + zlib.MAX_WBITS
_RAW: Final = -zlib.MAX_WBITS
_GZIP_MAGIC: Final = b"\x1f\x8b"


def unpack(payload: str, limits: Limits) -> bytes | Flaw:
    """Return the bytes of a Base64 text of zlib, gzip or raw deflate output."""
    packed = _from_base64(payload)
    return packed if isinstance(packed, Flaw) else inflate(packed, limits)


def looks_like_base64(text: str) -> bool:
    return _LOOKS_LIKE_BASE64.fullmatch(text) is not None


def inflate(packed: bytes, limits: Limits) -> bytes | Flaw:
    """Return the decompressed bytes; which of the three formats it is shows in the first two."""
    if not packed:
        return flaw(FlawCode.TRUNCATED_COMPRESSION, "The compressed payload is empty.")
    bits = _ZLIB_OR_GZIP if _has_header(packed) else _RAW
    parts: list[bytes] = []
    grown, rest = 0, packed
    while rest:
        stream = zlib.decompressobj(bits)
        try:
            part = stream.decompress(rest, limits.max_bytes - grown + 1)
        except zlib.error as failure:
            message = f"The payload is not readable as zlib, gzip or raw deflate ({failure})."
            return flaw(FlawCode.BAD_COMPRESSION, message)
        grown += len(part)
        consumed = len(packed) - len(stream.unconsumed_tail) - len(stream.unused_data)
        if found := _outgrown(grown, consumed, limits):
            return found
        if not stream.eof:
            message = f"The compressed payload stops short after {len(packed):,} bytes."
            return flaw(FlawCode.TRUNCATED_COMPRESSION, message)
        parts.append(part)
        rest = stream.unused_data
        if rest and not (packed.startswith(_GZIP_MAGIC) and rest.startswith(_GZIP_MAGIC)):
            message = f"{len(rest):,} bytes follow the end of the compressed payload."
            return flaw(FlawCode.BAD_COMPRESSION, message)
    return parts[0] if len(parts) == 1 else b"".join(parts)


def _from_base64(payload: str) -> bytes | Flaw:
    try:
        return a2b_base64(payload, strict_mode=True)
    except ValueError:
        pass  # Writers for mail break lines; only without them it is known to be wrong.
    try:
        return a2b_base64(_BLANK.sub("", payload), strict_mode=True)
    except Base64Error as failure:
        return flaw(FlawCode.BAD_BASE64, f"The payload is not Base64 ({failure}).")
    except ValueError:
        return flaw(FlawCode.BAD_BASE64, "The payload is not Base64 (characters outside ASCII).")


def _has_header(packed: bytes) -> bool:
    """Whether a zlib or gzip header begins here; no raw stream a compressor writes looks so."""
    if packed[:2] == _GZIP_MAGIC[: len(packed)]:
        return True
    is_deflate = packed[0] & 0x0F == zlib.DEFLATED
    return is_deflate and int.from_bytes(packed[:2].ljust(2, b"\0")) % 31 == 0


def _outgrown(grown: int, consumed: int, limits: Limits) -> Flaw | None:
    if grown > limits.exempt_bytes and grown > limits.max_ratio * consumed:
        message = f"The payload grows to more than {limits.max_ratio} times its compressed size."
        return flaw(FlawCode.ZIP_BOMB, message)
    if grown > limits.max_bytes:
        return too_large("The decompressed payload", limits.max_bytes)
    return None
