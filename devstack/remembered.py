"""Notes of the last start: the next one compares with them, and keeps its apps."""

import json
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from devstack import keys

INTEGRATIONS = "SLUICE_INTEGRATIONS"
AT_FIRST = "sample"


def read(file: Path) -> dict[str, Any]:
    """Read a file of JSON; nothing before the first start, or when it is damaged."""
    try:
        stored = json.loads(file.read_text())
    except (OSError, ValueError):
        return {}
    return stored if isinstance(stored, dict) else {}


def write(file: Path, settings: Mapping[str, str]) -> None:
    # A mail server's password may be among them.
    keys.write_private(file, json.dumps(settings, indent=1, sort_keys=True) + "\n")


def changed(stored: Mapping[str, str], settings: Mapping[str, str]) -> list[str]:
    """Name the settings that differ. Nothing is known of a stack that never started."""
    if not stored:
        return []
    return sorted(
        name for name in {*stored, *settings} if stored.get(name, "") != settings.get(name, "")
    )


def integrations(stored: Mapping[str, str], variables: Mapping[str, str]) -> str:
    """The apps with handlers: as the shell says, else as at the last start, else the sample."""
    return variables.get(INTEGRATIONS, stored.get(INTEGRATIONS, AT_FIRST))
