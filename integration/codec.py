"""Headers as JSON columns keep them: pairs in order, values in base64, a null value stays null."""

from base64 import b64decode, b64encode
from collections.abc import Iterable, Sequence


def encode_headers(headers: Iterable[tuple[str, bytes | None]] | None) -> list[list[str | None]]:
    """`[[name, base64 or None], …]`; repeated names and their order are kept.

    >>> encode_headers([("a", b"1"), ("a", None)])
    [['a', 'MQ=='], ['a', None]]
    """
    return [
        [_storable(name), None if value is None else b64encode(value).decode("ascii")]
        for name, value in headers or ()
    ]


def decode_headers(
    stored: Iterable[Sequence[str | None]] | None,
) -> list[tuple[str, bytes | None]]:
    """Undo encode_headers.

    >>> decode_headers([["a", "MQ=="], ["a", None]])
    [('a', b'1'), ('a', None)]
    """
    return [
        (str(name), None if value is None else b64decode(value)) for name, value in stored or ()
    ]


def _storable(name: str) -> str:
    """A header's name without the one character that PostgreSQL cannot keep in JSON."""
    return name.replace("\x00", "\ufffd") if "\x00" in name else name
