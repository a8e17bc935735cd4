"""`manage.py bulk_import`: rows of files into the object store, in a Spark of its own."""

from crontasks.bulk.command import BulkCommand


class Command(BulkCommand):
    """One import; see docs/bulk.md."""

    job = "import"
    positional = ("source",)
    lines = {"columns": "map"}
    help = (
        "Imports rows of files into an object structure. Every row is stored, rejected with its "
        "line and reason into a queue's failures, or skipped for a newer document."
    )
