"""Settings with ways of their own; what Sluice needs are three of INSTALLED_APPS and the end."""

import os
from pathlib import Path
from urllib.parse import urlsplit

from sluice.settings import sluice_settings

BASE_DIR = Path(__file__).resolve().parent.parent
SECRET_KEY = "the shop's own"
ALLOWED_HOSTS = ["127.0.0.1"]
INSTALLED_APPS = [
    "people.apps.PeopleConfig",
    "orders",
    "plant",
    "django.contrib.admin",
    "django.contrib.auth",
    "django.contrib.contenttypes",
    "django.contrib.sessions",
    "django.contrib.messages",
    "django.contrib.staticfiles",
    "integration",
    "crontasks",
    "console",
]
MIDDLEWARE = [
    "django.middleware.security.SecurityMiddleware",
    "django.contrib.sessions.middleware.SessionMiddleware",
    "django.middleware.locale.LocaleMiddleware",
    "django.middleware.common.CommonMiddleware",
    "django.middleware.csrf.CsrfViewMiddleware",
    "django.contrib.auth.middleware.AuthenticationMiddleware",
    "django.contrib.auth.middleware.LoginRequiredMiddleware",
    "django.contrib.messages.middleware.MessageMiddleware",
]
ROOT_URLCONF = "shop.urls"
WSGI_APPLICATION = "shop.wsgi.application"
TEMPLATES = [
    {
        "BACKEND": "django.template.backends.django.DjangoTemplates",
        "DIRS": [BASE_DIR / "shop" / "templates"],
        "APP_DIRS": True,
        "OPTIONS": {
            "context_processors": [
                "django.template.context_processors.request",
                "django.contrib.auth.context_processors.auth",
                "django.contrib.messages.context_processors.messages",
            ]
        },
    }
]
_url = urlsplit(os.environ["SHOP_DATABASE_URL"])
DATABASES = {
    "default": {
        "ENGINE": "django.db.backends.postgresql",
        "NAME": _url.path.strip("/"),
        "USER": _url.username,
        "PASSWORD": _url.password or "",
        "HOST": _url.hostname,
        "PORT": str(_url.port),
        "ATOMIC_REQUESTS": True,
    },
    "archive": {"ENGINE": "django.db.backends.sqlite3", "NAME": BASE_DIR / "archive.sqlite3"},
}
DATABASE_ROUTERS = ["shop.routers.OrdersAreArchived"]
DEFAULT_AUTO_FIELD = "django.db.models.AutoField"
AUTH_USER_MODEL = "people.Person"
LOGIN_URL = "sign-in"
LANGUAGE_CODE = "de"
TIME_ZONE = "Europe/Berlin"
STATIC_URL = "/files/"
STATIC_ROOT = BASE_DIR / "collected"
CELERY_BROKER_URL = os.environ["SHOP_BROKER_URL"]

SLUICE_INTEGRATIONS = ["plant"]
SLUICE_ENVIRONMENT = "the shop's test"
sluice_settings(globals())
