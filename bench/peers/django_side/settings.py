"""The settings of a project that has django-kafka and nothing else."""

import os
from urllib.parse import urlsplit

_database = urlsplit(os.environ["SLUICE_DATABASE_URL"])
SECRET_KEY = "of the benchmark alone"  # noqa: S105 - nothing is signed with it
USE_TZ = True
INSTALLED_APPS = ["django_kafka", "bench.peers.django_side"]
DATABASES = {
    "default": {
        "ENGINE": "django.db.backends.postgresql",
        "NAME": _database.path.strip("/"),
        "USER": _database.username,
        "PASSWORD": _database.password or "",
        "HOST": _database.hostname,
        "PORT": _database.port,
    }
}
DJANGO_KAFKA = {
    "GLOBAL_CONFIG": {"bootstrap.servers": os.environ["SLUICE_KAFKA_BOOTSTRAP"]},
}
