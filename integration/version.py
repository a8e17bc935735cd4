"""The version of Sluice that this process runs."""

from importlib.metadata import PackageNotFoundError, version
from typing import Final

# A checkout that was never installed has none.
UNKNOWN: Final = "unknown"


def sluice_version() -> str:
    try:
        return version("sluice")
    except PackageNotFoundError:
        return UNKNOWN
