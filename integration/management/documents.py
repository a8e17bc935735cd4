"""The document that a command is given: in a file, or on its standard input."""

import sys
from pathlib import Path

from django.core.management.base import CommandError


def content_of(name: str) -> bytes:
    """The bytes of the file; "-" is standard input. Raises CommandError where it cannot be read."""
    if name == "-":
        return sys.stdin.buffer.read()
    try:
        return Path(name).read_bytes()
    except OSError as e:
        raise CommandError(f"{name} cannot be read: {e.strerror}.") from e
