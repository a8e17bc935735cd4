"""The identity of an object that messages wait for."""

import hashlib
from typing import Final

KIND_LENGTH: Final = 100


def clean_kind(kind: str) -> str:
    """Return the kind as it is stored and compared: no NUL, no lone surrogate, bounded."""
    cleaned = str(kind)[:KIND_LENGTH].replace("\x00", "\ufffd")
    return cleaned.encode("utf-8", "replace").decode("utf-8")


def object_hash(kind: str, key: str) -> bytes:
    """Return 16 bytes that stand for (kind, key), however long the key is."""
    text = f"{clean_kind(kind)}\n{key}".encode("utf-8", "replace")
    return hashlib.blake2b(text, digest_size=16).digest()
