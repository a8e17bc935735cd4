"""Registers the domain with Django and finds the handlers of the apps that have some."""

from django.apps import AppConfig
from django.conf import settings
from django.core.exceptions import ImproperlyConfigured

# Here, since Django loads this before anything that reads a setting.
if not hasattr(settings, "SLUICE_APP"):
    message = (
        "The settings are without Sluice's: call sluice_settings(globals()), from sluice.settings, "
        "on the last line of the settings module."
    )
    raise ImproperlyConfigured(message)


class IntegrationConfig(AppConfig):
    """The app `integration`."""

    name = "integration"
    default_auto_field = "django.db.models.BigAutoField"

    def ready(self) -> None:
        from integration import composition
        from integration.handlers.discovery import import_from_integrations

        composition.compose()
        import_from_integrations("handlers")
