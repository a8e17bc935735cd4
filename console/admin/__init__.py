"""Django's admin: rows of the engine, read-only; importing them registers them.

Configuration and people are changed on the console's own pages alone, so that no change escapes the
audit. In another project the admin is the project's: nothing is added to it and nothing taken away.
"""

from importlib import import_module
from typing import Final

from django.conf import settings
from django.contrib import admin
from django.contrib.auth.models import Group, User

ROOMS: Final = ("crontasks", "documents", "records")

if not settings.SLUICE_IS_GUEST:
    # It registers what is taken back below.
    import_module("django.contrib.auth.admin")
    for _room in ROOMS:
        import_module(f"{__name__}.{_room}")
    admin.site.unregister((User, Group))
