"""Which apps have handlers and cron tasks: those named in SLUICE_INTEGRATIONS, and no other.

A module `handlers` of another app in the project may be about something else.
"""

from collections.abc import Iterator
from importlib import import_module

from django.apps import apps
from django.conf import settings
from django.utils.module_loading import module_has_submodule


def import_from_integrations(module: str) -> None:
    """Import the module of this name of each integration that has one: so it is registered.

    Raises ImportError for a module that is there and cannot be imported.
    """
    for package in _packages():
        if module_has_submodule(import_module(package), module):
            import_module(f"{package}.{module}")


def _packages() -> Iterator[str]:
    """The integrations' packages; each may be named as in INSTALLED_APPS, or by its label."""
    named = set(settings.SLUICE_INTEGRATIONS)
    for app in apps.get_app_configs():
        config = f"{type(app).__module__}.{type(app).__qualname__}"
        if named & {app.name, app.label, config}:
            yield app.name
