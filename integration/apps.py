"""Registers the domain with Django and finds the handlers of the apps that have some."""

from django.apps import AppConfig


class IntegrationConfig(AppConfig):
    """The app `integration`."""

    name = "integration"
    default_auto_field = "django.db.models.BigAutoField"

    def ready(self) -> None:
        from integration import composition
        from integration.handlers.discovery import import_from_integrations

        composition.compose()
        import_from_integrations("handlers")
