"""Registers the app with Django: finds the apps' cron tasks, listens to workers and queues."""

from django.apps import AppConfig


class CrontasksConfig(AppConfig):
    """The app `crontasks`."""

    name = "crontasks"
    verbose_name = "Cron tasks"
    default_auto_field = "django.db.models.BigAutoField"

    def ready(self) -> None:
        # Importing the cron tasks that come with Sluice registers them.
        from crontasks.builtin import (  # noqa: F401
            bulk_job,
            consumers,
            dead_letters,
            errors_cleanup,
            events,
            history_cleanup,
            lag_monitor,
            relay,
            reprocessing,
            rescue,
            retention_sync,
            xa_recovery,
        )
        from crontasks.dispatch import resident
        from crontasks.instances import registration
        from integration.handlers.discovery import import_from_integrations

        import_from_integrations("crontasks")
        registration.connect()
        resident.connect()
