"""Registers the app with Django: finds every app's cron tasks, listens to workers and queues."""

from django.apps import AppConfig
from django.utils.module_loading import autodiscover_modules


class CrontasksConfig(AppConfig):
    """The app `crontasks`."""

    name = "crontasks"
    verbose_name = "Cron tasks"

    def ready(self) -> None:
        # Importing the cron tasks that come with Sluice registers them.
        from crontasks.builtin import (  # noqa: F401
            bulk_job,
            consumers,
            dead_letters,
            errors_cleanup,
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

        autodiscover_modules("crontasks")
        registration.connect()
        resident.connect()
