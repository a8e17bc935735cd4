"""What `celery -A sluice` finds: the app, in a process that is Sluice's own."""

import os

from crontasks.celery_app import app

# `migrate` makes Django's system checks; for them each worker would load every page of the console.
os.environ.setdefault("CELERY_SKIP_CHECKS", "1")
app.set_current()
app.set_default()

__all__ = ["app"]
