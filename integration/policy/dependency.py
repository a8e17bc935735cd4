"""The identity of an object that messages wait for."""

import hashlib
from typing import Final

KIND_LENGTH: Final = 100
# Of a key as it is stored beside the hash; an object's may be longer.
KEY_LENGTH: Final = 500


def clean_kind(kind: str) -> str:
    """Return the kind as it is stored and compared: no NUL, no lone surrogate, bounded."""
    cleaned = str(kind)[:KIND_LENGTH].replace("\x00", "\ufffd")
    return cleaned.encode("utf-8", "replace").decode("utf-8")


def is_cut(key: str) -> bool:
    """Return whether the key is longer than what is stored of it: its hash alone tells it."""
    return len(key) > KEY_LENGTH


def stored_key(key: str) -> str:
    """Return the key as it is stored and shown; one that is cut is not the key of another object.

    >>> stored_key("a" * 501)[-2:]
    'a…'
    """
    return f"{key[: KEY_LENGTH - 1]}…" if is_cut(key) else key


def object_hash(kind: str, key: str) -> bytes:
    """Return 16 bytes that stand for (kind, key), however long the key is."""
    text = f"{clean_kind(kind)}\n{key}".encode("utf-8", "replace")
    return hashlib.blake2b(text, digest_size=16).digest()
