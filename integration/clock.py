"""The one clock of times that are stored and compared: the database's."""

from django.db.models import DateTimeField, Func


def database_now() -> Func:
    """The database's time when the row is written, not when the transaction began."""
    return Func(function="clock_timestamp", output_field=DateTimeField())
