"""The identity of an object that messages wait for."""

import hashlib
from typing import Final

# The class of the advisory lock that arrivals of a kind share, and who begins to wait takes.
LOCK_CLASS: Final = 20_010


def object_hash(kind: str, key: str) -> bytes:
    """Return 16 bytes that stand for (kind, key), however long the key is."""
    return hashlib.blake2b(f"{kind}\n{key}".encode("utf-8", "replace"), digest_size=16).digest()
