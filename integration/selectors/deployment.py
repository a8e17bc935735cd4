"""Whether this database belongs to this installation, and whether it answers."""

from django.conf import settings
from django.db import DatabaseError, connection

from integration.models import Deployment


def foreign_environment() -> str | None:
    """The environment this database was made for, when it is not the one configured here."""
    stored = Deployment.objects.values_list("environment", flat=True).first()
    return stored if stored and stored != settings.SLUICE_ENVIRONMENT else None


def database_answers() -> bool:
    """Whether a trivial statement gets an answer."""
    try:
        with connection.cursor() as cursor:
            cursor.execute("SELECT 1")
            return bool(cursor.fetchone() == (1,))
    except DatabaseError:
        return False
