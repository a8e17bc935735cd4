"""`manage.py bulk_reconcile`: what became of each message of a topic, in a Spark of its own."""

from crontasks.bulk.command import BulkCommand


class Command(BulkCommand):
    """One reconciliation; see docs/bulk-topics.md."""

    job = "reconcile"
    positional = ("queue",)
    help = (
        "Compares a topic with what the database says happened to each offset, and names those "
        "that were lost, doubled, superseded, held or deleted, and what is still to come."
    )
