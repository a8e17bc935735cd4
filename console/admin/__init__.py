"""Django's admin: rows of the engine, read-only; importing them registers them.

Configuration and people are changed on the console's own pages alone, so that no change escapes the
audit.
"""

from django.contrib import admin
from django.contrib.auth import admin as auth  # registers what is taken back below
from django.contrib.auth.models import Group, User

from console.admin import crontasks, documents, records

admin.site.unregister((User, Group))

__all__ = ["auth", "crontasks", "documents", "records"]
