"""A copy of a production database must not act: its environment's name gives it away."""

from django.conf import settings

from crontasks.cursor import Cursor


def foreign_environment(cursor: Cursor) -> str | None:
    """The environment this database belongs to if that is not ours; None when it may act."""
    cursor.execute(
        "SELECT environment FROM integration_deployment WHERE environment <> %s LIMIT 1",
        (settings.SLUICE_ENVIRONMENT,),
    )
    row = cursor.fetchone()
    return None if row is None else str(row[0])
