"""Registers the app with Django."""

from django.apps import AppConfig


class IntegrationConfig(AppConfig):
    """The app `integration`."""

    name = "integration"
