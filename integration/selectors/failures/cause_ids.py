"""The id that stands for a cause wherever people and programs see one.

A fingerprint tells whether a guess at a failure's text is right, also where masking hides that
text: anybody can work it out. The id of a cause is its fingerprint under a key of this
installation's, of which a filter makes the fingerprint again.
"""

import re
from typing import Final

from cryptography.hazmat.primitives.ciphers import Cipher
from cryptography.hazmat.primitives.ciphers.algorithms import AES
from cryptography.hazmat.primitives.ciphers.modes import ECB
from django.conf import settings
from django.utils.crypto import salted_hmac

# The characters of an id, at most.
ID_LENGTH: Final = 32
# No fingerprint: failures of a cause that nobody was told of are not found.
UNKNOWN: Final = "?"
# What a filter may ask for instead of an id: any cause, and failures that have none.
_NO_IDS: Final = frozenset({"", "-"})
_SALT: Final = "integration.selectors.failures.cause_ids"
_FINGERPRINT: Final = re.compile(r"[0-9a-f]{16}")
_ID: Final = re.compile(r"[0-9a-f]{32}")
# Fills the one block of the cipher, and shows that an id is one of ours.
_FILLING: Final = bytes(8)


def cause_id(fingerprint: str) -> str:
    """Return the id of a cause; what is no fingerprint stays as it is, above all the empty one."""
    if not _FINGERPRINT.fullmatch(fingerprint):
        return fingerprint
    sealing = _cipher(settings.SECRET_KEY).encryptor()
    return (sealing.update(bytes.fromhex(fingerprint) + _FILLING) + sealing.finalize()).hex()


def fingerprint_of(asked: str) -> str:
    """Return the fingerprint of a cause's id; UNKNOWN for what is no id of ours."""
    if asked in _NO_IDS:
        return asked
    if not _ID.fullmatch(asked):
        return UNKNOWN
    for secret in (settings.SECRET_KEY, *settings.SECRET_KEY_FALLBACKS):
        opening = _cipher(secret).decryptor()
        block = opening.update(bytes.fromhex(asked)) + opening.finalize()
        if block.endswith(_FILLING):
            return block[:8].hex()
    return UNKNOWN


def _cipher(secret: str) -> Cipher[ECB]:
    """One block under one key: equal causes have equal ids, and nothing else is told by them."""
    key = salted_hmac(_SALT, "", secret=secret, algorithm="sha256").digest()
    return Cipher(AES(key), ECB())  # noqa: S305 - of a single block, which no mode would chain
