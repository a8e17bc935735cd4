"""Sluice's own Celery app: its broker and its settings (SLUICE_CELERY_…) are nobody else's."""

from typing import Final

from celery import Celery, _state

_before = _state.default_app  # type: ignore[attr-defined] # the stubs do not know it
# Never the current app of a process that is not Sluice's: a project's tasks go to its own.
app: Final = Celery("sluice", set_as_current=False)
# Celery's part for Django makes the first app the default one, whatever it was told.
_state.set_default_app(_before)
app.config_from_object("django.conf:settings", namespace="SLUICE_CELERY")
app.autodiscover_tasks(["crontasks"])
