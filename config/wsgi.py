"""The web server's entrance."""

import os
from importlib import import_module

from django.conf import settings
from django.core.wsgi import get_wsgi_application

os.environ.setdefault("DJANGO_SETTINGS_MODULE", "config.settings")
application = get_wsgi_application()
# With the first request it would be each process that loads all pages, for a second, and keeps
# them for itself; here it is once for all that are forked.
import_module(settings.ROOT_URLCONF)
