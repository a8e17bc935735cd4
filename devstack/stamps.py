"""Remembers what a step was done for, so that the next start does it only if that has changed."""

import hashlib
from collections.abc import Iterable
from pathlib import Path


def digest(files: Iterable[Path], *also: str) -> str:
    """Hash the contents of files and some words; a file that is missing counts as empty."""
    total = hashlib.sha256()
    for file in files:
        content = file.read_bytes() if file.exists() else b""
        total.update(hashlib.sha256(content).digest())
    total.update("\0".join(also).encode())
    return total.hexdigest()


def is_done(stamp: Path, digested: str) -> bool:
    return stamp.exists() and stamp.read_text().strip() == digested


def mark_done(stamp: Path, digested: str) -> None:
    stamp.parent.mkdir(parents=True, exist_ok=True)
    stamp.write_text(digested + "\n")
