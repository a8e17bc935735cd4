"""The installation: settings from the environment, addresses, entrances, the Celery app."""

from config.celery import app as celery_app

__all__ = ["celery_app"]
