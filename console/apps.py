"""Registers the app with Django."""

from django.apps import AppConfig


class ConsoleConfig(AppConfig):
    """The app `console`."""

    name = "console"
