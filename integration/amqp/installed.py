"""The library for AMQP 1.0 is an extra: what needs it is found by name, where it is installed."""

from importlib.util import find_spec
from typing import Any

from django.utils.module_loading import import_string

from integration.amqp.errors import JmsLibraryMissingError


def found(name: str) -> Any:
    """Return what `integration.amqp` has under this name. Raises JmsLibraryMissingError."""
    if find_spec("proton") is None:
        raise JmsLibraryMissingError
    return import_string(f"integration.amqp.{name}")
