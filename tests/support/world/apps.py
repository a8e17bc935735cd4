"""Registers the tests' own integration."""

from django.apps import AppConfig


class WorldConfig(AppConfig):
    """Handlers that do whatever a message tells them to, and tables that count what they did."""

    name = "tests.support.world"
    label = "world"
