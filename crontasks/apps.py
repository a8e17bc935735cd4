"""Registers the app with Django: finds every app's cron tasks, listens to workers and queues."""

from django.apps import AppConfig
from django.utils.module_loading import autodiscover_modules


class CrontasksConfig(AppConfig):
    """The app `crontasks`."""

    name = "crontasks"
    verbose_name = "Cron tasks"

    def ready(self) -> None:
        from crontasks import builtin
        from crontasks.dispatch import resident
        from crontasks.instances import registration

        builtin.register()
        autodiscover_modules("crontasks")
        registration.connect()
        resident.connect()
