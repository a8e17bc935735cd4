"""Whose database this is. A copy of a production database must not act anywhere else."""

from typing import Any, Final

from django.conf import settings

_FOREIGN: Final = "SELECT environment FROM integration_deployment WHERE environment <> %s LIMIT 1"


def foreign_environment(cursor: Any) -> str | None:  # noqa: ANN401 - psycopg's and Django's alike
    """The environment this database belongs to if that is not ours; None when it may act.

    Raises the cursor's own error when the database is away.
    """
    cursor.execute(_FOREIGN, (settings.SLUICE_ENVIRONMENT,))
    row = cursor.fetchone()
    return None if row is None else str(row[0])
