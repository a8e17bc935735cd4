"""What `celery -A config` finds: Sluice's Celery app with the settings of this installation."""

import os

os.environ.setdefault("DJANGO_SETTINGS_MODULE", "config.settings")

from sluice.celery import app

__all__ = ["app"]
