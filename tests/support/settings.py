"""Settings for tests and type checks: what the environment does not say gets a harmless value."""

import os

os.environ.setdefault("SLUICE_DATABASE_URL", "postgresql://postgres@127.0.0.1:5432/sluice")
os.environ.setdefault("SLUICE_CELERY_BROKER_URL", "redis://127.0.0.1:6379/0")
os.environ.setdefault("SLUICE_SECRET_KEY", "only-for-tests")
os.environ.setdefault("SLUICE_ENCRYPTION_KEYS", "c2x1aWNlLXRlc3RzLW9ubHktMzItYnl0ZXMtbG9uZyE=")
os.environ.setdefault("SLUICE_ENVIRONMENT", "test")
os.environ.setdefault("SLUICE_INTEGRATIONS", "sample,payments,tests.support.world")

from config.settings import *  # noqa: F403 - the environment has to be complete before

PASSWORD_HASHERS = ["django.contrib.auth.hashers.MD5PasswordHasher"]
# Pages find their files where they lie; nothing has to be collected for a test.
WHITENOISE_AUTOREFRESH = True
WHITENOISE_USE_FINDERS = True
STORAGES = {
    **STORAGES,  # noqa: F405 - as above
    "staticfiles": {"BACKEND": "django.contrib.staticfiles.storage.StaticFilesStorage"},
}
