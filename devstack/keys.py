"""The secrets of this machine's stack: made once, readable by their owner only."""

import base64
import json
import os
import secrets
from pathlib import Path

ADMINISTRATOR = "admin"


def read_or_make(file: Path) -> dict[str, str]:
    """Return the secrets as environment variables, making those that are missing."""
    stored = _read(file)
    made = {
        "SLUICE_SECRET_KEY": stored.get("SLUICE_SECRET_KEY") or secrets.token_urlsafe(48),
        "SLUICE_ENCRYPTION_KEYS": stored.get("SLUICE_ENCRYPTION_KEYS") or encryption_key(),
        "SLUICE_ADMIN_PASSWORD": stored.get("SLUICE_ADMIN_PASSWORD") or secrets.token_urlsafe(12),
    }
    if made != stored:
        write_private(file, json.dumps(made, indent=1) + "\n")
    return made


def encryption_key() -> str:
    """Make a Fernet key: 32 random bytes in URL-safe base64."""
    return base64.urlsafe_b64encode(secrets.token_bytes(32)).decode()


def write_private(file: Path, text: str) -> None:
    """Write a file that nobody else could read even for a moment."""
    file.parent.mkdir(parents=True, exist_ok=True)
    partial = file.with_suffix(".new")
    partial.unlink(missing_ok=True)
    descriptor = os.open(partial, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600)
    with os.fdopen(descriptor, "w") as opened:
        opened.write(text)
    partial.replace(file)


def _read(file: Path) -> dict[str, str]:
    # A file that cannot be read is an error, not a reason for new keys: what was encrypted with
    # the old ones would be lost.
    return dict(json.loads(file.read_text())) if file.exists() else {}
