"""`manage.py bulk_import`: rows of files into the object store or a queue, on Spark."""

from crontasks.bulk.command import BulkCommand


class Command(BulkCommand):
    """One import; see docs/bulk.md."""

    job = "import"
    positional = ("source",)
    lines = {"columns": "map"}
    help = (
        "Imports rows of files into an object structure, or into a queue. Every row is stored or "
        "sent, rejected with its line and reason into a queue's failures, or skipped for a newer "
        "document."
    )
