"""The Celery application; its settings are Django's, prefixed CELERY_."""

import os

from celery import Celery

os.environ.setdefault("DJANGO_SETTINGS_MODULE", "config.settings")
# `migrate` makes Django's system checks; for them each worker would load every page of the console.
os.environ.setdefault("CELERY_SKIP_CHECKS", "1")

app = Celery("sluice")
app.config_from_object("django.conf:settings", namespace="CELERY")
app.autodiscover_tasks(["crontasks"])
