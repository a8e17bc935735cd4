"""The wire format of registry messages: a zero byte, four bytes of schema id, then the body."""

from typing import Final

MAGIC: Final = 0
HEADER_BYTES: Final = 5
# UTF-16 begins with a zero byte as well, and then with a character of at least 0x20.
LARGEST_ID: Final = 2**29 - 1


def schema_id_of(value: bytes | None) -> int | None:
    """Return the schema's id, None for what is not in the wire format.

    >>> schema_id_of(bytes([0, 0, 0, 0, 7, 2]))
    7
    """
    if not value or value[0] != MAGIC or len(value) < HEADER_BYTES:
        return None
    number = int.from_bytes(value[1:HEADER_BYTES], "big")
    return number if 0 < number <= LARGEST_ID else None


def framed(schema_id: int, body: bytes) -> bytes:
    """Put the header before an encoded body.

    >>> framed(7, b"x").hex()
    '000000000778'
    """
    return bytes([MAGIC]) + schema_id.to_bytes(HEADER_BYTES - 1, "big") + body
