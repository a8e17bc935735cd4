"""A digest of everything that is stored: what changes nothing leaves it as it was."""

from django.apps import apps
from django.db import connection

# What a session or a login leaves behind is no change of what Sluice does.
UNCOUNTED = frozenset(
    {"django_session", "console_consolesession", "auth_user", "django_migrations"}
)


def content() -> dict[str, str]:
    """A digest of every table, by name."""
    tables = {model._meta.db_table for model in apps.get_models(include_auto_created=True)}
    digests = []
    for table in sorted(tables - UNCOUNTED):
        # That somebody looked, or was refused, is noted, and no change either.
        only = "WHERE NOT is_access" if table == "integration_configurationchange" else ""
        rows = "string_agg(t::text, '|' ORDER BY t::text)"
        digests.append(f"SELECT '{table}', coalesce(md5({rows}), '') FROM {table} t {only}")
    with connection.cursor() as cursor:
        cursor.execute(" UNION ALL ".join(digests))
        return dict(cursor.fetchall())
