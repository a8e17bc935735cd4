"""Our own credentials in what a partner sends back: taken out before anything of it is kept."""

from collections.abc import Iterable
from typing import Final

HIDDEN: Final = b"[hidden]"
# What is shorter stands in any text by chance.
LEAST_CHARACTERS: Final = 4


def without(told: bytes, secrets: Iterable[str]) -> bytes:
    """The text with each secret replaced, the longest first.

    >>> without(b"you sent Basic dTpwdw==", ["dTpwdw==", ""])
    b'you sent Basic [hidden]'
    """
    for secret in sorted(filter(None, secrets), key=len, reverse=True):
        if len(secret) >= LEAST_CHARACTERS:
            told = told.replace(secret.encode(), HIDDEN)
    return told
