"""The commands that start what is missing, as they work in the project that Sluice runs in."""

from typing import Final

from django.conf import settings

ALL_SERVICES: Final = "python manage.py run_services"


def celery(words: str) -> str:
    """The command of one process of Celery; a guest's app finds the project by its settings."""
    command = f"celery -A {settings.SLUICE_APP} {words}"
    if not settings.SLUICE_IS_GUEST:
        return command
    return f"DJANGO_SETTINGS_MODULE={settings.SETTINGS_MODULE} {command}"


def start_one(words: str) -> str:
    """The sentence on how a process that is missing is started; in a guest's project with all."""
    if not settings.SLUICE_IS_GUEST:
        return f"Start one with `{celery(words)}`."
    return f"Start all services with `{ALL_SERVICES}`, or this one with `{celery(words)}`."
