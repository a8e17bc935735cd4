"""Registers the domain with Django and finds the handlers of every installed app."""

from django.apps import AppConfig
from django.utils.module_loading import autodiscover_modules


class IntegrationConfig(AppConfig):
    """The app `integration`."""

    name = "integration"

    def ready(self) -> None:
        from integration import composition

        composition.compose()
        autodiscover_modules("handlers")
